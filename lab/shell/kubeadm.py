"""`kubeadm`: version, `join --config FILE`, `reset -f`."""

from __future__ import annotations

import aiohttp

from lab.shell.call import Call
from lab.shell.kubeadm_join import JoinConfig, JoinFailed, Joining
from lab.shell.node import memory
from lab.shell.reply import Reply, lines, refused, said
from lab.shell.tree import files
from lab.shell.versions import not_installed

_HELP = "To see the stack trace of this error execute with --v=5 or higher"
_TRANSPORT_S = 20.0

_JOINED = (
    "",
    "This node has joined the cluster:",
    "* Certificate signing request was sent to apiserver and a response was received.",
    "* The Kubelet was informed of the new secure connection details.",
    "",
    "Run 'kubectl get nodes' on the control-plane to see this node join the cluster.",
)


async def kubeadm(call: Call) -> Reply:
    """One sub-command."""
    version = call.machine.software.get("kubeadm", "")
    if not version:
        return not_installed("kubeadm")
    match call.arguments:
        case ["version", *rest]:
            short = "short" in rest or "-o=short" in rest
            return said(f"v{version}" if short else f'kubeadm version: &version.Info{{GitVersion:"v{version}"}}')
        case ["join", *_]:
            return await _join(call)
        case ["reset", *_]:
            return _reset(call)
    return refused(f'unknown command "{" ".join(call.arguments)}" for "kubeadm"', 1)


async def _join(call: Call) -> Reply:
    """Join with what the uploaded file says; the node's cluster membership is set only at the very end."""
    path = call.path(call.option("--config"))
    text = files(call.machine).get(path)
    if text is None:
        return _failed(f'unable to read config from "{path}": open {path}: no such file or directory')
    if call.machine.joined is not None:
        return _failed(
            "error execution phase preflight: [preflight] Some fatal errors occurred:\n"
            "\t[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists\n"
            "[preflight] If you know what you are doing, you can make a check non-fatal with "
            "`--ignore-preflight-errors=...`"
        )
    try:
        config = JoinConfig.read(text, call.machine)
        timeout = aiohttp.ClientTimeout(total=_TRANSPORT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            await Joining(call.machine, config, session).run()
    except (ValueError, JoinFailed) as trouble:
        return _failed(str(trouble))
    except (TimeoutError, aiohttp.ClientError) as trouble:
        return _failed(f"error execution phase kubelet-start: {trouble}")
    call.machine.joined = {"node": config.node, "server": config.server}
    memory(call.machine).stopped.discard("kubelet")
    head = ("[preflight] Running pre-flight checks", "[kubelet-start] Starting the kubelet")
    return said(*head, *_JOINED, takes_s=2.0)


def _failed(text: str) -> Reply:
    return Reply("", lines(*text.splitlines(), _HELP), 1, takes_s=1.0)


def _reset(call: Call) -> Reply:
    """Leave the cluster from the node's side; the Node object stays, as in life."""
    if not call.has("-f", "--force"):
        return refused("error: aborted reset operation: EOF")
    call.machine.joined = None
    return said("[preflight] Running pre-flight checks", "[reset] Stopping the kubelet service", takes_s=3.0)
