"""Reports made visible: terminal, JSON, HTML. All that a machine said is hostile text until it passed through here."""
