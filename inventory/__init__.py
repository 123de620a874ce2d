"""The nouns, and the doors through which a node is known: its BMC, its OS, NetBox, Kubernetes, our ledger."""
