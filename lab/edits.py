"""What people do behind the product's back, by name, so that an audit has something to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.machine import Machine

if TYPE_CHECKING:
    from lab.rack import LabRack


@dataclass(frozen=True)
class Edit:
    """One thing somebody does, in one sentence."""

    name: str
    what: str
    do: Callable[[LabRack, Machine], None]


def _move_on_paper(rack: LabRack, machine: Machine) -> None:
    rack.book.move(machine.name, machine.state.unit + 3)


def _drop_from_kubernetes(rack: LabRack, machine: Machine) -> None:
    machine.joined = None
    rack.cluster.drop_node(machine.name)


def _flash_nic(rack: LabRack, machine: Machine) -> None:
    machine.state.nics[2].firmware = "28.43.2026"


def _flash_bios(rack: LabRack, machine: Machine) -> None:
    machine.state.bios_version = "2.5.0"


def _rename_serial_on_paper(rack: LabRack, machine: Machine) -> None:
    rack.book.edit(machine.name, serial=f"{machine.state.serial[:-1]}X")


def _restage(rack: LabRack, machine: Machine) -> None:
    if rack.book.device(machine.name)["status"] == "failed":
        rack.book.edit(machine.name, status="staged")


_EDITS = (
    Edit("netbox_moved", "Somebody moves the device to another rack unit in NetBox.", _move_on_paper),
    Edit("netbox_serial", "Somebody mistypes the device's serial in NetBox.", _rename_serial_on_paper),
    Edit("k8s_node_gone", "Somebody deletes the Node from Kubernetes.", _drop_from_kubernetes),
    Edit("nic_firmware", "Somebody flashes the firmware of one network adapter.", _flash_nic),
    Edit("netbox_restaged", "Somebody mended the node and sets it to staged in NetBox again.", _restage),
    Edit("bios_firmware", "Somebody flashes the BIOS.", _flash_bios),
)

EDITS: Mapping[str, Edit] = {edit.name: edit for edit in _EDITS}
