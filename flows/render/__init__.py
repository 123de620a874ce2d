"""Reports made visible: terminal, JSON, HTML. Everything a machine said is hostile text until it passed through here."""
