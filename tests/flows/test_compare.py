"""Book against hall without a lab: same input, same order, and each rule names the side that is right."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.compare import differences
from flows.difference import Views
from inventory.classes import load_classes
from inventory.fleet import FleetNode, Taint
from inventory.model import Bios, Dimm, Gpu, Identity, Inventory, Missing, Nic, NodeRef, Software
from inventory.netbox.book import BookBay, BookNode, BookPart

_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_MODELS = {"GPU": "NVIDIA H100 80GB HBM3", "PCIe": "NVIDIA ConnectX-7", "DIMM_A": "LM64G"}
_PROFILES = {"GPU": "GPU", "PCIe": "Expansion card", "DIMM_A": "Memory"}
KINDS = {"missing", "swapped", "moved", "drifted", "stale certificate", "unknown", "unreachable"}


def a_book(**fields: Any) -> BookNode:
    """An active node with three GPUs, two adapters and two DIMMs."""
    bays = [a_bay(prefix, n) for prefix, most in (("GPU", 3), ("PCIe", 2), ("DIMM_A", 2)) for n in range(1, most + 1)]
    told = {
        "id": 1, "name": "n1", "status": "active", "rack": "R1", "unit": 10, "serial": "CH1",
        "custom_fields": {"node_class": "lab-hgx", "bios_version": "2.4.1", "bmc_version": "1.8.0",
                          "bmc_url": "https://127.0.0.9"},
        "bays": tuple(bays), "last_updated": _AT, "etag": "1", "server_time": _AT,
    }  # fmt: skip
    return BookNode.model_validate({**told, **fields})


def a_bay(prefix: str, number: int) -> BookBay:
    """A bay with the part that belongs there."""
    part = BookPart(
        id=number, status="active", model=_MODELS[prefix], manufacturer="NVIDIA", kind=_PROFILES[prefix],
        serial=f"{prefix}-{number}", custom_fields={"firmware": "1.0"} if prefix != "DIMM_A" else {},
    )  # fmt: skip
    return BookBay(id=100 * len(prefix) + number, name=f"{prefix}{number}", part=part)


def a_hall(**fields: Any) -> Inventory:
    """What stands there when nothing differs."""
    told = {
        "identity": Identity(serial="CH1"),
        "gpus": tuple(
            Gpu(id=f"g{n}", slot=f"GPU{n}", serial=f"GPU-{n}", model=_MODELS["GPU"], firmware="1.0") for n in (1, 2, 3)
        ),
        "nics": tuple(
            Nic(id=f"c{n}", slot=f"PCIe{n}", serial=f"PCIe-{n}", model=_MODELS["PCIe"], firmware="1.0") for n in (1, 2)
        ),
        "dimms": tuple(Dimm(id=f"d{n}", slot=f"DIMM_A{n}", serial=f"DIMM_A-{n}", part_number="LM64G") for n in (1, 2)),
        "bios": Bios(version="2.4.1"),
        "bmc_version": "1.8.0",
    }
    return Inventory.model_validate({**told, **fields})


def at_work(**fields: Any) -> FleetNode:
    """A Node that serves."""
    return FleetNode.model_validate({"name": "n1", "uid": "u", "revision": "1", "ready": True, **fields})


def views(**fields: Any) -> Views:
    """All sides agree, but for `fields`; the certificate is looked at elsewhere."""
    agree = Views(
        book=a_book(), node_class=load_classes()["lab-hgx"], hall=a_hall(), unreachable="", inside=Software(),
        inside_unreachable="", fleet=at_work(), fleet_unreachable="", certificate=None, why_stale=("no certificate",),
        aged="", before=NodeRef(name="n1", node_class="lab-hgx", rack="R1", unit=10), agreed_at=_AT,
    )  # fmt: skip
    return replace(agree, **fields)


def told(**fields: Any) -> list[tuple[str, str, str]]:
    """Kind, subject and who is right, without the certificate that none of these nodes has."""
    found = differences(views(**fields))
    return [(d.kind, d.subject, d.right) for d in found if d.subject != "certificate"]


def without(*gone: str) -> Inventory:
    """The hall without some parts."""
    hall = a_hall()
    kept = {kind: tuple(p for p in getattr(hall, kind) if p.serial not in gone) for kind in ("gpus", "nics", "dimms")}
    return hall.model_copy(update=kept)


def test_nothing_differs() -> None:
    """Two sides that agree are not talked about."""
    assert [] == told()


@pytest.mark.parametrize(("fields", "expected"), [
    ({"hall": without("GPU-2")}, [("missing", "GPU2", "book")]),
    ({"hall": without("DIMM_A-1")}, [("missing", "DIMM_A1", "book")]),
    ({"hall": without("GPU-1", "GPU-2", "GPU-3")}, []),  # a list that is empty was not read
    ({"hall": without("GPU-2").model_copy(update={"missing": (Missing(fact="gpus[2]", reason="503"),)})}, []),
    ({"hall": None, "unreachable": "no answer"}, [("unreachable", "BMC", "nobody")]),
    ({"hall": a_hall(identity=Identity(serial="CH9"))}, [("swapped", "chassis", "nobody")]),
    ({"hall": a_hall(bmc_version="1.9.0")}, [("drifted", "BMC", "class")]),
    ({"hall": a_hall(bmc_version=None, bios=Bios())}, []),  # not told is not another version
    ({"inside": None, "inside_unreachable": "no answer"}, [("unreachable", "operating system", "nobody")]),
    ({"before": NodeRef(name="n1", node_class="lab-hgx", rack="R2", unit=9)},
     [("moved", "rack", "book"), ("moved", "rack unit", "book")]),
    ({"before": None}, []),
    ({"fleet": None}, [("missing", "Kubernetes Node", "book")]),
    ({"fleet": None, "fleet_unreachable": "503"}, [("unreachable", "Kubernetes Node", "nobody")]),
    ({"fleet": at_work(ready=None)}, [("drifted", "Kubernetes Node", "nobody")]),
    ({"fleet": at_work(schedulable=False)}, [("drifted", "Kubernetes Node", "nobody")]),
    ({"fleet": at_work(taints=(Taint(key="rackmint.io/quarantine", effect="NoSchedule"),))},
     [("drifted", "Kubernetes Node", "nobody")]),
    ({"fleet": at_work(annotations={"rackmint.io/serial": "CH9"})}, [("swapped", "Kubernetes Node", "nobody")]),
    ({"book": a_book(status="staged")}, [("drifted", "Kubernetes Node", "book")]),
    ({"book": a_book(status="staged"), "fleet": None, "inside": None}, []),
    ({"book": a_book(status="staged", bays=()), "agreed_at": None, "fleet": None}, [("unknown", "node", "hall")]),
])  # fmt: skip
def test_each_rule_names_the_side_that_is_right(fields: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    """One planted difference, one line, and the side the rule says."""
    assert expected == told(**fields)


def test_another_model_is_the_classes_business() -> None:
    """A part of another model is not just another serial: the class says what belongs there."""
    gpus = a_hall().gpus
    other = (gpus[0].model_copy(update={"serial": "X", "model": "NVIDIA H200"}), *gpus[1:])
    assert [("swapped", "GPU1", "class")] == told(hall=a_hall(gpus=other))


def test_a_part_without_a_bay_is_told_once() -> None:
    """A ninth adapter that the device type has no bay for is there all the same."""
    nics = (*a_hall().nics, Nic(id="extra", slot="PCIe9", serial="PCIe-9", model=_MODELS["PCIe"]))
    assert [("unknown", "extra", "hall")] == told(hall=a_hall(nics=nics))


_CHANGES = st.lists(
    st.tuples(st.sampled_from(["gpus", "nics", "dimms"]), st.integers(0, 2), st.sampled_from(["gone", "other", "new"])),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(_CHANGES, st.integers(0, 2**16))
def test_same_input_same_order(changes: list[tuple[str, int, str]], seed: int) -> None:
    """However BMC and book list their parts, two audits of the same hall read the same, line by line."""
    hall = _changed(changes)
    shuffle = random.Random(seed)
    mixed = hall.model_copy(update={k: _mixed(getattr(hall, k), shuffle) for k in ("gpus", "nics", "dimms")})
    book = a_book()
    found = differences(views(hall=hall))
    assert found == differences(views(hall=mixed, book=book.model_copy(update={"bays": _mixed(book.bays, shuffle)})))
    assert sorted(found, key=lambda d: (d.node, d.kind, d.subject)) == list(found)
    assert {d.kind for d in found} <= KINDS
    assert all(d.fix and d.rule and d.since and "\n" not in d.fix for d in found)


def _mixed(parts: tuple[Any, ...], shuffle: random.Random) -> tuple[Any, ...]:
    return tuple(shuffle.sample(parts, len(parts)))


def _changed(changes: list[tuple[str, int, str]]) -> Inventory:
    """A hall with some parts gone, replaced or of new firmware."""
    parts: dict[str, list[Any]] = {kind: list(getattr(a_hall(), kind)) for kind in ("gpus", "nics", "dimms")}
    for kind, number, how in changes:
        index = number % max(1, len(parts[kind]))
        if index >= len(parts[kind]):
            continue
        if how == "gone":
            parts[kind].pop(index)
        elif how == "other":
            parts[kind][index] = parts[kind][index].model_copy(update={"serial": f"X{kind}{number}"})
        elif kind != "dimms":
            parts[kind][index] = parts[kind][index].model_copy(update={"firmware": "2.0"})
    return a_hall(**{kind: tuple(found) for kind, found in parts.items()})
