"""No foreign exception leaves the door untranslated."""

from __future__ import annotations

import inspect

import pytest
import requests
import requests.exceptions
import sushy.exceptions

from inventory.errors import NodeTrouble, NodeUnreachable, OutputNotUnderstood
from inventory.redfish.foreign import TRANSLATIONS, said, translate


def exported(module: object) -> list[type[Exception]]:
    """The exception classes a module defines."""
    found = inspect.getmembers(module, inspect.isclass)
    name = getattr(module, "__name__", "")
    return [kind for _, kind in found if issubclass(kind, Exception) and kind.__module__ == name]


@pytest.mark.parametrize("module", [sushy.exceptions, requests.exceptions], ids=["sushy", "requests"])
def test_every_foreign_exception_has_a_translation(module: object) -> None:
    """The table names each class, and each leads into our tree; warnings are none."""
    kinds = [kind for kind in exported(module) if not issubclass(kind, Warning)]
    assert kinds
    assert [] == [kind.__name__ for kind in kinds if kind not in TRANSLATIONS]
    assert [] == [kind.__name__ for kind, ours in TRANSLATIONS.items() if not issubclass(ours, NodeTrouble)]


def test_the_innermost_sentence_is_told() -> None:
    """Of a wrapped transport error only the cause is worth reading."""
    inner = requests.exceptions.ConnectionError(
        "HTTPSConnectionPool(host='h', port=1): Max retries exceeded with url: / (Caused by Refused('no'))"
    )
    outer = sushy.exceptions.ConnectionError(url="https://h/", error=inner)
    outer.__context__ = inner
    ours = translate("n1", "GET https://h/", outer)
    assert (NodeUnreachable, "Refused('no'") == (type(ours), ours.said)


def test_what_nobody_knows_is_not_understood() -> None:
    """An exception of another kind is still one of ours."""
    assert OutputNotUnderstood is type(translate("n1", "GET x", TypeError("list indices")))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"@Message.ExtendedInfo": [{"Message": "a"}, {"Message": "b"}, {"Message": "a"}]}}, "a; b"),
        ({"error": {"@Message.ExtendedInfo": {"Message": "alone"}}}, "alone"),
        ({"error": {"code": "Base.1.0.GeneralError", "message": "plain"}}, "plain"),
        ({"Attributes@Message.ExtendedInfo": [{"Message": "beside"}]}, "beside"),
        ({"Messages": [{"Message": "of a task"}]}, "of a task"),
        ({"error": "no"}, ""),
        ({"error": {"@Message.ExtendedInfo": ["text", None, 3]}}, ""),
        (None, ""),
    ],
)
def test_extended_messages_are_found_wherever_they_stand(body: dict[str, object] | None, expected: str) -> None:
    """In the error, beside a property, in a task; of any shape."""
    assert expected == said(body)
