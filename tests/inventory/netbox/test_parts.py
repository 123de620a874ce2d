"""From what a BMC found to the words of the book. No NetBox is needed for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.model import Gpu, Identity, Inventory, Missing, NodeRef
from inventory.netbox.parts import bay_key, clean, clean_serial, half_read, port_type, seen_parts
from inventory.netbox.plan import PartType, SeenPart, maker, same_type
from inventory.report import NodeReport, Stage, StageRecord


@pytest.mark.parametrize("said", ["", " ", "0", "N/A", "None", "Default string", "To be filled by O.E.M.", "XXXXXXXX"])
def test_placeholder_serials_are_no_serials(said: str) -> None:
    """What firmware says when nobody wrote a serial identifies nothing."""
    assert clean_serial(said) is None


def test_a_serial_is_kept_as_it_is() -> None:
    """Only the blanks around it go."""
    assert "CH12345678" == clean_serial(" CH12345678 ")


@given(st.text())
def test_cleaned_text_fits_and_is_printable(text: str) -> None:
    """No control character and no bidi override survives; nothing is longer than asked."""
    cleaned = clean(text, 50) or ""
    assert len(cleaned) <= 50
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066" for c in cleaned)
    assert cleaned == (clean(cleaned, 50) or "")


@pytest.mark.parametrize(("one", "other"), [("DIMM_A1", "dimm a01"), ("PCIe 3", "pcie3"), ("GPU-08", "GPU8")])
def test_bays_are_the_same_whatever_the_writing(one: str, other: str) -> None:
    """Case, punctuation and leading zeros make no other bay."""
    assert bay_key(one) == bay_key(other)


def test_bays_of_other_numbers_stay_apart() -> None:
    """Only leading zeros go: 1, 10 and 100 are three bays."""
    assert 3 == len({bay_key(f"GPU{n}") for n in (1, 10, 100)})
    assert 2 == len({bay_key(name) for name in ("P1-10", "P11-0")})


def _report(*inventories: Inventory) -> NodeReport:
    said = NodeReport(node=NodeRef(name="n", node_class="c"), run_id="r")
    for stage, inventory in zip((Stage.DISCOVER, Stage.BURN_IN), inventories, strict=False):
        said = said.plus(StageRecord(stage=stage, inventory=inventory))
    return said


def test_the_physical_slot_decides_and_never_the_index() -> None:
    """Module 3 is bay GPU3, also when the driver counts it as 6; an index alone is no place."""
    outside = Inventory(gpus=(Gpu(id="GPU_SXM_3", slot="3", serial="165A"),))
    inside = Inventory(gpus=(Gpu(id="6", serial="165A"), Gpu(id="7", serial="165B")))
    assert [("gpu3",), ()] == [part.bays for part in seen_parts(_report(outside, inside))]


@pytest.mark.parametrize(
    ("gaps", "half"),
    [
        ((), False),
        ((Missing(fact="gpus", reason="HTTP 503"),), True),
        ((Missing(fact="gpus[GPU_SXM_3]", reason="HTTP 500"),), True),
        ((Missing(fact="gpus[GPU_SXM_3].ecc_uncorrectable", reason="not offered"),), False),
        ((Missing(fact="gpus[a.b].serial", reason="null"),), False),
        ((Missing(fact="dimms", reason="HTTP 503"),), False),
    ],
)
def test_a_missing_list_or_entry_makes_a_half_reading(gaps: tuple[Missing, ...], half: bool) -> None:
    """A fact that lacks of a part does not hide the part; a list or an entry that lacks may."""
    inventory = Inventory(gpus=(Gpu(id="GPU_SXM_1"),), missing=gaps)
    assert half == half_read(inventory, "gpus")


def test_nothing_listed_is_half_read() -> None:
    """An empty list is what a BMC says that has not looked yet."""
    assert half_read(Inventory(identity=Identity(serial="CH1")), "gpus")


def test_port_types_are_netbox_words() -> None:
    """Layer and rate choose the type; what is not known is `other`."""
    asked = [("InfiniBand", 400.0), ("Ethernet", 25.0), ("Ethernet", None), (None, 400.0)]
    assert ["infiniband-ndr-4x", "25gbase-x-sfp28", "other", "other"] == [port_type(*pair) for pair in asked]


@pytest.mark.parametrize(
    ("model", "part_number", "same"),
    [
        ("NVIDIA H100 80GB HBM3", "", True),
        ("h100 80gb hbm3", "", True),
        ("GH100", "2330-885-A1", True),
        ("NVIDIA H200", "", False),
        ("NVIDIA H100 80GB", "", False),
    ],
)
def test_a_type_is_known_by_model_or_part_number(model: str, part_number: str, same: bool) -> None:
    """Another writing is the same type; another card is not, however close its name."""
    seen = SeenPart(kind="gpus", label="g", bays=(), model="NVIDIA H100 80GB HBM3", part_number="2330-885-A1")
    assert same is same_type(seen, PartType(manufacturer="NVIDIA", model=model, part_number=part_number))


def test_the_maker_may_stand_in_the_model() -> None:
    """GPUs whose BMC names no maker carry it in front of their model; nobody is invented otherwise."""
    parts = [SeenPart(kind="gpus", label="g", bays=(), model=model) for model in ("NVIDIA H100", "LAB U.2 3840G")]
    assert ["NVIDIA", "Unknown"] == [maker(part) for part in parts]
