"""A rack you can break without a forklift: simulated servers that speak the real protocols on loopback."""
