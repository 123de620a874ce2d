"""Checks on facts made by hand: what is wrong fails and names the part, what is not known never passes."""

from __future__ import annotations

import random

import pytest

from burnin.checks import check_in_band, check_out_of_band, fold
from burnin.gpu_checks import GPU_ROWS
from burnin.software_checks import same_version
from inventory.classes import GpuSpec, NicSpec, NodeClass
from inventory.findings import Finding, Outcome, root_cause
from inventory.model import (
    Bios,
    Cpu,
    Dimm,
    Drive,
    Gpu,
    Identity,
    Inventory,
    Missing,
    Nic,
    NicPort,
    NodeRef,
    Psu,
    Software,
)

CLASS = NodeClass(
    name="made-up",
    description="four GPUs, one adapter",
    source="this test's own numbers",
    manufacturers=("Maker",),
    models=("Box",),
    gpu=GpuSpec(
        count=4,
        models=("Fast GPU",),
        pci_device_ids=("10de:0001",),
        memory_mib_at_least=1000,
        firmware=("1.0",),
        nvlinks=6,
        nvlink_gbit_s_at_least=200.0,
        pcie_generation=5,
    ),
    nics=(
        NicSpec(
            role="compute",
            count=2,
            models=("Card",),
            firmware=("9.9",),
            rate_gbit_s=400.0,
            link_layer="InfiniBand",
            pcie_width=16,
        ),
    ),
    dimms=2,
    dimm_size_mib=64,
    drives=1,
    cpus=2,
    nvswitch=True,
    firmware={"BMC": ("2.0",), "BIOS": ("3.0",)},
    bios_profile="x",
    image="x",
    limits="x",
)
REF = NodeRef(name="n1", node_class="made-up", serial="CH1")
VERSIONS = {"kernel": "6.8.0", "driver": "570.1", "cuda": "12.8", "nccl": "2.26.2", "fabric_manager": "570.1"}
SOFTWARE = Software(
    kernel="6.8.0", driver="570.1", cuda="12.8.1", nccl="2.26.2", fabric_manager="570.1", fabric_manager_active=True
)


def _gpu(slot: int) -> Gpu:
    return Gpu(
        id=str(slot - 1),
        serial=f"S{slot}",
        uuid=f"u{slot}",
        model="Fast GPU",
        firmware="1.0",
        slot=str(slot),
        pci_address=f"0000:{slot}a:00.0",
        pci_device_id="10de:0001",
        memory_mib=1024,
        ecc_enabled=True,
        ecc_pending_enabled=True,
        ecc_correctable=0,
        ecc_uncorrectable=0,
        ecc_volatile_uncorrectable=0,
        sram_threshold_exceeded=False,
        remap_pending=False,
        remap_failed=False,
        remapped_rows_uncorrectable=0,
        nvlinks_up=6,
        nvlinks_total=6,
        nvlink_speed_gbit_s=212.5,
        fabric_state="Completed",
        pcie_width=16,
        pcie_generation=1,
        pcie_generation_max=5,
        pcie_replays=0,
        throttle_reasons=("gpu_idle",),
        power_limit_w=700.0,
        power_limit_default_w=700.0,
        persistence=True,
        mig_enabled=False,
    )


def _nic(number: int) -> Nic:
    port = NicPort(id="1", guid=f"G{number}", link_layer="InfiniBand", link_state="up", speed_gbit_s=400.0)
    return Nic(id=f"NIC{number}", serial=f"N{number}", model="Card", firmware="9.9", pcie_width=16, ports=(port,))


INSIDE = Inventory(
    identity=Identity(serial="CH1", uuid="2f1d3c4b-0000-4000-8000-000000000001"),
    gpus=tuple(_gpu(slot) for slot in (3, 1, 4, 2)),
    nics=(_nic(1), _nic(2)),
    gpus_found_in="nvidia-smi -q -x",
)
OUTSIDE = Inventory(
    identity=Identity(manufacturer="Maker", model="Box", serial="CH1", uuid="2f1d3c4b-0000-4000-8000-000000000001"),
    power="On",
    gpus=tuple(
        Gpu(
            id=f"GPU_SXM_{n}",
            serial=f"S{n}",
            uuid=f"u{n}",
            model="Fast GPU",
            firmware="1.0",
            slot=f"SXM{n}",
            state="Enabled",
            health="OK",
        )
        for n in (1, 2, 3, 4)
    ),
    nics=(_nic(1), _nic(2)),
    dimms=tuple(Dimm(id=f"D{n}", slot=f"D{n}", size_mib=64, health="OK") for n in (1, 2)),
    drives=(Drive(id="d", health="OK"),),
    cpus=(Cpu(id="c1"), Cpu(id="c2")),
    psus=(Psu(id="0", health="OK"),),
    bios=Bios(version="3.0"),
    bmc_version="2.0",
    gpus_found_in="HGX/Processors",
)


def _inside(**changed: object) -> tuple[Finding, ...]:
    """In-band findings when one GPU, the one in slot 4, has other facts."""
    gpus = tuple(g.model_copy(update=changed) if g.slot == "4" else g for g in INSIDE.gpus)
    return check_in_band(OUTSIDE, INSIDE.model_copy(update={"gpus": gpus}), SOFTWARE, CLASS, VERSIONS)


def _bad(findings: tuple[Finding, ...]) -> dict[tuple[str, str], Outcome]:
    return {(f.metric, f.subject): f.outcome for f in findings if f.outcome in (Outcome.FAIL, Outcome.ERROR)}


def test_a_whole_node_passes_both_ways() -> None:
    """Nothing fails, in-band nothing is left open, out-of-band only what the BMC does not tell."""
    outside = check_out_of_band(OUTSIDE, CLASS, REF)
    assert {} == _bad(outside)
    assert {} == _bad(_inside())
    assert {Outcome.PASS} == {f.outcome for f in _inside()}
    untold = {f.metric for f in outside if f.outcome is Outcome.NOT_APPLICABLE}
    assert {"gpu_ecc_enabled", "gpu_remap_pending", "gpu_nvlinks_up", "gpu_memory_mib"} <= untold
    assert all("read in-band" in f.observed for f in outside if f.outcome is Outcome.NOT_APPLICABLE)


# attribute → (a wrong value, the metric that fails, words an operator reads)
WRONG: dict[str, tuple[object, str, str]] = {
    "model": ("Slow GPU", "gpu_model", "another model"),
    "pci_device_id": ("10de:9999", "gpu_pci_device_id", "PCI id"),
    "memory_mib": (512, "gpu_memory_mib", "512, expected at least 1000"),
    "firmware": ("0.9", "gpu_vbios", "VBIOS"),
    "ecc_enabled": (False, "gpu_ecc_enabled", "ECC"),
    "ecc_pending_enabled": (False, "gpu_ecc_pending_enabled", "next reset"),
    "ecc_uncorrectable": (1, "gpu_ecc_uncorrectable", "uncorrectable ECC errors"),
    "ecc_volatile_uncorrectable": (1, "gpu_ecc_volatile_uncorrectable", "since the driver was loaded"),
    "remap_pending": (True, "gpu_remap_pending", "row remapping pending: yes, expected no; reset the GPU"),
    "remap_failed": (True, "gpu_remap_failed", "replace the GPU"),
    "remapped_rows_uncorrectable": (512, "gpu_remapped_rows", "512"),
    "sram_threshold_exceeded": (True, "gpu_sram_threshold_exceeded", "SRAM"),
    "nvlinks_up": (5, "gpu_nvlinks_up", "5, expected at least 6"),
    "nvlink_speed_gbit_s": (100.0, "gpu_nvlink_gbit_s", "NVLink"),
    "fabric_state": ("In Progress", "gpu_fabric_state", "In Progress"),
    "pcie_width": (8, "gpu_pcie_width", "too narrow: 8"),
    "pcie_generation_max": (4, "gpu_pcie_generation", "generation"),
    "throttle_reasons": (("hw_power_brake_slowdown",), "gpu_hard_throttle", "hw_power_brake_slowdown"),
    "power_limit_w": (500.0, "gpu_power_limit_below_default_w", "-200"),
    "persistence": (False, "gpu_persistence", "persistence"),
    "mig_enabled": (True, "gpu_mig", "MIG"),
}


@pytest.mark.parametrize("attribute", WRONG)
def test_a_wrong_fact_fails_and_names_slot_and_serial(attribute: str) -> None:
    """One wrong value: a failure of that metric on that GPU, with a remedy and a source."""
    value, metric, words = WRONG[attribute]
    findings = _inside(**{attribute: value})
    wrong = next(f for f in findings if f.metric == metric and f.outcome is Outcome.FAIL)
    assert "GPU slot 4" == wrong.subject
    assert wrong.sentence.startswith("GPU in slot 4 (serial S4): ")
    assert words in wrong.sentence
    assert wrong.remedy
    assert wrong.source


MAY_BE_SILENT = {"sram_threshold_exceeded", "power_limit_w"}  # not every driver and board has them


@pytest.mark.parametrize("attribute", WRONG)
def test_an_unknown_fact_never_passes(attribute: str) -> None:
    """Asked in-band and not answered is an error; the two facts that may be absent are not applicable, never a pass."""
    metric = WRONG[attribute][1]
    outcome = next(f.outcome for f in _inside(**{attribute: None}) if f.metric == metric and f.subject == "GPU slot 4")
    assert (Outcome.NOT_APPLICABLE if attribute in MAY_BE_SILENT else Outcome.ERROR) is outcome


def test_every_row_of_gpu_facts_is_tried_here() -> None:
    """A new row needs its wrong value in the table above."""
    assert {row.metric for row in GPU_ROWS if row.in_band} == {metric for _, metric, _ in WRONG.values()}


def test_order_of_gpus_changes_nothing() -> None:
    """Shuffled parts give the same findings in the same order of importance."""
    shuffled = list(INSIDE.gpus)
    random.Random(3).shuffle(shuffled)
    one = check_in_band(OUTSIDE, INSIDE, SOFTWARE, CLASS, VERSIONS)
    other = check_in_band(OUTSIDE, INSIDE.model_copy(update={"gpus": tuple(shuffled)}), SOFTWARE, CLASS, VERSIONS)
    assert {(f.key, f.outcome) for f in one} == {(f.key, f.outcome) for f in other}


def test_any_gpu_left_out_is_missed_by_name() -> None:
    """Whichever GPU is dropped in-band, its slot and serial are told first."""
    for gone in INSIDE.gpus:
        left = INSIDE.model_copy(update={"gpus": tuple(g for g in INSIDE.gpus if g is not gone)})
        root = root_cause(check_in_band(OUTSIDE, left, SOFTWARE, CLASS, VERSIONS))
        assert root is not None
        assert f"GPU in slot {gone.slot} (serial {gone.serial}) is missing" in root.sentence


def test_gpus_that_could_not_be_counted_are_an_error_and_not_a_zero() -> None:
    """The host is off, or nvidia-smi did not answer: unknown, with the reason."""
    off = OUTSIDE.model_copy(
        update={
            "gpus": (),
            "gpus_found_in": None,
            "missing": (Missing(fact="gpus", reason="unknown while host is off"),),
        }
    )
    finding = next(f for f in check_out_of_band(off, CLASS, REF) if f.metric == "gpu_count")
    assert (Outcome.ERROR, True) == (finding.outcome, "unknown while host is off" in finding.sentence)


def test_none_of_the_gpus_is_a_failure_when_somebody_counted() -> None:
    """nvidia-smi answered and knows none: that is a count."""
    empty = INSIDE.model_copy(update={"gpus": ()})
    findings = check_in_band(OUTSIDE, empty, SOFTWARE, CLASS, VERSIONS)
    assert Outcome.FAIL is _bad(findings)["gpu_count", "node"]
    assert 4 == sum(f.metric == "gpu_missing" for f in findings)


def test_an_absent_gpu_of_the_bmc_is_missing_by_its_slot() -> None:
    """A BMC that goes on listing the lost GPU as Absent counts one less."""
    gpus = tuple(
        g.model_copy(update={"state": "Absent", "serial": None}) if g.id == "GPU_SXM_3" else g for g in OUTSIDE.gpus
    )
    findings = check_out_of_band(OUTSIDE.model_copy(update={"gpus": gpus}), CLASS, REF)
    assert "GPU in slot 3 is missing" == findings[0].sentence
    assert {("gpu_missing", "GPU slot 3"), ("gpu_count", "node")} == set(_bad(findings))


@pytest.mark.parametrize(
    ("changed", "metric", "words"),
    [
        ({"dimms": OUTSIDE.dimms[:1]}, "dimm_count", "number of DIMMs: 1, expected 2"),
        (
            {"dimms": (OUTSIDE.dimms[0], OUTSIDE.dimms[1].model_copy(update={"size_mib": 32}))},
            "dimm_size_mib",
            "DIMM D2",
        ),
        ({"drives": ()}, "drive_count", "0, expected at least 1"),
        ({"cpus": OUTSIDE.cpus[:1]}, "cpu_count", "1, expected 2"),
        ({"psus": (Psu(id="0", health="Critical"),)}, "psu_health", "power supply 0"),
        ({"bmc_version": "1.0"}, "firmware_version", "BMC"),
        ({"bios": Bios()}, "firmware_version", "BIOS"),
        ({"nics": OUTSIDE.nics[:1]}, "nic_count", "1, expected 2"),
        ({"nics": (OUTSIDE.nics[0].model_copy(update={"firmware": "1"}), OUTSIDE.nics[1])}, "nic_firmware", "NIC NIC1"),
        ({"identity": OUTSIDE.identity.model_copy(update={"serial": "CH2"})}, "node_serial", "another machine"),
        ({"identity": OUTSIDE.identity.model_copy(update={"model": "Crate"})}, "node_model", "Crate"),
    ],
)
def test_other_parts_out_of_band(changed: dict[str, object], metric: str, words: str) -> None:
    """Counts, sizes, health, firmware and identity: each is named."""
    bad = [f for f in check_out_of_band(OUTSIDE.model_copy(update=changed), CLASS, REF) if f.metric == metric]
    wrong = next(f for f in bad if f.outcome in (Outcome.FAIL, Outcome.ERROR))
    assert words in wrong.sentence


def test_the_service_tag_may_be_the_books_serial() -> None:
    """A book that has the SKU as serial means the same machine."""
    identity = OUTSIDE.identity.model_copy(update={"sku": "TAG1"})
    findings = check_out_of_band(
        OUTSIDE.model_copy(update={"identity": identity}), CLASS, REF.model_copy(update={"serial": "TAG1"})
    )
    assert {} == _bad(findings)


def test_both_views_are_named_where_they_differ() -> None:
    """VBIOS and slot: Redfish says one thing, nvidia-smi another."""
    findings = _inside(firmware="1.0b", slot="1")
    told = {f.metric: f.sentence for f in findings if f.metric.startswith("agrees_") and f.outcome is Outcome.FAIL}
    assert "Redfish says VBIOS 1.0, nvidia-smi says 1.0b" in told["agrees_gpu_vbios"]
    assert "Redfish says slot 4, nvidia-smi says 1" in told["agrees_gpu_slot"]


def test_an_address_of_another_machine_is_the_root_of_all() -> None:
    """The SSH address belongs to somebody else: told before any part."""
    identity = INSIDE.identity.model_copy(update={"serial": "CH9"})
    findings = check_in_band(OUTSIDE, INSIDE.model_copy(update={"identity": identity}), SOFTWARE, CLASS, VERSIONS)
    assert "agrees_machine_serial" == findings[0].metric


def test_uuids_in_smbios_byte_order_are_the_same() -> None:
    """A BMC that swaps the first three fields means the same board."""
    identity = OUTSIDE.identity.model_copy(update={"uuid": "4b3c1d2f-0000-0040-8000-000000000001"})
    findings = check_in_band(OUTSIDE.model_copy(update={"identity": identity}), INSIDE, SOFTWARE, CLASS, VERSIONS)
    assert {} == _bad(findings)


@pytest.mark.parametrize(
    ("changed", "metric", "outcome"),
    [
        ({"driver": "560.1", "fabric_manager": "560.1"}, "software_driver", Outcome.FAIL),
        ({"fabric_manager": "570.2"}, "fabric_manager_version", Outcome.FAIL),
        ({"fabric_manager_active": False}, "fabric_manager_active", Outcome.FAIL),
        ({"fabric_manager_active": None}, "fabric_manager_active", Outcome.ERROR),
        ({"nccl": None}, "software_nccl", Outcome.ERROR),
        ({"kernel": "6.5.0"}, "software_kernel", Outcome.FAIL),
    ],
)
def test_software_against_the_manifest(changed: dict[str, object], metric: str, outcome: Outcome) -> None:
    """A wrong version fails, an unknown one is an error, Fabric Manager equals the driver and runs."""
    findings = check_in_band(OUTSIDE, INSIDE, SOFTWARE.model_copy(update=changed), CLASS, VERSIONS)
    assert outcome is _bad(findings)[metric, "node"]


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        ("12.8", "12.8.1", True),
        ("12.8.1", "12.8", True),
        ("12.8", "12.9", False),
        ("570.1", "570.10", False),
        ("6", "6.8", False),
    ],
)
def test_versions_are_the_same_up_to_the_shorter_one(wanted: str, got: str, same: bool) -> None:
    """12.8 is 12.8.1, but 570.1 is not 570.10, and one number alone says too little."""
    assert same is same_version(wanted, got)


def test_adapters_in_band_are_judged_under_the_bmcs_names() -> None:
    """Half rate, wrong mode and a missing card, in the words the operator finds on the chassis."""
    slow = _nic(1).model_copy(
        update={"id": "mlx5_0", "ports": (_nic(1).ports[0].model_copy(update={"speed_gbit_s": 200.0}),)}
    )
    findings = check_in_band(OUTSIDE, INSIDE.model_copy(update={"nics": (slow,)}), SOFTWARE, CLASS, VERSIONS)
    assert {("nic_rate_gbit_s", "NIC NIC1"), ("nic_missing", "NIC NIC2")} == set(_bad(findings))


def test_adapters_that_nobody_can_join_are_judged_by_themselves() -> None:
    """A BMC that tells neither serial nor address: the node's own count and names decide."""
    bare = tuple(Nic(id=f"NIC{n}", ports=(NicPort(id="1", link_layer="InfiniBand"),)) for n in (1, 2))
    outside = OUTSIDE.model_copy(update={"nics": bare})
    assert {} == _bad(check_in_band(outside, INSIDE, SOFTWARE, CLASS, VERSIONS))
    fewer = INSIDE.model_copy(update={"nics": INSIDE.nics[:1]})
    assert {("nic_count", "compute NICs")} == set(_bad(check_in_band(outside, fewer, SOFTWARE, CLASS, VERSIONS)))


def test_folding_leaves_nothing_out_and_is_stable() -> None:
    """Every finding is still there, once, and folding again changes nothing."""
    findings = _inside(remap_failed=True, remap_pending=True, ecc_uncorrectable=4, nvlinks_up=3)
    assert len(findings) == len({f.key for f in findings})
    assert findings == fold(findings)
    roots = {f.metric for f in findings if f.outcome is Outcome.FAIL and not f.explained_by}
    assert {"gpu_remap_failed", "gpu_nvlinks_up"} == roots
