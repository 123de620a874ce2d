"""What a run found gets into the book: once, whole, and without treading on what people own."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from inventory.errors import ChangeRefused, LeaseLost
from inventory.findings import Outcome
from inventory.model import Missing
from inventory.netbox.wire import Row, Wire
from inventory.netbox.writing import add_makers
from inventory.secrets import Secret
from tests.inventory.netbox.hall import Hall, Person, certificate, found, record, report


def test_every_part_stands_in_its_slot(hall: Hall) -> None:
    """GPUs by module number and not by index, adapters, DIMMs and drives by slot, with serial and firmware."""
    node = hall.nodes[0]
    record(hall, node)
    book = dict(hall.netbox.read(hall.ids()[0]).parts)
    assert 51 == len(book)
    assert {f"GPU{g.module}": (g.serial, g.vbios, g.uuid) for g in node.gpus} == {
        bay: (part.serial, part.firmware, part.custom_fields["gpu_uuid"])
        for bay, part in book.items()
        if part.kind == "GPU"
    }
    assert {f"PCIe{n.index + 1}": n.serial for n in node.nics} == {
        bay: part.serial for bay, part in book.items() if part.kind == "Expansion card"
    }
    assert {d.slot: d.serial for d in (*node.dimms, *node.drives)} == {
        bay: part.serial for bay, part in book.items() if part.kind in ("Memory", "Hard disk")
    }


def test_ports_carry_mac_and_guid(hall: Hall) -> None:
    """Each adapter port is an interface on its module, named by slot."""
    node = hall.nodes[0]
    record(hall, node)
    ports = {p.name: p for p in hall.netbox.read(hall.ids()[0]).ports}
    assert {f"PCIe{n.index + 1}/1": (n.mac, n.guid, "infiniband-ndr-4x") for n in node.nics} == {
        name: (p.mac, p.wwn, p.type) for name, p in ports.items() if name != "BMC"
    }
    assert all(port.module_id for name, port in ports.items() if name != "BMC")


def test_the_device_says_verdict_certificate_and_versions(hall: Hall) -> None:
    """Custom fields carry what the run proved; status stays staged until the node has joined."""
    node = hall.nodes[0]
    record(hall, node)
    book = hall.netbox.read(hall.ids()[0])
    wanted = {
        "verdict": "accepted", "provision_phase": "passed", "certificate_id": "cert-run-1", "validation_run": "run-1",
        "bios_version": node.bios_version, "bmc_version": node.bmc_version, "bios_profile": "lab-hgx",
        "node_uuid": node.uuid, "os_image": "lab-ubuntu@sha256:" + "ab" * 32,
    }  # fmt: skip
    assert wanted == {name: book.custom_fields[name] for name in wanted}
    assert {"os": "ubuntu 24.04", "kernel": "6.8.0", "driver": "550.1"} == book.custom_fields["software"]
    assert "2026-05-31T12:00:00" == book.text("certificate_expires")[:19]
    assert "staged" == book.status


def test_nothing_changed_writes_nothing(hall: Hall) -> None:
    """A second run with the same facts reads once and writes nothing, journal and time stamps included."""
    node = hall.nodes[0]
    record(hall, node)
    said, before = report(hall, node, "run-2"), hall.netbox.requests
    writes = hall.netbox.record(
        hall.netbox.plan_record(hall.netbox.read(said.node.netbox_id or 0), said, certificate(node))
    )
    assert (0, 1) == (writes, hall.netbox.requests - before)
    assert 1 == len(hall.person.journal(node.name))


def test_a_first_record_stays_within_twelve_requests(hall: Hall) -> None:
    """51 parts, 8 ports, journal and verdict: at most twelve requests once the catalogue knows the types."""
    record(hall, hall.nodes[0])
    said, before = report(hall, hall.nodes[1]), hall.netbox.requests
    plan = hall.netbox.plan_record(hall.netbox.read(said.node.netbox_id or 0), said, certificate(hall.nodes[1]))
    hall.netbox.record(plan)
    assert hall.netbox.requests - before <= 12


def test_a_swapped_gpu_keeps_its_module(hall: Hall) -> None:
    """Same bay, other serial: the module stays, gets the new serial, and the journal tells both."""
    node = hall.nodes[0]
    record(hall, node)
    gpu, before = node.gpus[0], hall.person.module(node.name, f"GPU{node.gpus[0].module}")
    old, gpu.serial = gpu.serial, f"9{gpu.serial}"
    record(hall, node, "run-2")
    after = hall.person.module(node.name, f"GPU{gpu.module}")
    assert (before["id"], gpu.serial) == (after["id"], after["serial"])
    assert f"GPU{gpu.module}: serial {old} → {gpu.serial}" in hall.person.journal(node.name)[-1]


def test_two_gpus_that_changed_places_are_followed(hall: Hall) -> None:
    """An exchange within the node is written: both serials are seen, and neither stands elsewhere."""
    node = hall.nodes[0]
    record(hall, node)
    one, two = node.gpus[0], node.gpus[1]
    one.serial, two.serial = two.serial, one.serial
    record(hall, node, "run-2")
    assert one.serial == hall.person.module(node.name, f"GPU{one.module}")["serial"]
    assert two.serial == hall.person.module(node.name, f"GPU{two.module}")["serial"]


def test_a_swapped_adapter_keeps_its_port(hall: Hall) -> None:
    """A new adapter in the same slot brings new addresses to the port that is there, and no second port."""
    node = hall.nodes[0]
    record(hall, node)
    nic, ports = node.nics[2], len(hall.netbox.read(hall.ids()[0]).ports)
    nic.serial, nic.mac, nic.guid = f"9{nic.serial}", "02:AA:BB:CC:DD:EE", "02:AA:BB:03:00:CC:DD:EE"
    record(hall, node, "run-2")
    book = hall.netbox.read(hall.ids()[0])
    (port,) = [p for p in book.ports if p.name == "PCIe3/1"]
    assert (nic.mac, nic.guid, ports) == (port.mac, port.wwn, len(book.ports))


def test_a_part_known_elsewhere_is_reported_and_not_taken(hall: Hall) -> None:
    """A GPU the book has in another node is a finding that names the place; its module stays where it is."""
    one, two = hall.nodes
    record(hall, one)
    record(hall, two)
    stolen, gpu = one.gpus[0], two.gpus[0]
    kept, gpu.serial = gpu.serial, stolen.serial
    said = report(hall, two, "run-2")
    plan = hall.netbox.plan_record(hall.netbox.read(said.node.netbox_id or 0), said, certificate(two))
    (finding,) = plan.findings
    assert (Outcome.ERROR, True) == (finding.outcome, f"{one.name}, bay GPU{stolen.module}" in finding.cause)
    hall.netbox.record(plan)
    assert kept == hall.person.module(two.name, f"GPU{gpu.module}")["serial"]


def test_a_half_read_bmc_empties_nothing(hall: Hall) -> None:
    """Sixteen DIMMs that could not be read stay as they are on record."""
    node = hall.nodes[0]
    record(hall, node)
    gaps = (Missing(fact="dimms", reason="HTTP 503"), Missing(fact="gpus[GPU_SXM_1]", reason="HTTP 500"))
    seen = found(node)
    half = seen.model_copy(update={"dimms": seen.dimms[:16], "gpus": seen.gpus[:7], "nics": (), "missing": gaps})
    assert 0 == record(hall, node, "run-2", inventory=half)


def test_a_part_that_is_gone_is_set_offline(hall: Hall) -> None:
    """A whole reading without one GPU sets its module offline and deletes nothing; back again, it is active."""
    node = hall.nodes[0]
    record(hall, node)
    gpu = node.gpus[3]
    gpu.present = False
    record(hall, node, "run-2", failed=f"GPU_SXM_{gpu.module} is missing")
    module = hall.person.module(node.name, f"GPU{gpu.module}")
    assert ("offline", gpu.serial) == (module["status"]["value"], module["serial"])
    gpu.present = True
    record(hall, node, "run-3")
    assert "active" == hall.person.module(node.name, f"GPU{gpu.module}")["status"]["value"]


def test_a_failed_validation_fails_the_node_and_takes_its_certificate(hall: Hall) -> None:
    """Rejected: status failed, certificate gone, the cause in the journal."""
    node = hall.nodes[0]
    record(hall, node)
    record(hall, node, "run-2", failed="GPU_SXM_3 reaches 41 % of its class")
    book = hall.netbox.read(hall.ids()[0])
    assert ("failed", "rejected", None) == (book.status, book.text("verdict"), book.custom_fields["certificate_id"])
    assert "GPU_SXM_3 reaches 41 % of its class" in hall.person.journal(node.name)[-1]


def test_what_people_own_is_never_written(hall: Hall) -> None:
    """A person's words, place, class, module status and an extra MAC survive every run."""
    node = hall.nodes[0]
    record(hall, node)
    device, module = hall.person.device(node.name), hall.person.module(node.name, "GPU2")
    fields = {"description": "mind the gap", "asset_tag": f"A-{device['id']}", "position": 20, "comments": "x"}
    hall.person.edit("dcim/devices", device["id"], **fields)
    hall.person.edit("dcim/modules", module["id"], status="failed")
    node.gpus[0].vbios = "96.00.99.00.01"
    record(hall, node, "run-2")
    after = hall.person.device(node.name)
    assert fields == {name: after[name] for name in fields}
    assert "failed" == hall.person.module(node.name, "GPU2")["status"]["value"]


def test_an_edit_during_the_run_survives(hall: Hall) -> None:
    """A person writes between our reading and our writing: both writes stand."""
    node = hall.nodes[0]
    said = report(hall, node)
    plan = hall.netbox.plan_record(hall.netbox.read(said.node.netbox_id or 0), said, certificate(node))
    hall.person.edit("dcim/devices", plan.book.id, description="seen at the rack")
    hall.netbox.record(plan)
    after = hall.person.device(node.name)
    assert ("seen at the rack", "accepted") == (after["description"], after["custom_fields"]["verdict"])


def test_an_edit_of_our_own_fields_during_the_run_stops_it(hall: Hall) -> None:
    """Another run has written the same fields meanwhile: nothing is overwritten, and the field is named."""
    node = hall.nodes[0]
    said = report(hall, node)
    plan = hall.netbox.plan_record(hall.netbox.read(said.node.netbox_id or 0), said, certificate(node))
    hall.person.edit("dcim/devices", plan.book.id, custom_fields={"verdict": "rejected"})
    with pytest.raises(ChangeRefused, match="changed meanwhile: verdict"):
        hall.netbox.record(plan)


def test_one_journal_entry_a_run(hall: Hall) -> None:
    """A run that is repeated after a crash finds its entry and writes no second one."""
    node = hall.nodes[0]
    record(hall, node)
    node.gpus[0].vbios = "96.00.99.00.01"
    record(hall, node)
    assert 1 == len(hall.person.journal(node.name))


def test_nodes_recorded_side_by_side_share_what_they_add(rack_hall: Hall) -> None:
    """Eight nodes at once: each is whole, each type is there once, and each counts the writes that were its own."""
    before = rack_hall.netbox.writes
    with ThreadPoolExecutor(8) as threads:
        writes = list(threads.map(lambda node: record(rack_hall, node), rack_hall.nodes))
    assert all(writes)
    assert rack_hall.netbox.writes - before == sum(writes)
    books = rack_hall.netbox.read_many(rack_hall.ids())
    assert {(51, "accepted")} == {(len(book.parts), book.text("verdict")) for book in books}
    assert 5 == len(rack_hall.person.get("dcim/module-types"))


class Overtaken(Wire):
    """A connection whose every list of makers somebody else begins to enter just before it arrives."""

    def __init__(self, url: str, token: str, person: Person) -> None:
        super().__init__(url, Secret(token), verify=True, timeout_s=10, deadline=None)
        self._person = person

    def post(self, path: str, rows: Sequence[Row], who: str) -> list[Row]:
        """Another run enters the first of several rows first, so that the whole list is refused."""
        if len(rows) > 1:
            self._person.add(path, dict(rows[0]))
        return super().post(path, rows, who)


def test_a_list_overtaken_row_by_row_is_entered_in_the_end(lab_hall: Hall) -> None:
    """Others enter one maker after the other just before us: each is there once, and all ids are right."""
    wire = Overtaken(lab_hall.url, lab_hall.token, lab_hall.person)
    ids = add_makers(wire, ["Maker A", "Maker B", "Maker C"], "test")
    wire.close()
    held = {row["name"]: row["id"] for row in lab_hall.person.get("dcim/manufacturers")}
    assert ids == {name: number for name, number in held.items() if name.startswith("Maker ")}


@pytest.mark.parametrize("steps", range(1, 6))
def test_killed_after_any_step_the_next_try_ends_in_the_same_record(lab_hall: Hall, steps: int) -> None:
    """The fence breaks before step N; the same run again completes the record, with one journal entry."""
    node, calls = lab_hall.nodes[0], 0

    def fence() -> None:
        nonlocal calls
        calls += 1
        if calls == steps:
            raise LeaseLost(node.name, "NetBox record")

    said = report(lab_hall, node)
    book = lab_hall.netbox.read(said.node.netbox_id or 0)
    with pytest.raises(LeaseLost):
        lab_hall.netbox.record(lab_hall.netbox.plan_record(book, said, certificate(node)), fence=fence)
    record(lab_hall, node)
    assert (51, 9) == (len(lab_hall.netbox.read(book.id).parts), len(lab_hall.netbox.read(book.id).ports))
    assert 1 == len(lab_hall.person.journal(node.name))
    assert 0 == record(lab_hall, node, "run-2")


def test_hostile_words_are_recorded_as_words(hall: Hall) -> None:
    """Control characters, markup, formulas and endless names from a BMC neither break nor come alive."""
    node = hall.nodes[0]
    seen = found(node)
    drive = seen.drives[2].model_copy(update={"model": "=cmd()|\x1b[31m<script>" + "X" * 10_000, "serial": "N/A"})
    hostile = seen.model_copy(update={"drives": (*seen.drives[:2], drive), "bmc_version": "1.8\u202e\x00[a](http://b)"})
    record(hall, node, inventory=hostile)
    book = hall.netbox.read(hall.ids()[0])
    assert ("=cmd()| [31m<script>", "") == (dict(book.parts)["NVMe2"].model[:20], dict(book.parts)["NVMe2"].serial)
    assert "1.8 [a](http://b)" == book.text("bmc_version")
    assert "`bmc_version: empty → 1.8 [a](http://b)`" in hall.person.journal(node.name)[-1]
    assert 0 == record(hall, node, "run-2", inventory=hostile)
