"""What requests, pynetbox and NetBox's own error answers mean, in our words. Every exception is caught by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pynetbox
import requests

from inventory.errors import BadSettings, BookUnreachable, ChangeRefused, LoginRefused

_SERVER_TROUBLE = 500  # from here on it is not the request's fault (RFC 9110, 15.6)
_LONGEST = 300  # our choice: enough for NetBox's sentence, too short for a page of HTML


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn every exception of requests and pynetbox into one of ours; `what` is method and URL."""
    try:
        yield
    except pynetbox.RequestError as error:
        raise_refused(error.req, "NetBox")
        raise BookUnreachable(f"{what}: {error}. Check that this is a NetBox") from error
    except pynetbox.AllocationError as error:
        raise ChangeRefused("NetBox", what, f"HTTP 409 {_said(error.req)}") from error
    except pynetbox.ContentError as error:
        raise BookUnreachable(f"{what}: answered something that is not JSON. Check that this is a NetBox") from error
    except pynetbox.ParameterValidationError as error:
        raise BadSettings(f"{what}: {error}. This NetBox does not know that filter") from error
    except requests.Timeout as error:
        raise BookUnreachable(f"{what}: no answer in time. Check NetBox's load and the network") from error
    except requests.exceptions.SSLError as error:
        raise BookUnreachable(f"{what}: {_last(error)}. Name the CA's file in [netbox] ca") from error
    except requests.JSONDecodeError as error:
        raise BookUnreachable(f"{what}: answered something that is not JSON. Check that this is a NetBox") from error
    except requests.RequestException as error:
        raise BookUnreachable(f"{what}: {_last(error)}. Check the URL and that NetBox runs") from error


def raise_refused(answer: requests.Response, who: str) -> None:
    """Raise what a bad answer means; a good one passes."""
    code, what = answer.status_code, f"{answer.request.method} {answer.url}"
    if answer.ok and not answer.is_redirect:
        return
    if answer.is_redirect:
        to = answer.headers.get("Location", "")
        raise BookUnreachable(f"{what}: redirects to {to}. Write the final address in [netbox] url")
    if code == requests.codes.unauthorized or (code == requests.codes.forbidden and _about_token(answer)):
        raise LoginRefused("NetBox", what, f"HTTP {code} {_said(answer)}", "Check the token in [netbox] token")
    if code == requests.codes.forbidden:
        do = "Give the token's user this permission; inventory/netbox/permissions.py lists the set"
        raise ChangeRefused(who, what, f"HTTP 403 {_said(answer)}", do)
    if code >= _SERVER_TROUBLE or code == requests.codes.too_many_requests:
        raise BookUnreachable(f"{what}: HTTP {code} {_said(answer)}. NetBox is down, overloaded or being upgraded")
    raise ChangeRefused(who, what, f"HTTP {code} {_said(answer)}", _advice(answer))


def _about_token(answer: requests.Response) -> bool:
    return "token" in answer.text.lower() or "credentials" in answer.text.lower()


def _advice(answer: requests.Response) -> str:
    if "Custom field" in answer.text and "does not exist" in answer.text:
        return "Set the custom fields up first: rackmint netbox init"
    return ""


def _said(answer: requests.Response) -> str:
    try:
        text = "; ".join(_flat(answer.json()))
    except requests.JSONDecodeError:
        text = answer.reason or "without JSON"
    return text[:_LONGEST]


def _flat(said: Any, at: str = "") -> Iterator[str]:
    """NetBox nests its complaints by row and field; here each is one sentence."""
    if isinstance(said, Mapping):
        for name, inner in said.items():
            plain = name in ("detail", "errors", "non_field_errors")
            yield from _flat(inner, at if plain else f"{at} {name}".strip())
    elif isinstance(said, list):
        for inner in said:
            yield from _flat(inner, at)
    else:
        yield f"{at}: {said}" if at else str(said)


def _last(error: Exception) -> str:
    """The innermost reason of a nested transport error."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return str(reason or error)[:_LONGEST]
