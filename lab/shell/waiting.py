"""Tools whose answer depends on somebody else: a partner node, a server beside them, the cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from lab.shell.call import Call
from lab.shell.kubeadm import kubeadm
from lab.shell.nccl_pair import nccl_pair
from lab.shell.perftest import ib_write_bw
from lab.shell.reply import Reply

WAITING: dict[str, Callable[[Call], Awaitable[Reply]]] = {
    "rackmint-nccl-pair": nccl_pair,
    "ib_write_bw": ib_write_bw,
    "kubeadm": kubeadm,
}
