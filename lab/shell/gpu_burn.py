"""`gpu_burn [-tc] SECONDS`: matrix products on every GPU at once, progress after progress, then OK or FAULTY.

As the real one, it always ends with exit 0 once it has begun (its issue 12).
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.hardware import GpuState
from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.gpu_state import temperature_c
from lab.shell.loads import begin_load, jitter
from lab.shell.nvbandwidth import cuda_error
from lab.shell.reply import Reply, lines, refused

TENSOR_GFLOP_S = 740_000.0  # H100, tensor cores; the order public runs show, the value is our choice
PLAIN_GFLOP_S = 52_000.0  # without -tc
_GFLOP = 1_100.0  # one product of two 8192 x 8192 matrices, and its comparison
_STEPS = 10
_WARMING_C = 32  # how much warmer a GPU gets at full power; our choice


def gpu_burn(call: Call) -> Reply:
    """The whole run."""
    error = cuda_error(call.machine)
    if error:
        return refused(f"Couldn't init CUDA: {error}", 124)
    seconds = next((int(word) for word in reversed(call.arguments) if word.isdigit()), 10)
    gpus = call.state.gpus_present
    load = begin_load(call.machine, gpus)
    head = [f"GPU {place}: {gpu.model} (UUID: GPU-{gpu.uuid})" for place, gpu in enumerate(gpus)]
    tail = [f"\tGPU {place}: {'FAULTY' if gpu.ecc_errors_under_load else 'OK'}" for place, gpu in enumerate(gpus)]
    text = lines(f"Burning for {seconds} seconds.", *head)
    text += "\r".join(_progress(call, gpus, seconds, load)) + "\n"
    text += lines("Killing processes with SIGTERM (soft kill)", "done", "", f"Tested {len(gpus)} GPUs:", *tail)
    return Reply(text, takes_s=float(seconds))


def _progress(call: Call, gpus: list[GpuState], seconds: int, load: int) -> Iterator[str]:
    full = TENSOR_GFLOP_S if call.has("-tc") else PLAIN_GFLOP_S
    for step in range(1, _STEPS + 1):
        speeds = [full * g.speed * jitter(call.machine, load, g.serial, step) for g in gpus]
        done = [int(speed * seconds * step / _STEPS / _GFLOP) for speed in speeds]
        work = " - ".join(f"{n} ({speed:.0f} Gflop/s)" for n, speed in zip(done, speeds, strict=True))
        errors = " - ".join(f"{gpu.ecc_errors_under_load if step > 1 else 0}" for gpu in gpus)
        temps = " - ".join(f"{_degrees(call.machine, gpu, step)} C" for gpu in gpus)
        yield f"{100 * step / _STEPS:.1f}%  proc'd: {work}   errors: {errors}   temps: {temps} "


def _degrees(machine: Machine, gpu: GpuState, step: int) -> int:
    hot = temperature_c(machine, gpu)
    return hot + 3 if gpu.throttles_under_load else min(hot + _WARMING_C * step // _STEPS, 85)
