"""The Kubernetes fleet: hold a node from birth, let it go only with a certificate, take back only what is ours."""

from inventory.fleet.fleet import Fleet
from inventory.fleet.gates import Expected, judge_gates
from inventory.fleet.node import FleetNode, Taint

__all__ = ["Expected", "Fleet", "FleetNode", "Taint", "judge_gates"]
