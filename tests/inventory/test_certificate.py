"""The certificate: earned whole or not at all, true to the last bit, and stale as soon as a bound fact changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory import certificate as certificates
from inventory.certificate import EARNED_BY, NodeCertificate, canonical_json, due, issue, parse, stale, verify
from inventory.classes import load_classes
from inventory.errors import BadSettings, CertificateRefused
from inventory.findings import Evidence, Finding, Outcome
from inventory.ledger import Ledger
from inventory.model import Bios, Drive, Firmware, Gpu, Identity, Inventory, Missing, Nic, NicPort, NodeRef, Software
from inventory.report import NodeReport, Stage, StageRecord
from inventory.signing import SigningKey, load_or_create_key, new_key

_T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
_KEY = new_key()
_CLASS = load_classes()["lab-hgx"]


def inventory() -> Inventory:
    """A small node: two GPUs, one adapter, one drive."""
    return Inventory(
        identity=Identity(serial="CH1", sku="ST1", board_serial="BD1", uuid="u-1"),
        gpus=(
            Gpu(id="GPU_SXM_1", slot="1", serial="1650001", uuid="g-1", firmware="96.00"),
            Gpu(id="GPU_SXM_3", slot="3", serial="1650003", uuid="g-3", firmware="96.00"),
        ),
        nics=(
            Nic(id="NIC1", slot="1", serial="MT1", firmware="28.39", ports=(NicPort(id="1", mac="02:00:00:00:00:01"),)),
        ),
        drives=(Drive(id="D0", slot="NVMe0", serial="S61"),),
        firmware=(Firmware(id="HGX_FW_NVSwitch_0", version="96.10"),),
        bios=Bios(version="2.4.1"),
        bmc_version="1.8.0",
        missing=(Missing(fact="psus", reason="not offered"),),
    )


def software() -> Software:
    """What runs on it."""
    return Software(kernel="6.8.0", driver="570.1", cuda="12.8", nccl="2.26", fabric_manager="570.1", image_digest="d1")


def finding(outcome: Outcome = Outcome.PASS, metric: str = "busbw_gb_s", cause: str = "") -> Finding:
    """One measured thing."""
    evidence = Evidence(asked="all_reduce_perf", of="r1-n01", at=_T0, took_s=1.5, status="exit 0", sha256="e" * 64)
    return Finding(
        metric=metric,
        subject="GPU_SXM_3",
        outcome=outcome,
        observed="480.5",
        expected="at least 450",
        source="limits pack",
        cause=cause,
        evidence=evidence,
        value=480.5,
    )


def report(**outcomes: Outcome) -> NodeReport:
    """A node whose earning stages all passed, but for those named."""
    ref = NodeRef(name="r1-n01", node_class="lab-hgx", serial="CH1")
    records = tuple(
        StageRecord(
            stage=stage,
            findings=(finding(outcomes.get(stage.value, Outcome.PASS)),),
            started_at=_T0,
            ended_at=_T0,
            inventory=inventory(),
            software=software(),
        )
        for stage in EARNED_BY
    )
    return NodeReport(node=ref, run_id="run-a", records=records)


def issued(of: NodeReport | None = None, key: SigningKey = _KEY, **options: object) -> NodeCertificate:
    """A certificate for the report."""
    return issue(
        of or report(),
        _CLASS,
        profile_digest="p" * 64,
        image_digest="d1",
        limits_version="3",
        issued_at=_T0,
        key=key,
        run_id="run-a",
        rackmint_version="0.1.0",
        **options,
    )


# --- earning it


def test_a_certificate_says_who_what_proven_not_proven_and_until_when() -> None:
    """Nothing is left out, least of all what could not be read."""
    certificate = issued()
    verify(certificate, _KEY.public_pem)
    assert ("CH1", "ST1", "BD1", "u-1") == (
        certificate.serial,
        certificate.service_tag,
        certificate.board_serial,
        certificate.uuid,
    )
    assert ["1650001", "1650003", "MT1", "S61"] == [part.serial for part in certificate.parts]
    assert {"BMC": "1.8.0", "BIOS": "2.4.1", "HGX_FW_NVSwitch_0": "96.10"} == certificate.firmware
    assert {"limits pack"} == {proof.source for proof in certificate.proven}
    assert 5 == len(certificate.proven)
    assert [("psus", "not read: not offered")] == [(gap.subject, gap.reason) for gap in certificate.not_proven]
    assert _T0 + timedelta(days=_CLASS.certificate_days) == certificate.expires_at


@pytest.mark.parametrize("stage", EARNED_BY)
@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.ERROR, Outcome.NOT_RUN])
def test_one_stage_short_of_passed_and_there_is_no_certificate(stage: Stage, outcome: Outcome) -> None:
    """Not failed, not unmeasured, not skipped."""
    with pytest.raises(CertificateRefused, match="r1-n01: no certificate: "):
        issued(report(**{stage.value: outcome}))


@pytest.mark.parametrize("stage", EARNED_BY)
def test_a_stage_that_is_not_there_was_not_passed(stage: Stage) -> None:
    """A report without it earns nothing; a renewal that needs it not names it as not proven."""
    whole = report()
    short = whole.model_copy(update={"records": tuple(r for r in whole.records if r.stage is not stage)})
    with pytest.raises(CertificateRefused, match=f"not run: .*{stage.value}"):
        issued(short)
    renewed = issued(short, needed=tuple(s for s in EARNED_BY if s is not stage))
    assert f"stage {stage.value}" in [gap.subject for gap in renewed.not_proven]


def test_a_failed_cable_of_the_rack_refuses_the_certificate() -> None:
    """Passing alone is not enough where the fabric test says no; passing there is listed as proven."""
    with pytest.raises(CertificateRefused, match="no certificate: link r1-n01/r1-n02 is slow"):
        issued(rack_findings=(finding(Outcome.FAIL, cause="link r1-n01/r1-n02 is slow"),))
    certificate = issued(rack_findings=(finding(metric="pair_busbw_gb_s"),))
    assert "fabric" in [proof.stage for proof in certificate.proven]


def test_what_does_not_apply_is_listed_as_not_proven() -> None:
    """With its reason."""
    whole = report()
    extra = finding(Outcome.NOT_APPLICABLE, metric="nvlink", cause="the board has no NVLink")
    burn_in = whole.records[-1]
    whole = whole.plus(burn_in.model_copy(update={"findings": (*burn_in.findings, extra)}))
    assert ("nvlink of GPU_SXM_3", "not_applicable: the board has no NVLink") in [
        (gap.subject, gap.reason) for gap in issued(whole).not_proven
    ]


# --- true to the last bit


def test_a_certificate_survives_being_written_and_read() -> None:
    """In any layout of the JSON."""
    certificate = issued()
    pretty = json.dumps(json.loads(certificate.to_json()), indent=4)
    assert (certificate, certificate) == (parse(certificate.to_json()), parse(pretty))


_RAW = issued().to_json()


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, len(_RAW) * 8 - 1))
def test_no_bit_can_be_flipped(place: int) -> None:
    """Anywhere in the file, the signature included."""
    flipped = bytearray(_RAW)
    flipped[place // 8] ^= 1 << place % 8
    with pytest.raises(CertificateRefused):
        verify(parse(bytes(flipped)), _KEY.public_pem)


@pytest.mark.parametrize("field", sorted(NodeCertificate.model_fields))
def test_no_field_stands_outside_the_signature(field: str) -> None:
    """Whatever is changed, it does not verify any more."""
    certificate = issued()
    value = getattr(certificate, field)
    other = {
        str: f"{value}x",
        tuple: (),
        dict: {},
        datetime: _T0 + timedelta(days=999),
    }[type(value)]
    with pytest.raises(CertificateRefused):
        verify(certificate.model_copy(update={field: other}), _KEY.public_pem)


def test_another_key_is_named() -> None:
    """So that one looks for the right public key, not for a forger."""
    with pytest.raises(CertificateRefused, match=f"signed by key {_KEY.key_id}, not by"):
        verify(issued(), new_key().public_pem)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"node": 1.5}', b"NaN"])
def test_what_is_no_certificate_is_refused_in_one_sentence(text: bytes) -> None:
    """However strange."""
    with pytest.raises(CertificateRefused, match="not a node certificate"):
        parse(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_value_has_one_canonical_form(value: object) -> None:
    """Whatever the order of its keys; and it says the same."""
    raw = canonical_json(value)
    assert raw == canonical_json(json.loads(raw))
    assert value == json.loads(raw)


def test_a_float_has_no_canonical_form() -> None:
    """However deep."""
    with pytest.raises(TypeError, match="a float has no canonical form"):
        canonical_json({"a": [{"b": 1.5}]})


# --- the key


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    """Mode 0600, its public half beside it, neither shown nor pickled."""
    path = tmp_path / "state" / "signing.key"
    first, again = load_or_create_key(path), load_or_create_key(path)
    assert first.key_id == again.key_id
    assert "0o600" == oct(path.stat().st_mode & 0o777)
    assert first.public_pem == (tmp_path / "state" / "signing.key.pub").read_text()
    assert f"[signing key {first.key_id}]" == repr(first)
    with pytest.raises(TypeError, match="not pickled"):
        first.__reduce__()
    assert ["signing.key", "signing.key.pub"] == sorted(file.name for file in path.parent.iterdir())


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """With the command that mends it."""
    path = tmp_path / "signing.key"
    load_or_create_key(path)
    path.chmod(0o644)
    with pytest.raises(BadSettings, match=f"others can read it. Run chmod 600 {path}"):
        load_or_create_key(path)


@pytest.mark.parametrize("content", ["", "no key at all", _KEY.public_pem])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, content: str) -> None:
    """And left as it is."""
    path = tmp_path / "signing.key"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(BadSettings, match="not a PEM private key"):
        load_or_create_key(path)
    assert content == path.read_text()


def test_a_place_where_no_key_can_be_is_named() -> None:
    """In one sentence."""
    with pytest.raises(BadSettings, match="signing key /proc/nowhere/k: "):
        load_or_create_key(Path("/proc/nowhere/k"))


# --- how long it holds


def test_it_is_due_when_its_term_is_over() -> None:
    """Not a second earlier."""
    certificate = issued()
    assert (False, True) == (
        due(certificate, certificate.expires_at - timedelta(seconds=1)),
        due(certificate, certificate.expires_at),
    )


def test_nothing_changed_is_not_stale() -> None:
    """Also when this reading knows less, or lists the parts in another order."""
    certificate, same = issued(), inventory()
    assert () == stale(certificate, same, software(), "p" * 64, "d1")
    assert () == stale(certificate, same.model_copy(update={"gpus": same.gpus[::-1]}), Software())
    bare = tuple(gpu.model_copy(update={"uuid": None, "firmware": None}) for gpu in same.gpus)
    assert () == stale(certificate, same.model_copy(update={"gpus": bare, "bmc_version": None}), Software())


def test_parts_that_could_not_be_listed_are_not_gone() -> None:
    """A host that is off shows no GPUs; the reading says so."""
    off = inventory().model_copy(
        update={"gpus": (), "missing": (Missing(fact="gpus", reason="HTTP 503 while host is off"),)}
    )
    assert () == stale(issued(), off, Software())
    assert ("GPU in slot 1: serial 1650001 is gone", "GPU in slot 3: serial 1650003 is gone") == stale(
        issued(), off.model_copy(update={"missing": ()}), Software()
    )


def _gpu(place: str, /, **changes: object) -> Inventory:
    """The node with one GPU changed."""
    gpus = tuple(gpu.model_copy(update=changes) if gpu.slot == place else gpu for gpu in inventory().gpus)
    return inventory().model_copy(update={"gpus": gpus})


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (_gpu("3", serial="1660009", uuid="g-9"), "GPU in slot 3: serial 1650003 became 1660009"),
        (_gpu("3", firmware="96.01"), "GPU in slot 3: firmware 96.00 became 96.01"),
        (_gpu("3", slot="5"), "GPU in slot 3: slot 3 became 5"),
        (inventory().model_copy(update={"drives": ()}), "drive in slot NVMe0: serial S61 is gone"),
        (
            inventory().model_copy(
                update={"drives": (*inventory().drives, Drive(id="D1", slot="NVMe1", serial="S62"))}
            ),
            "drive in slot NVMe1: serial S62 was added",
        ),
        (inventory().model_copy(update={"bmc_version": "1.9.0"}), "firmware BMC: 1.8.0 became 1.9.0"),
        (inventory().model_copy(update={"bios": Bios(version="2.5")}), "firmware BIOS: 2.4.1 became 2.5"),
        (inventory().model_copy(update={"identity": Identity(serial="CH2")}), "chassis serial: CH1 became CH2"),
    ],
)
def test_a_changed_part_is_named_with_its_slot(now: Inventory, sentence: str) -> None:
    """One sentence, what it was and what it is."""
    assert (sentence,) == stale(issued(), now, software())


def test_two_swapped_gpus_are_two_moves_not_two_strangers() -> None:
    """Parts are followed by their serial."""
    first, third = inventory().gpus
    swapped = (first.model_copy(update={"slot": "3"}), third.model_copy(update={"slot": "1"}))
    assert ("GPU in slot 1: slot 1 became 3", "GPU in slot 3: slot 3 became 1") == stale(
        issued(), inventory().model_copy(update={"gpus": swapped}), software()
    )


@pytest.mark.parametrize("field", ["kernel", "driver", "cuda", "nccl", "fabric_manager", "image_digest"])
def test_changed_software_is_named(field: str) -> None:
    """Each thing a performance figure depends on."""
    was = getattr(software(), field)
    assert (f"{field}: {was} became 999",) == stale(issued(), inventory(), software().model_copy(update={field: "999"}))


def test_another_profile_or_image_makes_it_stale() -> None:
    """By digest."""
    assert ("BIOS profile: pppppppppppp became qqqqqqqqqqqq", "image: d1 became d2") == stale(
        issued(), inventory(), software(), "q" * 64, "d2"
    )


# --- in the ledger


def test_the_ledger_keeps_revokes_and_never_forgets(tmp_path: Path) -> None:
    """Newest first; a revocation outlives a second keeping of the same certificate."""
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    first, second = issued(), issued(report().model_copy(update={"run_id": "run-b"}), new_key())
    second = second.model_copy(update={"issued_at": _T0 + timedelta(days=1)})
    ledger.put_certificate(first)
    ledger.put_certificate(second)
    assert [second, first] == list(ledger.certificates("CH1"))
    assert first == ledger.certificate(first.certificate_id)
    assert None is ledger.revocation(first.certificate_id)
    assert (True, False, False) == (
        ledger.revoke(first.certificate_id, "GPU slow", "run-c"),
        ledger.revoke(first.certificate_id, "again", "run-d"),
        ledger.revoke("unknown", "?", "run-d"),
    )
    ledger.put_certificate(first)
    assert ("run-c", "GPU slow") == ledger.revocation(first.certificate_id)[1:]
    ledger.close()


def test_all_that_others_need_is_in_one_place() -> None:
    """The module names what it offers."""
    assert set() == {name for name in certificates.__all__ if not hasattr(certificates, name)}
