"""Nodes are read whole from all three lab shapes, and from trees with holes in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from inventory.errors import OutputNotUnderstood
from inventory.model import Inventory
from inventory.redfish import Bmc, BmcLogin
from lab.bmc.serve import BmcServer
from lab.hardware import Shape

OpenBmc = Callable[..., AbstractContextManager[Bmc]]
LabBmc = Callable[[Shape], BmcServer]
SHAPES = pytest.mark.parametrize("shape", list(Shape))


def reasons(inventory: Inventory) -> dict[str, str]:
    """Why each missing fact is missing."""
    return {missing.fact: missing.reason for missing in inventory.missing}


# --- the lab's three shapes -------------------------------------------------------------------------------------------


@SHAPES
def test_a_lab_node_is_read_as_it_is(lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin, shape: Shape) -> None:
    """Identity, GPUs, NICs, memory, drives, supplies and firmware agree with the machine behind the BMC."""
    server = lab_bmc(shape)
    server.bmc.machine.switch_on_idle()
    state = server.bmc.machine.state
    with connect(server.url, login) as bmc:
        read = bmc.read()
    assert (state.serial, state.uuid, state.bmc_mac) == (
        read.identity.serial,
        read.identity.uuid,
        read.identity.bmc_mac,
    )
    assert {g.serial for g in state.gpus} == {g.serial for g in read.gpus}
    assert {n.serial for n in state.nics} == {n.serial for n in read.nics}
    assert {n.guid for n in state.nics} == {p.guid for n in read.nics for p in n.ports}
    assert {n.mac for n in state.nics} == {p.mac for n in read.nics for p in n.ports}
    assert {d.serial for d in state.dimms} == {d.serial for d in read.dimms}
    assert {d.serial for d in state.drives} == {d.serial for d in read.drives}
    assert set(state.psus) == {p.serial for p in read.psus}
    assert (2, state.bios_version, state.bmc_version) == (len(read.cpus), read.bios.version, read.bmc_version)
    assert state.bios == read.bios.attributes
    assert read.firmware


def test_an_hgx_tells_ecc_remap_and_links(lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin) -> None:
    """A broken GPU shows its counts, its remapping and its lost link."""
    server = lab_bmc(Shape.HGX)
    server.bmc.machine.switch_on_idle()
    sick = server.bmc.machine.state.gpus[2]
    sick.ecc_uncorrectable, sick.remap_pending, sick.nvlinks_down, sick.pcie_width = 3, True, {4}, 8
    with connect(server.url, login) as bmc:
        gpu = next(g for g in bmc.read().gpus if g.serial == sick.serial)
    assert (3, True, 17, 18, 8) == (
        gpu.ecc_uncorrectable,
        gpu.remap_pending,
        gpu.nvlinks_up,
        gpu.nvlinks_total,
        gpu.pcie_width,
    )


def test_gpus_of_a_sleeping_baseboard_are_unknown_and_not_absent(
    lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin
) -> None:
    """With the host off the baseboard answers 503; that is said, quickly, and nobody is declared missing."""
    server = lab_bmc(Shape.HGX)
    with connect(server.url, login) as bmc:
        read = bmc.read(firmware=False)
    assert (0, None) == (len(read.gpus), read.gpus_found_in)
    assert reasons(read)["gpus"].startswith("HTTP 503 while host is off")


def test_gpus_that_woke_up_since_are_found(lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin) -> None:
    """A baseboard that slept at login is asked again at each reading."""
    server = lab_bmc(Shape.HGX)
    with connect(server.url, login) as bmc:
        server.bmc.machine.switch_on_idle()
        assert 8 == len(bmc.read(firmware=False, parts=False).gpus)


@SHAPES
def test_a_burst_of_503_costs_no_fact(lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin, shape: Shape) -> None:
    """Four answers of "not now" are waited out inside the reading."""
    server = lab_bmc(shape)
    server.bmc.machine.switch_on_idle()
    server.bmc.machine.state.faults.add("bmc_503_burst")
    server.bmc.machine.state.knobs["bmc_503_left"] = 4
    with connect(server.url, login) as bmc:
        read = bmc.read(firmware=False, parts=False)
    assert (8, []) == (len(read.gpus), [r for r in reasons(read).values() if "503" in r])


def test_a_flaky_bmc_costs_no_fact(lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin) -> None:
    """Connections reset in the middle of a reading are made again."""
    server = lab_bmc(Shape.PCIE)
    server.bmc.machine.switch_on_idle()
    server.bmc.machine.state.faults.add("flaky_bmc")
    server.bmc.machine.state.knobs["bmc_resets_left"] = 5
    with connect(server.url, login) as bmc:
        assert 8 == len(bmc.read(firmware=False, parts=False).gpus)


# --- trees with holes -------------------------------------------------------------------------------------------------


def a_gpu(number: int, **facts: Any) -> dict[str, Any]:
    """A GPU processor, with a fact overridden or taken out."""
    body = {
        "@odata.id": f"/redfish/v1/Systems/1/Processors/G{number}",
        "Id": f"G{number}",
        "ProcessorType": "GPU",
        "SerialNumber": f"S{number}",
        "UUID": f"AAAAAAAA-0000-0000-0000-00000000000{number}",
        "Model": "A GPU",
        "FirmwareVersion": "1.2",
        "Location": {"PartLocation": {"ServiceLabel": f"SXM{number}"}},
        "SystemInterface": {"PCIe": {"LanesInUse": 16, "PCIeType": "Gen5"}},
        "Status": {"State": "Enabled", "Health": "OK"},
    }
    return {key: value for key, value in {**body, **facts}.items() if value != "gone"}


def with_gpus(odd: Any, *gpus: dict[str, Any]) -> None:
    """Hang GPUs under the odd BMC's System."""
    uri = "/redfish/v1/Systems/1/Processors"
    odd.tree["/redfish/v1/Systems/1"]["Processors"] = {"@odata.id": uri}
    odd.tree[uri] = {"Members": [{"@odata.id": g["@odata.id"]} for g in gpus], "Members@odata.count": len(gpus)}
    odd.tree |= {g["@odata.id"]: g for g in gpus}


@pytest.mark.parametrize(
    ("facts", "fact", "reason"),
    [
        ({"SerialNumber": None}, "serial", "null"),
        ({"SerialNumber": "gone"}, "serial", "not offered"),
        ({"SerialNumber": "  "}, "serial", "empty"),
        ({"SerialNumber": "N/A"}, "serial", "placeholder 'N/A'"),
        ({"SerialNumber": "0000000"}, "serial", "placeholder '0000000'"),
        ({"SerialNumber": ["x"]}, "serial", "malformed: list where text belongs"),
        ({"SystemInterface": None}, "pcie_width", "not offered"),
        (
            {"SystemInterface": {"PCIe": {"LanesInUse": "wide"}}},
            "pcie_width",
            "malformed: 'wide' where a number belongs",
        ),
        (
            {"MemorySummary": {"ECCModeEnabled": "perhaps"}},
            "ecc_enabled",
            "malformed: 'perhaps' where yes or no belongs",
        ),
        ({"Status": "OK"}, "health", "not offered"),
    ],
)
def test_a_field_that_is_wrong_is_told_and_sinks_nothing(
    odd: Any, connect: OpenBmc, facts: dict[str, Any], fact: str, reason: str
) -> None:
    """Null, absent, empty, placeholder or of the wrong type: the fact is None with its reason, the rest is there."""
    with_gpus(odd, a_gpu(1, **facts), a_gpu(2))
    with connect(odd.url) as bmc:
        read = bmc.read()
    assert (None, reason) == (getattr(read.gpus[0], fact), reasons(read)[f"gpus[G1].{fact}"])
    assert ("S2", "A GPU", 16) == (read.gpus[1].serial, read.gpus[1].model, read.gpus[1].pcie_width)


def test_numbers_written_as_text_are_numbers(odd: Any, connect: OpenBmc) -> None:
    """A width of "16" is 16."""
    with_gpus(odd, a_gpu(1, SystemInterface={"PCIe": {"LanesInUse": "16", "PCIeType": "Gen4"}}))
    with connect(odd.url) as bmc:
        gpu = bmc.read().gpus[0]
    assert (16, 4) == (gpu.pcie_width, gpu.pcie_generation)


@pytest.mark.parametrize("body", [b"", b"not json", b"[1, 2]", b"[" * 100_000, b"null"])
def test_a_resource_that_is_no_object_sinks_nothing(odd: Any, connect: OpenBmc, body: bytes) -> None:
    """One GPU answers garbage; it is noted, and its neighbour is read."""
    with_gpus(odd, a_gpu(1), a_gpu(2))
    odd.tree["/redfish/v1/Systems/1/Processors/G1"] = body
    with connect(odd.url) as bmc:
        read = bmc.read()
    assert ["S2"] == [gpu.serial for gpu in read.gpus]
    assert reasons(read)["gpus[G1]"].startswith("malformed")


@pytest.mark.parametrize("error", [{"error": []}, {"error": "no"}, [1], {"error": {"@Message.ExtendedInfo": ["x"]}}])
def test_an_error_body_of_any_shape_is_an_http_status(odd: Any, connect: OpenBmc, error: Any) -> None:
    """A 500 whose body is not as the standard says is still only a 500."""
    with_gpus(odd, a_gpu(1), a_gpu(2))
    odd.on("GET", "/redfish/v1/Systems/1/Processors/G1")(lambda asked: (500, error))
    with connect(odd.url) as bmc:
        read = bmc.read()
    assert (["S2"], True) == ([g.serial for g in read.gpus], reasons(read)["gpus[G1]"].startswith("HTTP 500"))


def test_a_sparse_gpu_is_unknown_and_not_absent(odd: Any, connect: OpenBmc) -> None:
    """A GPU that says OK and nothing else stays in the list, after having been asked again."""
    sparse = {"@odata.id": "/redfish/v1/Systems/1/Processors/G1", "Id": "G1", "ProcessorType": "GPU"}
    with_gpus(odd, {**sparse, "Status": {"Health": "OK"}}, a_gpu(2))
    with connect(odd.url) as bmc:
        read = bmc.read()
    assert (2, "unknown: sparse, no serial, no UUID") == (len(read.gpus), reasons(read)["gpus[G1]"])
    assert 3 == odd.count("GET", "/redfish/v1/Systems/1/Processors/G1")


def test_no_gpu_anywhere_on_a_running_host_is_absent(odd: Any, connect: OpenBmc) -> None:
    """Absent is said only when the host is on and every place was asked."""
    with connect(odd.url) as bmc:
        read = bmc.read()
    assert reasons(read)["gpus"].startswith("absent: ")


def test_no_gpu_anywhere_on_a_host_that_is_off_is_unknown(odd: Any, connect: OpenBmc) -> None:
    """With the power off nothing is said to be absent."""
    odd.tree["/redfish/v1/Systems/1"]["PowerState"] = "Off"
    with connect(odd.url) as bmc:
        assert reasons(bmc.read())["gpus"].startswith("unknown while host is off: ")


def test_a_gpu_goes_by_type_and_never_by_name(odd: Any, connect: OpenBmc) -> None:
    """An FPGA called GPU_9 is none."""
    with_gpus(odd, a_gpu(1), a_gpu(2, Id="GPU_9", ProcessorType="FPGA"))
    with connect(odd.url) as bmc:
        assert ["G1"] == [gpu.id for gpu in bmc.read().gpus]


def test_the_bmcs_own_vga_is_no_gpu(odd: Any, connect: OpenBmc) -> None:
    """Among PCIe devices, class and vendor decide."""
    uri = "/redfish/v1/Chassis/1"
    odd.tree["/redfish/v1/Systems/1"]["Links"] = {"Chassis": [{"@odata.id": uri}]}
    odd.tree[uri] = {"@odata.id": uri, "Id": "1", "PCIeDevices": {"@odata.id": f"{uri}/PCIeDevices"}}
    members = []
    for name, vendor in (("vga", "0x1a03"), ("gpu", "0x10de")):
        device, function = f"{uri}/PCIeDevices/{name}", f"{uri}/PCIeDevices/{name}/PCIeFunctions/0"
        members.append({"@odata.id": device})
        odd.tree[device] = {"Id": name, "SerialNumber": name, "Links": {"PCIeFunctions": [{"@odata.id": function}]}}
        odd.tree[function] = {"DeviceClass": "DisplayController", "VendorId": vendor, "DeviceId": "0x2330"}
    odd.tree[f"{uri}/PCIeDevices"] = {"Members": members}
    with connect(odd.url) as bmc:
        read = bmc.read()
    assert ([("gpu", "10de:2330")], "Chassis/1/PCIeDevices") == (
        [(gpu.id, gpu.pci_device_id) for gpu in read.gpus],
        read.gpus_found_in,
    )


def test_hpe_lists_its_gpus_in_a_place_of_its_own(odd: Any, connect: OpenBmc) -> None:
    """The fourth place: HpeServerDevice."""
    uri, devices = "/redfish/v1/Chassis/1", "/redfish/v1/Chassis/1/Devices"
    odd.tree["/redfish/v1/Systems/1"]["Links"] = {"Chassis": [{"@odata.id": uri}]}
    odd.tree[uri] = {"Id": "1", "Oem": {"Hpe": {"Links": {"Devices": {"@odata.id": devices}}}}}
    odd.tree[devices] = {"Members": [{"@odata.id": f"{devices}/1"}, {"@odata.id": f"{devices}/2"}]}
    odd.tree[f"{devices}/1"] = {
        "Id": "1",
        "DeviceType": "GPU",
        "Name": "A GPU",
        "SerialNumber": "S1",
        "Location": "PCI-E Slot 5",
        "FirmwareVersion": {"Current": {"VersionString": "9.4"}},
    }
    odd.tree[f"{devices}/2"] = {"Id": "2", "DeviceType": "SATA Controller"}
    with connect(odd.url) as bmc:
        read = bmc.read()
    assert [("S1", "9.4", "PCI-E Slot 5")] == [(g.serial, g.firmware, g.slot) for g in read.gpus]


def test_a_collection_goes_on_over_its_pages_and_does_not_run_in_circles(odd: Any, connect: OpenBmc) -> None:
    """The next link is followed, and a page that leads back ends the walk."""
    with_gpus(odd, a_gpu(1), a_gpu(2))
    uri = "/redfish/v1/Systems/1/Processors"
    odd.tree[uri] = {"Members": [{"@odata.id": f"{uri}/G1"}], "Members@odata.nextLink": f"{uri}/more"}
    odd.tree[f"{uri}/more"] = {"Members": [{"@odata.id": f"{uri}/G2"}], "Members@odata.nextLink": uri}
    with connect(odd.url) as bmc:
        assert ["S1", "S2"] == [gpu.serial for gpu in bmc.read().gpus]


@pytest.mark.parametrize("drop", ["Model", "ProcessorType", "member", None])
def test_expand_is_believed_only_when_it_is_whole(odd: Any, connect: OpenBmc, drop: str | None) -> None:
    """An expanded collection that drops a needed field or a member is read singly instead."""
    with_gpus(odd, a_gpu(1), a_gpu(2))
    odd.tree["/redfish/v1"]["ProtocolFeaturesSupported"] = {"ExpandQuery": {"Levels": True}}
    uri = "/redfish/v1/Systems/1/Processors"
    plain = odd.tree[uri]
    whole = [{k: v for k, v in odd.tree[f"{uri}/G{n}"].items() if k != drop or n == 1} for n in (1, 2)]
    members = whole[:1] if drop == "member" else whole

    @odd.on("GET", uri)
    def _(asked: Any) -> tuple[int, Any]:
        return 200, {"Members": members, "Members@odata.count": 2} if "$expand" in asked.path else plain

    with connect(odd.url) as bmc:
        read = bmc.read()
    assert ["S1", "S2"] == [gpu.serial for gpu in read.gpus]
    singly = odd.count("GET", f"{uri}/G2")
    assert (1 if drop in ("ProcessorType", "member") else 0) == singly


# --- which System is the node -----------------------------------------------------------------------------------------


def _systems(odd: Any, **systems: dict[str, Any]) -> None:
    uri = "/redfish/v1/Systems"
    odd.tree[uri] = {"Members": [{"@odata.id": f"{uri}/{name}"} for name in systems]}
    odd.tree |= {f"{uri}/{name}": {"Id": name, "SerialNumber": name, **body} for name, body in systems.items()}


BIOS = {"Bios": {"@odata.id": "/redfish/v1/Systems/x/Bios"}}


@pytest.mark.parametrize(
    ("systems", "hosts"),
    [
        ({"Board": {}, "Host": BIOS}, ["Host"]),
        ({"HGX_Baseboard_0": BIOS, "System_0": BIOS}, ["System_0"]),
        ({"Node0": BIOS, "Node1": BIOS}, ["Node0", "Node1"]),
        ({"Bluefield": BIOS, "Host": BIOS}, ["Host"]),
        ({"Dpu": {**BIOS, "SystemType": "DPU"}, "Host": BIOS}, ["Host"]),
        ({"Board": {}, "Host": {"Boot": {"BootSourceOverrideTarget": "None"}}}, ["Host"]),
    ],
)
def test_the_host_is_the_system_with_bios_and_boot(
    odd: Any, connect: OpenBmc, systems: dict[str, Any], hosts: list[str]
) -> None:
    """Never simply the first member; two real nodes are two."""
    _systems(odd, **systems)
    with connect(odd.url) as bmc:
        assert hosts == [node.identity.serial for node in bmc.read_all()]


def test_a_dpus_own_bmc_is_never_taken_for_a_host(odd: Any, connect: OpenBmc) -> None:
    """It is said what it is and where to go."""
    _systems(odd, Bluefield=BIOS)
    with pytest.raises(OutputNotUnderstood, match="this is a DPU's own BMC"), connect(odd.url):
        pass


def test_of_two_nodes_one_must_be_named_before_anything_is_done(odd: Any, connect: OpenBmc) -> None:
    """Power for "the" node of a two-node BMC is refused, unless it says which."""
    _systems(odd, Node0=BIOS, Node1={**BIOS, "PowerState": "Off"})
    with connect(odd.url) as bmc, pytest.raises(OutputNotUnderstood, match="Say which one is meant"):
        bmc.power_on()
    with connect(odd.url, system="Node1") as bmc:
        assert "Off" == bmc.power()


def test_a_dells_serial_is_its_service_tag(odd: Any, connect: OpenBmc) -> None:
    """SKU is the tag, SerialNumber the board's: a row of the quirk table."""
    odd.tree["/redfish/v1/Systems/1"] |= {"Manufacturer": "Dell Inc.", "SKU": "TAG1", "SerialNumber": "BOARD1"}
    with connect(odd.url) as bmc:
        identity = bmc.read().identity
    assert ("TAG1", "BOARD1") == (identity.serial, identity.board_serial)


def test_every_lacking_fact_has_a_reason(odd: Any, connect: OpenBmc) -> None:
    """No None goes without an entry in missing[], and nothing found is called missing."""
    with_gpus(odd, a_gpu(1))
    with connect(odd.url) as bmc:
        read = bmc.read()
    told = reasons(read)
    lacking = {f"gpus[G1].{name}" for name, value in read.gpus[0] if value is None}
    assert set() == {fact for fact in told if fact.startswith("gpus[G1].")} - lacking
    for fact in ("ecc_enabled", "memory_mib", "nvlinks_up", "part_number"):
        assert f"gpus[G1].{fact}" in told
