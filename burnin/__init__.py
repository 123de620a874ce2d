"""Says whether a node performs: checks, node tests, pair tests, limits and cohorts."""
