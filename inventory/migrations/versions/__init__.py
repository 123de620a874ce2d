"""How a ledger gets from one version's tables to the next."""
