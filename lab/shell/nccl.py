"""nccl-tests: the table of sizes, times and bandwidths, with NCCL's log before it when that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.loads import begin_load, jitter
from lab.shell.nccl_log import Rank, log_lines, ranks_of
from lab.shell.nccl_speed import factor, inside_gb_s, network_gb_s
from lab.shell.node import fabric_ready, has_driver
from lab.shell.reply import Reply, lines, refused
from lab.shell.tree import host_name

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LATENCY_US = 30.0  # of the smallest message; our choice, some 30 us on eight GPUs
_TAKES_S = 40.0  # a full sweep to 8 GiB with 20 iterations; our choice
_PIDS = count(30_001)

_TITLES = (
    "#                                                              out-of-place                       in-place",
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
)


def nccl_tests(call: Call) -> Reply:
    """One node's run."""
    trouble = cuda_trouble(call.machine, int(call.option("-g", "--ngpus", default="1")))
    return trouble or nccl_run(call, [call.machine])


def cuda_trouble(machine: Machine, wanted: int) -> Reply | None:
    """Why the test cannot even begin, in nccl-tests' words; None when it can."""
    host, found = host_name(machine), len(machine.state.gpus_present)
    if not machine.software.get("nccl_tests"):
        return refused("all_reduce_perf: command not found", 127)
    if not has_driver(machine):
        return _failure(host, "no CUDA-capable device is detected")
    if not fabric_ready(machine):
        return _failure(host, "system not yet initialized")
    if wanted > found:
        return Reply(f"Invalid number of GPUs: {wanted} requested but only {found} were found.\n", "", 1)
    return None


def _failure(host: str, text: str) -> Reply:
    pid = next(_PIDS)
    return Reply(
        lines(f"{host}: Test CUDA failure common.cu:894 '{text}'", f" .. {host} pid {pid}: Test failure"), "", 2
    )


def nccl_run(call: Call, machines: Sequence[Machine]) -> Reply:
    """The whole output of a run over these nodes."""
    for machine in machines:
        load = begin_load(machine, machine.state.gpus_present)
    ranks = ranks_of(machines, next(_PIDS))
    rows = [*_header(call, ranks), *log_lines(ranks, call.env), *_TITLES, *_table(call, machines, len(ranks), load)]
    return Reply(lines(*rows), takes_s=_TAKES_S)


def _header(call: Call, ranks: list[Rank]) -> Iterator[str]:
    version = call.machine.software.get("nccl_tests", "")
    if _from(version, (2, 17, 4)):
        yield f"# nccl-tests version {version} nccl-headers=22602 nccl-library=22602"
    if _from(version, (2, 17, 0)):
        yield f"# Collective test starting: {_collective(call)}_perf"
    begin, end = _sizes(call)[0], _sizes(call)[-1]
    yield (
        f"# nThread 1 nGpus {call.option('-g', '--ngpus', default='1')} minBytes {begin} maxBytes {end} "
        f"step: {call.option('-f', '--stepfactor', default='2')}(factor) "
        f"warmup iters: {call.option('-w', default='1')} iters: {call.option('-n', default='20')} "
        f"agg iters: 1 validation: {call.option('-c', default='1')} graph: 0"
    )
    yield "#"
    yield "# Using devices"
    for rank in ranks:
        gpu = rank.machine.state.gpus[rank.device]
        yield (
            f"#  Rank {rank.number:2d} Group  0 Pid {rank.pid:6d} on {rank.host:>10} device {rank.device:2d} "
            f"[{gpu.pci_address}] {gpu.model}"
        )
    yield "#"


def _from(version: str, least: tuple[int, ...]) -> bool:
    return tuple(int(part) for part in version.split(".") if part.isdigit()) >= least


def _collective(call: Call) -> str:
    return call.argv[0].rpartition("/")[2].removesuffix("_perf")


def _sizes(call: Call) -> list[int]:
    begin, end = (
        _bytes(call.option("-b", "--minbytes", default="32M")),
        _bytes(call.option("-e", "--maxbytes", default="32M")),
    )
    step = max(2, int(call.option("-f", "--stepfactor", default="2")))
    sizes = [begin]
    while sizes[-1] * step <= end:
        sizes.append(sizes[-1] * step)
    return sizes


def _bytes(text: str) -> int:
    return int(float(text[:-1]) * _UNITS[text[-1].upper()]) if text[-1].upper() in _UNITS else int(text)


def _table(call: Call, machines: Sequence[Machine], ranks: int, load: int) -> Iterator[str]:
    plateau, collective = _plateau(call, machines), _collective(call)
    checked = call.option("-c", "--check", default="1") != "0"
    figures: list[float] = []
    for size in _sizes(call):
        cells = [_figures(call, size, plateau, ranks, f"{load}/{place}") for place in ("out", "in")]
        figures += [busbw for _, _, busbw in cells]
        redop = "sum" if collective in {"all_reduce", "reduce_scatter"} else "none"
        groups = "".join(f"{_time(t)} {alg:7.2f} {bus:7.2f} {'0' if checked else 'N/A':>6}" for t, alg, bus in cells)
        elements = size // 4 // (1 if collective == "all_reduce" else ranks)
        yield f"{size:12d} {elements:13d} {'float':>9} {redop:>7} {-1:7d}{groups}"
    yield f"# Out of bounds values : 0 {'OK' if checked else 'N/A'}"
    yield f"# Avg bus bandwidth    : {sum(figures) / len(figures):g} "
    yield "#"
    if _from(call.machine.software.get("nccl_tests", ""), (2, 17, 0)):
        yield f"# Collective test concluded: {collective}_perf"


def _plateau(call: Call, machines: Sequence[Machine]) -> float:
    """Through the network between nodes or when asked for, else inside the node."""
    asked_net = call.env.get("NCCL_P2P_DISABLE") == "1" and call.env.get("NCCL_SHM_DISABLE") == "1"
    if len(machines) > 1 or asked_net:
        return network_gb_s(machines, call.env)
    return inside_gb_s(call.machine, _collective(call), call.env)


def _figures(call: Call, size: int, plateau: float, ranks: int, about: str) -> tuple[float, float, float]:
    """Time (us), algorithm and bus bandwidth (GB/s): a fixed latency and then the plateau's pace."""
    share = factor(_collective(call), ranks)
    pace = plateau * jitter(call.machine, about, size) / share
    time_us = _LATENCY_US + size / pace / 1e3
    algbw = size / time_us / 1e3
    return time_us, algbw, algbw * share


def _time(time_us: float) -> str:
    decimals = 0 if time_us >= 10_000 else (1 if time_us >= 100 else 2)
    return f" {time_us:8.{decimals}f}"
