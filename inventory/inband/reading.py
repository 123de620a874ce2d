"""Reads a running node from top to bottom, once, and says all that it would not tell."""

from __future__ import annotations

from typing import NamedTuple

from inventory.command import Answer, Shell
from inventory.evidence import EvidenceStore
from inventory.findings import Finding, Outcome, Reading
from inventory.inband.asking import Asking
from inventory.inband.counters import counters_of
from inventory.inband.parts import gpus_with_links, nics_of, source_of
from inventory.model import Identity, Inventory, Missing, Software
from inventory.parsers import ethernet, host, infiniband, kernel_log, nvidia_smi, nvlink, pci
from inventory.parsers.nvidia_smi import SmiLog
from inventory.parsers.pci import PciDevice

# What only the BMC is asked for. Our choice: it knows these without an operating system.
_OUT_OF_BAND_ONLY = ("dimms", "drives", "cpus", "psus", "firmware", "bios", "boot")
# Functions whose link matters to a job. Source: PCI class names of GPUs, RDMA adapters and NVMe drives.
_WORKING_CLASSES = ("3D controller", "Infiniband controller", "Non-Volatile memory controller")


class InBand(NamedTuple):
    """One reading from inside: parts, software, counters, and one `error` finding for each question not answered."""

    inventory: Inventory
    software: Software
    counters: tuple[Reading, ...]
    trouble: tuple[Finding, ...]


def read_inband(shell: Shell, store: EvidenceStore) -> InBand:
    """Everything the node tells. Raises `NodeUnreachable` when the connection dies; else goes on to the end."""
    asking = Asking(shell, store)
    kernel = asking.value(host.KERNEL)  # first, since it cannot hang unless the node does
    identity = _identity(asking)
    log = asking.answer(nvidia_smi.QUERY)
    status = asking.value(nvlink.STATUS) or ()
    link_errors = asking.answer(nvlink.ERRORS)
    devices = asking.answer(pci.LSPCI)
    interfaces = asking.value(ethernet.ADDRESSES) or ()
    rdma = asking.answer(infiniband.SYSFS)
    events = asking.answer(kernel_log.DMESG)
    smi = log.value if log else SmiLog()
    gpus = gpus_with_links(smi.gpus, status, source_of(log.evidence) if log else None)
    functions = devices.value if devices else ()
    adapters = rdma.value if rdma else ()
    inventory = Inventory(
        identity=identity,
        power="On",
        gpus=gpus,
        nics=nics_of(adapters, functions, interfaces, source_of(rdma.evidence) if rdma else None),
        gpus_found_in="nvidia-smi -q -x" if log else None,
        missing=(
            *(Missing(fact=fact, reason="asked out-of-band only") for fact in _OUT_OF_BAND_ONLY),
            *(Missing(fact="gpus", uri="nvidia-smi -q -x", reason=reason) for reason in _unread(log)),
            *_no_driver(asking),
        ),
    )
    software = _software(asking, kernel, identity.uuid, smi)
    counters = counters_of(gpus, link_errors, rdma, events, log.evidence if log else None)
    return InBand(inventory, software, (*counters, *_pci_readings(devices)), (*asking.trouble, *_partial(log)))


def read_software(shell: Shell, store: EvidenceStore) -> tuple[Software, tuple[Finding, ...]]:
    """Only what runs on the node, without its parts, and what it would not tell. Raises `NodeUnreachable`."""
    asking = Asking(shell, store)
    kernel, uuid = asking.value(host.KERNEL), asking.value(host.MACHINE_UUID)
    software = _software(asking, kernel, uuid, asking.value(nvidia_smi.QUERY) or SmiLog())
    return software, asking.trouble


def _identity(asking: Asking) -> Identity:
    return Identity(serial=asking.value(host.SERIAL), uuid=asking.value(host.MACHINE_UUID))


def _software(asking: Asking, kernel: str | None, uuid: str | None, smi: SmiLog) -> Software:
    image = asking.value(host.IMAGE) or host.LaidImage()
    return Software(
        os=asking.value(host.OS_RELEASE),
        image_name=image.name,
        image_digest=image.digest,
        kernel=kernel,
        driver=smi.driver,
        cuda=asking.value(host.CUDA),
        nccl=asking.value(host.NCCL),
        fabric_manager=asking.value(host.FABRIC_MANAGER),
        fabric_manager_active=asking.value(host.FABRIC_MANAGER_ACTIVE),
        dcgm=asking.value(host.DCGM),
        containerd=asking.value(host.CONTAINERD),
        kubelet=asking.value(host.KUBELET),
        kubeadm=asking.value(host.KUBEADM),
        boot_id=asking.value(host.BOOT_ID),
        machine_uuid=uuid,
    )


def _unread(log: Answer[SmiLog] | None) -> tuple[str, ...]:
    """What nvidia-smi says is not in its list, on either stream."""
    return (*log.value.unread, *nvidia_smi.lost_gpus(log.output.stderr)) if log else ()


def _no_driver(asking: Asking) -> tuple[Missing, ...]:
    """Why the driver's version is not known: nvidia-smi's own words."""
    said = (f for f in asking.trouble if f.subject == nvidia_smi.QUERY.name)
    return tuple(
        Missing(fact=fact, uri=nvidia_smi.QUERY.line, reason=f.observed)
        for f in said
        for fact in ("software.driver", "gpus")
    )


def _partial(log: Answer[SmiLog] | None) -> tuple[Finding, ...]:
    """GPUs that the driver knows of and cannot speak to."""
    return tuple(
        Finding(
            metric="gpu_answers",
            subject=nvidia_smi.pci_address(reason) or "nvidia-smi",
            outcome=Outcome.FAIL,
            observed=reason,
            expected="every GPU answers",
            remedy="Cold power cycle; if it stays away, reseat or replace the GPU.",
            source="nvidia-smi names a GPU that it cannot speak to",
            cause=f"nvidia-smi: {reason}",
            evidence=log.evidence if log else None,
        )
        for reason in _unread(log)
    )


def _pci_readings(devices: Answer[tuple[PciDevice, ...]] | None) -> tuple[Reading, ...]:
    """Links narrower or slower than both ends can do, and switch ports that send peer traffic round."""
    if devices is None:
        return ()
    working = {d.address for d in devices.value if d.title.startswith(_WORKING_CLASSES)}
    degraded = [
        Reading(
            metric="pcie_link_degraded",
            subject=f"PCI {link.device}",
            value=f"x{link.width} of x{link.width_expected}, {link.speed_gt_s:g} of {link.speed_expected_gt_s:g} GT/s",
            evidence=devices.evidence,
        )
        for link in pci.links(devices.value)
        if link.device in working and link.degraded
    ]
    ports = len(pci.redirecting_ports(devices.value))
    acs = Reading(metric="acs_redirecting_switch_ports", subject="node", value=ports, evidence=devices.evidence)
    return (acs, *degraded)
