"""The lab's Kubernetes: an API server with the semantics rackmint relies on, and the part of kubeadm a node runs."""
