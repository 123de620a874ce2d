"""Pure readers: a tool's text in, frozen facts out; `ValueError` says what was expected and which line was met."""
