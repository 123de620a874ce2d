"""`ib_write_bw`: a server waits on a port, a client writes to it, and both print what the slower adapter reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from lab.hardware import NicState
from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.loads import jitter
from lab.shell.meeting import Meeting, address_of, open_meetings
from lab.shell.node import memory
from lab.shell.reply import Reply, lines, refused

_SHARE = 0.98  # of the adapter's rate that RDMA writes reach: 392 of 400 Gbit/s
_LANE_GBIT_S = 31.5  # PCIe 5.0, one lane, one way, after encoding
_TAKES_S = 3.0
_VALUED = {"-d", "-p", "-q", "-s", "-n", "-D", "-x", "--use_cuda", "-i", "-t", "-m"}


async def ib_write_bw(call: Call) -> Reply:
    """Server without a host name, client with one."""
    nic = next((nic for nic in call.state.nics if nic.name == call.option("-d", "--ib-dev", default="mlx5_0")), None)
    if nic is None:
        return refused(" Unable to find the Infiniband/RoCE device\n Couldn't initialize context")
    if not nic.link_up:
        return refused(f" Port number 1 state is Down\n Couldn't set the link layer of {nic.name}")
    host = _host(call)
    return await (_write(call, nic, host) if host else _listen(call, nic))


def _host(call: Call) -> str:
    words = iter(call.arguments)
    for word in words:
        if word in _VALUED:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


async def _listen(call: Call, nic: NicState) -> Reply:
    """Wait for a client for as long as one lets it."""
    key = (address_of(call.machine), call.option("-p", "--port", default="18515"))
    if key in open_meetings:
        return refused(" Couldn't bind: Address already in use")
    meeting = open_meetings[key] = Meeting(call)
    try:
        client = await meeting.partner
    finally:
        open_meetings.pop(key, None)
    return _table(call, nic, _adapter(client))


async def _write(call: Call, nic: NicState, host: str) -> Reply:
    address = address_of(call.machine) if host in {"localhost", "127.0.0.1"} else host
    meeting = open_meetings.get((address, call.option("-p", "--port", default="18515")))
    if meeting is None or meeting.partner.done():
        return refused(
            f" Couldn't connect to {host}:{call.option('-p', default='18515')}\n Unable to open file descriptor"
        )
    meeting.partner.set_result(call)
    await asyncio.sleep(0)
    return _table(call, nic, _adapter(meeting.host))


def _adapter(call: Call) -> tuple[Machine, NicState]:
    name = call.option("-d", "--ib-dev", default="mlx5_0")
    return call.machine, next(nic for nic in call.state.nics if nic.name == name)


def write_gbit_s(nic: NicState) -> float:
    """What one adapter reaches: its rate or its PCIe link, times its health."""
    return min(nic.rate_gbit_s * _SHARE, nic.pcie_width * _LANE_GBIT_S * _SHARE) * nic.speed


def _table(call: Call, nic: NicState, other: tuple[Machine, NicState]) -> Reply:
    load = next(memory(call.machine).loads)
    figure = min(write_gbit_s(nic), write_gbit_s(other[1])) * jitter(call.machine, "write", load, nic.serial)
    return Reply(lines(*_rows(call, nic, figure)), takes_s=_TAKES_S)


def _rows(call: Call, nic: NicState, gbit_s: float) -> Iterator[str]:
    size, times = int(call.option("-s", "--size", default="65536")), int(call.option("-n", "--iters", default="5000"))
    gbits = call.has("--report_gbits")
    unit, figure = ("Gb/sec", gbit_s) if gbits else ("MB/sec", gbit_s * 1e9 / 8 / 2**20)
    rule = "-" * 87
    yield from (rule, "                    RDMA_Write BW Test")
    yield f" Dual-port       : OFF\t\tDevice         : {nic.name}"
    yield f" Number of qps   : {call.option('-q', default='1')}\t\tTransport type : IB"
    yield " Connection type : RC\t\tUsing SRQ      : OFF"
    yield from (" PCIe relax order: ON", " TX depth        : 128", " CQ Moderation   : 1", " Mtu             : 4096[B]")
    yield f" Link type       : {'IB' if nic.link_layer == 'InfiniBand' else 'Ethernet'}"
    yield from (" Max inline data : 0[B]", " rdma_cm QPs\t : OFF", " Data ex. method : Ethernet", rule)
    yield f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]"
    yield f" {size:<10d} {times:<14d} {figure * 1.001:<18.2f} {figure:<20.2f} {gbit_s * 1e3 / 8 / size:.6f}"
    yield rule
