"""How a node's firmware should be set: one profile a server model, each value with its reason and source."""
