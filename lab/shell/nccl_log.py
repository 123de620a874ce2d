"""NCCL's own log, as NCCL_DEBUG=INFO writes it: which network was found and by which way every channel goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.machine import Machine
from lab.shell.nccl_speed import adapters, has_gdr, has_nvlink, uses_nvls
from lab.shell.net_state import MANAGEMENT
from lab.shell.tree import host_name

_CHANNELS = 2  # per pair of ranks; a real run shows 16 or more, which tells nothing new


@dataclass(frozen=True, slots=True)
class Rank:
    """One GPU in the run."""

    number: int
    machine: Machine
    device: int  # nvidia-smi index
    host: str
    pid: int


def ranks_of(machines: Sequence[Machine], pid: int) -> list[Rank]:
    """All GPUs of all nodes, in order."""
    gpus = [(machine, gpu) for machine in machines for gpu in machine.state.gpus_present]
    return [Rank(n, m, gpu.index, host_name(m), pid + machines.index(m)) for n, (m, gpu) in enumerate(gpus)]


def log_lines(ranks: list[Rank], env: Mapping[str, str]) -> list[str]:
    """The log, empty unless it was asked for."""
    if env.get("NCCL_DEBUG", "").upper() not in {"INFO", "TRACE"}:
        return []
    return list(_lines(ranks, env))


def _lines(ranks: list[Rank], env: Mapping[str, str]) -> Iterator[str]:
    software = ranks[0].machine.software
    yield f"NCCL version {software.get('nccl', '')}+cuda{software.get('cuda', '')}"
    for rank in ranks:
        yield from (f"{_prefix(rank)} NCCL INFO {text}" for text in _network(rank.machine, env))
    for rank, to in zip(ranks, [*ranks[1:], ranks[0]], strict=True):
        yield from _channels(rank, to, env)
    for rank in ranks:
        yield from (f"{_prefix(rank)} NCCL INFO {text}" for text in _nvls(rank, ranks, env))
        yield f"{_prefix(rank)} NCCL INFO Connected all rings"


def _prefix(rank: Rank) -> str:
    return f"{rank.host}:{rank.pid}:{rank.pid + 40 + rank.device} [{rank.device}]"


def _network(machine: Machine, env: Mapping[str, str]) -> Iterator[str]:
    yield f"Bootstrap: Using {MANAGEMENT}"
    found = adapters(machine, env)
    if not found:
        yield "NET/IB : No device found."
        yield f"NET/Socket : Using [0]{MANAGEMENT}"
        yield "Using network Socket"
        return
    names = " ".join(f"[{n}]{nic.name}:1/{_layer(nic.link_layer)}" for n, nic in enumerate(found))
    yield f"NET/IB : Using {names} [RO]; OOB {MANAGEMENT}"
    yield "Using network IB"


def _layer(link_layer: str) -> str:
    return "IB" if link_layer == "InfiniBand" else "RoCE"


def _channels(rank: Rank, to: Rank, env: Mapping[str, str]) -> Iterator[str]:
    for channel in range(_CHANNELS):
        hop = f"Channel {channel:02d}/0 : {rank.number}[{rank.device}] -> {to.number}[{to.device}]"
        if rank.machine is to.machine and not _through_network(env):
            yield f"{_prefix(rank)} NCCL INFO {hop} via {_inside(rank, to, env)}"
        else:
            yield f"{_prefix(to)} NCCL INFO {hop} [receive] via {_outside(to, env)}"
            yield f"{_prefix(rank)} NCCL INFO {hop} [send] via {_outside(rank, env)}"


def _through_network(env: Mapping[str, str]) -> bool:
    return env.get("NCCL_P2P_DISABLE") == "1" and env.get("NCCL_SHM_DISABLE") == "1"


def _inside(rank: Rank, to: Rank, env: Mapping[str, str]) -> str:
    far = not has_nvlink(rank.machine.state) and rank.device // 4 != to.device // 4  # other socket, no NVLink
    return "SHM/direct/direct" if far or env.get("NCCL_P2P_DISABLE") == "1" else "P2P/CUMEM"


def _outside(rank: Rank, env: Mapping[str, str]) -> str:
    found = adapters(rank.machine, env)
    if not found:
        return "NET/Socket/0"
    number = rank.device % len(found)
    return f"NET/IB/{number}" + ("/GDRDMA" if has_gdr(rank.machine, found[number], env) else "")


def _nvls(rank: Rank, ranks: list[Rank], env: Mapping[str, str]) -> Iterator[str]:
    if not uses_nvls(rank.machine, env):
        return
    beside = sum(other.machine is rank.machine for other in ranks)
    yield f"NVLS multicast support is available on dev {rank.device} (NVLS_NCHANNELS 16)"
    yield (
        f"NVLS comm 0x55d0c0{rank.number:06x} headRank {rank.device} nHeads {beside} buffSize 1048576 "
        f"nvlsPerRankSize 184549376 nvlsTotalSize {184549376 * beside}"
    )
