"""What commands have in common: `--json`, and one answer as a sentence for people or a document for programs."""

from __future__ import annotations

import json
from typing import Any

import click

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")


def document(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=1, default=str))


def answer(as_json: bool, sentence: str, **told: Any) -> None:
    """Print what was done: the sentence, or the same as JSON."""
    if as_json:
        document(told)
    else:
        click.echo(sentence)
