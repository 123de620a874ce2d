"""What is laid on a node's disk: image manifests, the deploy agent, and the service the agent calls."""
