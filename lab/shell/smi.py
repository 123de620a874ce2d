"""`nvidia-smi`: the list, the query, the XML, topology and NVLink views of a node's GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell import smi_xml
from lab.shell.call import Call
from lab.shell.node import has_driver, memory
from lab.shell.reply import Reply, lines, refused, said
from lab.shell.smi_nvlink import nvlink
from lab.shell.smi_query import query_gpu
from lab.shell.smi_topology import topology

# Exit 9 and the sentence: what nvidia-smi says when the kernel module is not loaded.
_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)


def nvidia_smi(call: Call) -> Reply:
    """The tool itself: refuses without a driver, else shows the view that is asked for."""
    machine = call.machine
    if not machine.software.get("driver"):
        return refused("nvidia-smi: command not found", 127)
    if not has_driver(machine):
        return Reply(lines(_NO_DRIVER, ""), "", 9)
    gpus = machine.state.gpus_present
    if not gpus:
        return said("No devices were found")
    return _with_lost(machine, _view(machine, gpus, call.arguments))


def _view(machine: Machine, gpus: list[GpuState], arguments: list[str]) -> Reply:
    if any(argument.startswith("--query-gpu") for argument in arguments):
        return query_gpu(machine, gpus, arguments)
    if {"-q", "--query"} & set(arguments) and {"-x", "--xml-format"} & set(arguments):
        return Reply(smi_xml.document(machine, gpus), takes_s=3.0)
    view = _VIEWS.get(arguments[0] if arguments else "")
    if view is None:
        return refused("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.", 2)
    return view(machine, gpus, arguments[1:])


def _list(machine: Machine, gpus: list[GpuState], rest: list[str]) -> Reply:
    return said(*(f"GPU {gpu.index}: {gpu.model} (UUID: GPU-{gpu.uuid})" for gpu in gpus))


def _with_lost(machine: Machine, reply: Reply) -> Reply:
    """A GPU off the bus is missing from every view; nvidia-smi says so and goes on with the rest, exit 0.

    Before a document or a list it says so on standard output, else on the other. Source: dcgm-exporter issue 604.
    """
    lost = [gpu for gpu in machine.state.gpus if not gpu.present]
    if reply.exit or not lost:
        return reply
    said = lines(
        *(f"Unable to determine the device handle for GPU{g.index}: {g.pci_address}: Unknown Error" for g in lost)
    )
    if reply.stdout.startswith(("<?xml", "GPU ")):
        return replace(reply, stdout=said + reply.stdout)
    return replace(reply, stderr=said)


def _persistence(machine: Machine, gpus: list[GpuState], rest: list[str]) -> Reply:
    state = rest[0] if rest else "1"
    stopped = memory(machine).stopped
    (stopped.discard if state == "1" else stopped.add)("nvidia-persistenced")
    word = "Enabled" if state == "1" else "Disabled"
    rows = [f"{word} persistence mode for GPU {smi_xml.long_address(gpu)}." for gpu in gpus]
    return said(*rows, "All done.")


def _version(machine: Machine, gpus: list[GpuState], rest: list[str]) -> Reply:
    driver = machine.software["driver"]
    return said(
        f"NVIDIA-SMI version  : {driver}",
        f"NVML version        : {driver.rpartition('.')[0]}",
        f"DRIVER version      : {driver}",
        f"CUDA Version        : {smi_xml.cuda_of_driver(machine)}",
    )


def _table(machine: Machine, gpus: list[GpuState], rest: list[str]) -> Reply:
    rows = [f"| {g.index:>3}  {g.model:<28} On | {smi_xml.long_address(g)} Off | 0 |" for g in gpus]
    driver, cuda = machine.software["driver"], smi_xml.cuda_of_driver(machine)
    return said(f"| NVIDIA-SMI {driver}   Driver Version: {driver}   CUDA Version: {cuda} |", *rows)


View = Callable[[Machine, list[GpuState], list[str]], Reply]
_VIEWS: dict[str, View] = {
    "": _table,
    "-L": _list,
    "--list-gpus": _list,
    "-pm": _persistence,
    "--version": _version,
    "topo": lambda machine, gpus, rest: topology(machine, gpus),
    "nvlink": nvlink,
}
