"""`nvidia-smi`: the list, the query, the XML, topology and NVLink views of a node's GPUs."""

from __future__ import annotations

from lab.hardware import GpuState
from lab.shell import smi_xml
from lab.shell.call import Call
from lab.shell.node import Booted, has_driver, memory
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


def _view(machine: Booted, gpus: list[GpuState], arguments: list[str]) -> Reply:
    match arguments:
        case ["topo", *_]:
            return topology(machine, gpus)
        case ["nvlink", *rest]:
            return nvlink(machine, gpus, rest)
        case ["-L"] | ["--list-gpus"]:
            return said(*(f"GPU {gpu.index}: {gpu.model} (UUID: GPU-{gpu.uuid})" for gpu in gpus))
        case ["--version"]:
            return _version(machine)
        case ["-pm", state]:
            return _persistence(machine, gpus, state)
        case []:
            return _table(machine, gpus)
    if any(argument.startswith("--query-gpu") for argument in arguments):
        return query_gpu(machine, gpus, arguments)
    if {"-q", "--query"} & set(arguments) and {"-x", "--xml-format"} & set(arguments):
        return Reply(smi_xml.document(machine, gpus), takes_s=3.0)
    return refused("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.", 2)


def _with_lost(machine: Booted, reply: Reply) -> Reply:
    """A GPU off the bus is missing from every view; nvidia-smi says so on the side and goes on with the rest."""
    lost = [gpu for gpu in machine.state.gpus if not gpu.present]
    if reply.exit or not lost:
        return reply
    rows = [f"Unable to determine the device handle for GPU{g.index}: {g.pci_address}: Unknown Error" for g in lost]
    return Reply(reply.stdout, lines(*rows), 0, reply.takes_s)


def _persistence(machine: Booted, gpus: list[GpuState], state: str) -> Reply:
    stopped = memory(machine).stopped
    (stopped.discard if state == "1" else stopped.add)("nvidia-persistenced")
    word = "Enabled" if state == "1" else "Disabled"
    rows = [f"{word} persistence mode for GPU {smi_xml.long_address(gpu)}." for gpu in gpus]
    return said(*rows, "All done.")


def _version(machine: Booted) -> Reply:
    driver = machine.software["driver"]
    return said(
        f"NVIDIA-SMI version  : {driver}",
        f"NVML version        : {driver.rpartition('.')[0]}",
        f"DRIVER version      : {driver}",
        f"CUDA Version        : {smi_xml.cuda_of_driver(machine)}",
    )


def _table(machine: Booted, gpus: list[GpuState]) -> Reply:
    rows = [f"| {g.index:>3}  {g.model:<28} On | {smi_xml.long_address(g)} Off | 0 |" for g in gpus]
    driver, cuda = machine.software["driver"], smi_xml.cuda_of_driver(machine)
    return said(f"| NVIDIA-SMI {driver}   Driver Version: {driver}   CUDA Version: {cuda} |", *rows)
