"""What the kubelets of joined nodes tell the API server, again and again, from the state of their machines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from lab.apiserver import LabCluster
from lab.machine import Machine

REPORT_EVERY_S = 10.0  # a kubelet's node status update frequency. Source: KubeletConfiguration v1beta1 default
_LEAST_S = 0.1  # our choice: so that a fast clock does not keep the CPU busy
_NO_WORD = "Kubelet stopped posting node status."  # the node controller's own words


async def report_for_ever(machines: Iterable[Machine], cluster: LabCluster) -> None:
    """Report for every joined node, paced by its machine's clock."""
    nodes = list(machines)
    while True:
        for machine in nodes:
            if machine.joined is not None:
                report(machine, cluster)
        await asyncio.sleep(max(_LEAST_S, nodes[0].clock.real_s(REPORT_EVERY_S)))


def report(machine: Machine, cluster: LabCluster) -> None:
    """One status report; a node that is down has stopped reporting."""
    up, gpus = machine.running, gpus_offered(machine)
    cluster.kubelet_status(
        (machine.joined or {}).get("node", machine.name),
        ready=True if up else None,
        gpus_capacity=gpus,
        gpus_allocatable=gpus,
        system_uuid=machine.state.uuid,
        boot_id=machine.boot_id,
        kubelet=machine.software.get("kubelet", ""),
        kernel=machine.software.get("kernel", ""),
        message="" if up else _NO_WORD,
    )


def gpus_offered(machine: Machine) -> int:
    """How many GPUs the device plugin registers: none when it is dead or has no driver."""
    if machine.fault("k8s_plugin_dead") or machine.fault("driver_missing"):
        return 0
    return len(machine.state.gpus_present)
