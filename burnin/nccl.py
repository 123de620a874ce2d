"""NCCL on one node or a pair: what is run, and what follows from the answer.

The figure is the plateau at large sizes; the sweep mean nccl-tests prints is never used. A figure without its
transport, its sizes, its ranks and its correctness is no figure: each of these is a finding of its own.
"""

from __future__ import annotations

from burnin.limits import LimitsPack
from burnin.nccl_text import NcclRun, parse_nccl
from inventory.command import Command
from inventory.findings import Evidence, Finding, Outcome, Reading
from inventory.model import Frozen

__all__ = ["NcclAsked", "NcclRun", "judge_nccl", "nccl_command", "parse_nccl"]

_GIB = 1 << 30
_MIB = 1 << 20
_CLIFF = 0.6  # our choice: noise is below 0.9 of the size before, a flow-control cliff is at 0.2 (nccl issue 1453)

# INIT names the network and NVLS, P2P/SHM/NET the way of each channel: from NCCL 2.27 on INIT alone no longer does.
NCCL_LOG = ("NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,ENV,NVLS,P2P,SHM,NET")
# NVLS would otherwise still reduce in the switch.
LOOPBACK = ("NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1", "NCCL_NVLS_ENABLE=0")


class NcclAsked(Frozen):
    """One NCCL test as it is asked for."""

    test: str  # "nccl_all_reduce": the metric names begin with it
    collective: str  # "all_reduce"
    gpus: int  # ranks per node, one GPU each
    nodes: int = 1
    min_bytes: int = 8 * _MIB
    max_bytes: int = 8 * _GIB
    env: tuple[str, ...] = ()
    timeout_s: float = 600.0  # our choice: ten times the minute a healthy 8-GPU node takes, and a hang is a finding

    @property
    def ranks(self) -> int:
        """How many GPUs must take part."""
        return self.gpus * self.nodes

    @property
    def argv(self) -> tuple[str, ...]:
        """The nccl-tests command itself."""
        sizes = ("-b", str(self.min_bytes), "-e", str(self.max_bytes), "-f", "2")
        return (f"{self.collective}_perf", *sizes, "-g", str(self.gpus), "-w", "5", "-n", "20", "-c", "1")

    @property
    def metric(self) -> str:
        """The bandwidth's metric name."""
        return f"{self.test}_busbw_gb_s"


def all_reduce(gpus: int) -> NcclAsked:
    """All GPUs of a node over NVLink."""
    return NcclAsked(test="nccl_all_reduce", collective="all_reduce", gpus=gpus)


def all_gather(gpus: int) -> NcclAsked:
    """All GPUs of a node over NVLink, without the switch's help in reducing."""
    return NcclAsked(test="nccl_all_gather", collective="all_gather", gpus=gpus)


def loopback_net(gpus: int) -> NcclAsked:
    """All GPUs of a node through their own adapters: NVLink and shared memory are switched off."""
    return NcclAsked(test="nccl_loopback_net", collective="all_reduce", gpus=gpus, max_bytes=2 * _GIB, env=LOOPBACK)


def nccl_command(asked: NcclAsked) -> Command[NcclRun]:
    """The test with NCCL's own log switched on, since the log is what proves the transport."""
    return Command(
        name=asked.test,
        argv=("env", *NCCL_LOG, *asked.env, *asked.argv),
        parse=lambda text: parse_nccl(text, collective=asked.collective),
        timeout_s=asked.timeout_s,
    )


def judge_nccl(
    run: NcclRun, asked: NcclAsked, pack: LimitsPack, *, subject: str = "node", evidence: Evidence | None = None
) -> tuple[Finding, ...]:
    """Completeness, wrong values, transport, curve and bandwidth, each by itself; followers name their root."""
    judge = _Judge(run, asked, pack, subject, evidence)
    whole, transport, curve = judge.completeness(), judge.transport(), judge.curve()
    if whole.outcome is not Outcome.PASS:
        rest = (transport, curve, judge.wrong_values(), judge.bandwidth(not_judged=True))
        follow = {curve.key} | {finding.key for finding in rest if finding.outcome is Outcome.ERROR}
        return (whole, *(_follows(f, whole) if f.key in follow and f.outcome is not Outcome.PASS else f for f in rest))
    bandwidth = judge.bandwidth()
    root = next((f for f in (transport, curve) if f.outcome is Outcome.FAIL), None)
    if root and bandwidth.outcome is Outcome.FAIL:
        bandwidth = _follows(bandwidth, root)
    return (whole, transport, curve, judge.wrong_values(), bandwidth)


def _follows(finding: Finding, root: Finding) -> Finding:
    return finding.model_copy(update={"explained_by": root.key})


class _Judge:
    """One run held against one pack."""

    def __init__(
        self, run: NcclRun, asked: NcclAsked, pack: LimitsPack, subject: str, evidence: Evidence | None
    ) -> None:
        self.run, self.asked, self.pack, self.subject, self.evidence = run, asked, pack, subject, evidence

    def completeness(self) -> Finding:
        """All ranks, all sizes, the closing lines, and figures that agree with themselves."""
        asked, problems = self.asked, list(self.run.problems)
        short = 0 < self.run.rank_count < asked.ranks
        if self.run.rank_count != asked.ranks:
            problems.insert(0, f"{self.run.rank_count} of {asked.ranks} ranks took part")
        if self.run.rows[-1].size_bytes * 2 <= asked.max_bytes:
            problems.append(f"it stopped at {self.run.rows[-1].size_bytes} of {asked.max_bytes} bytes")
        if self.run.ranks and len({rank.host for rank in self.run.ranks}) < asked.nodes:
            problems.append(f"all ranks ran on {self.run.ranks[0].host}")
        return self._finding(
            "completeness",
            Outcome.PASS if not problems else Outcome.FAIL if short else Outcome.ERROR,
            observed="; ".join(problems) or f"{self.run.rank_count} ranks, {len(self.run.rows)} sizes",
            expected=f"{asked.ranks} ranks on {asked.nodes} node(s), sizes growing to {asked.max_bytes} bytes",
            cause=f"{asked.test} is no whole measurement: {problems[0]}" if problems else "",
            remedy="Run it by hand and read its first error; count the GPUs that nvidia-smi sees.",
        )

    def wrong_values(self) -> Finding:
        """Results compared element by element; a run that did not compare proves nothing."""
        wrong = self.run.wrong
        outcome = Outcome.ERROR if wrong is None else Outcome.FAIL if wrong else Outcome.PASS
        cause = {
            Outcome.ERROR: f"{self.asked.test} did not check its results",
            Outcome.FAIL: f"{self.asked.test} returned {wrong} wrong values: data is corrupted on the way",
        }
        return self._finding(
            "wrong_values",
            outcome,
            observed="not checked" if wrong is None else str(wrong),
            expected="0",
            cause=cause.get(outcome, ""),
            remedy="Look for IOMMU and ACS on the way, ECC and NVLink errors; test the GPUs pair by pair.",
            value=wrong,
        )

    def transport(self) -> Finding:
        """The way the data went, from NCCL's own log."""
        wanted = self.pack.transport(self.asked.metric)
        used = self.run.transport.used
        outcome, cause = self._way(frozenset(wanted), used)
        return self._finding(
            "transport",
            outcome,
            observed=self.run.transport.words,
            expected=" or ".join(wanted) or "a transport named in the limits pack",
            cause=cause,
            remedy="NVLS: Fabric Manager. GPUDirect: nvidia-peermem or dma-buf. Adapters: /dev/infiniband, link state.",
        )

    def _way(self, wanted: frozenset[str], used: frozenset[str]) -> tuple[Outcome, str]:
        if not wanted:
            return Outcome.ERROR, f"limits pack {self.pack.name} names no transport for {self.asked.metric}"
        if not used:
            return Outcome.ERROR, f"{self.asked.test}: NCCL's log does not show which way the data went"
        wrong = self._wrong_way(wanted, used)
        return (Outcome.FAIL, f"{self.asked.test}: {wrong}") if wrong else (Outcome.PASS, "")

    def _wrong_way(self, wanted: frozenset[str], used: frozenset[str]) -> str:
        strange = sorted(used - wanted - self._companions())
        if any("Socket" in way for way in used):
            return "NCCL fell back to TCP sockets, the adapters were not used"
        if "NET/IB" in used and "NET/IB/GDRDMA" in wanted:
            return "NCCL reached the adapters without GPUDirect RDMA, through host memory"
        if not wanted & used:
            return f"{' or '.join(sorted(wanted))} was not used, the data went over {', '.join(sorted(used))}"
        return f"part of the data went over {', '.join(strange)}" if strange else ""

    def _companions(self) -> frozenset[str]:
        """Ways that may be seen beside the wanted one: those inside a node, unless they were switched off."""
        if self.asked.env == LOOPBACK:
            return frozenset()
        return frozenset({"P2P", "NVLS", *self.pack.transport("nccl_all_reduce_busbw_gb_s")})

    def curve(self) -> Finding:
        """Whether bandwidth falls as messages grow: RoCE flow control gone wrong looks so (nccl issue 1453)."""
        best, outcome, seen = (0, 0.0), Outcome.PASS, "no fall"
        for size, busbw in self.run.curve:
            if busbw < _CLIFF * best[1]:
                outcome = Outcome.FAIL
                seen = f"{best[1]:g} GB/s at {best[0] // _MIB} MiB, {busbw:g} GB/s at {size // _MIB} MiB"
                break
            best = max(best, (size, busbw), key=lambda point: point[1])
        return self._finding(
            "curve",
            outcome,
            observed=seen,
            expected=f"no size below {_CLIFF:.0%} of a smaller one",
            cause="" if outcome is Outcome.PASS else f"{self.asked.test}: bandwidth collapses with size, {seen}",
            remedy="Check flow control (PFC, ECN) end to end, MTU on both ends, and discards on the switch ports.",
        )

    def bandwidth(self, *, not_judged: bool = False) -> Finding:
        """The plateau against its limit; not judged when the run is no whole measurement."""
        reading = Reading(
            metric=self.asked.metric,
            subject=self.subject,
            value=self.run.plateau_gb_s,
            unit="GB/s",
            evidence=self.evidence,
        )
        threshold = self.pack.threshold(self.asked.metric)
        expected = threshold.expected if threshold else "a limit"
        where = "" if self.subject == "node" else f" of {self.subject}"
        cause = f"{self.asked.test}{where} reaches {self.run.plateau_gb_s:g} GB/s, expected {expected}"
        finding = self.pack.judge(reading, cause=cause)
        if not not_judged:
            return finding
        cause = f"{cause}: not judged, the run is not whole"
        return finding.model_copy(update={"outcome": Outcome.ERROR, "cause": cause})

    def _finding(
        self,
        what: str,
        outcome: Outcome,
        *,
        observed: str,
        expected: str,
        cause: str,
        remedy: str,
        value: int | None = None,
    ) -> Finding:
        return Finding(
            metric=f"{self.asked.test}_{what}",
            subject=self.subject,
            outcome=outcome,
            observed=observed,
            expected=expected,
            cause=cause,
            remedy="" if outcome is Outcome.PASS else remedy,
            source=f"{self.pack.name} {self.pack.version}",
            evidence=self.evidence,
            value=value,
        )
