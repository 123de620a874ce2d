"""A stand-in Kubernetes API server for the lab, over HTTP: what rackmint relies on, as the real one answers it.

`LabCluster(admin_token)` is what it holds; `make_app(cluster)` serves it. Call `cluster.open_at(url)` once the port is
known, so that nodes can find it. The nodes' kubelets report through `cluster.kubelet_status(...)`.
"""

from __future__ import annotations

from lab.kubernetes.cluster import LabCluster
from lab.kubernetes.web import make_app

__all__ = ["LabCluster", "make_app"]
