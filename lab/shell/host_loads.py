"""`stress-ng --metrics` and `fio --output-format=json`: the host under load."""

from __future__ import annotations

import json

from lab.shell.call import Call
from lab.shell.loads import jitter
from lab.shell.reply import Reply, said

_BOGO_OPS_S = 31_500.0  # per processor thread, method "all"; our choice
_NVME_READ_MIB_S = 6_400.0  # sequential reads of a PCIe 4.0 x4 drive; our choice
_NVME_WRITE_MIB_S = 2_900.0


def stress_ng(call: Call) -> Reply:
    """Success on stderr, as stress-ng does; with broken memory modules its verification fails with exit 2."""
    seconds = float(call.option("-t", "--timeout", default="60").rstrip("s"))
    workers = int(call.option("--cpu", "-c", default="0")) or call.state.cpu_cores * 4
    faulty = [dimm.slot for dimm in call.state.dimms if dimm.present and not dimm.healthy]
    ops = _BOGO_OPS_S * workers * seconds * jitter(call.machine, "stress")
    rows = [
        f"stress-ng: info:  [2101] dispatching hogs: {workers} cpu",
        "stress-ng: metrc: [2101] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s",
        "stress-ng: metrc: [2101]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)",
        f"stress-ng: metrc: [2101] cpu        {ops:12.0f} {seconds:9.2f} {seconds * workers:9.2f}      0.10 "
        f"{ops / seconds:12.2f} {ops / seconds / workers:14.2f}",
        f"stress-ng: info:  [2101] passed: {workers - len(faulty)}: cpu ({workers - len(faulty)})",
        f"stress-ng: info:  [2101] failed: {len(faulty)}",
        f"stress-ng: info:  [2101] {'un' if faulty else ''}successful run completed in {seconds:.2f} secs",
    ]
    return Reply("", "".join(f"{row}\n" for row in rows), 2 if faulty else 0, seconds)


def fio(call: Call) -> Reply:
    """One job; reads, writes or both by `--rw`."""
    kind, seconds = call.option("--rw", default="read"), float(call.option("--runtime", default="10").rstrip("s"))
    speed = jitter(call.machine, "fio")
    reads = _NVME_READ_MIB_S * speed if "read" in kind or kind.endswith("rw") else 0.0
    writes = _NVME_WRITE_MIB_S * speed if "write" in kind or kind.endswith("rw") else 0.0
    block_kib = float(call.option("--bs", default="128k").rstrip("kK"))
    job = {
        "jobname": call.option("--name", default="job"),
        "groupid": 0,
        "error": 0,
        "elapsed": int(seconds),
        "read": _direction(reads, block_kib, seconds),
        "write": _direction(writes, block_kib, seconds),
    }
    return said(
        json.dumps({"fio version": "fio-3.36", "timestamp": 1764500000, "jobs": [job]}, indent=2), takes_s=seconds
    )


def _direction(mib_s: float, block_kib: float, seconds: float) -> dict[str, object]:
    mean_ns = 250_000.0 if mib_s else 0.0
    return {
        "io_bytes": int(mib_s * seconds * 2**20),
        "bw_bytes": int(mib_s * 2**20),
        "bw": int(mib_s * 1024),
        "iops": mib_s * 1024 / block_kib,
        "runtime": int(seconds * 1000),
        "total_ios": int(mib_s * 1024 / block_kib * seconds),
        "clat_ns": {
            "min": mean_ns * 0.4,
            "max": mean_ns * 6,
            "mean": mean_ns,
            "stddev": mean_ns * 0.2,
            "percentile": {"50.000000": mean_ns * 0.95, "99.000000": mean_ns * 1.9, "99.900000": mean_ns * 3.1},
        },
    }
