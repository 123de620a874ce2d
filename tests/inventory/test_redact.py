"""A secret is found in whatever way it is written, and what is no secret stays as it is."""

from __future__ import annotations

import base64
import html
import json
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from inventory.redact import BLOT, Redactor

ODD = 'kä+n/g & "ru\\h" <1>'
KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU+/\nAAAAE2VjZHNhLXNoYTItbmlzdHAyNTY=\n-----END"
)


def knowing(*secrets: str) -> Redactor:
    """A redactor that knows these."""
    redactor = Redactor()
    for secret in secrets:
        redactor.learn(secret)
    return redactor


@pytest.mark.parametrize("written", [
    ODD, json.dumps({"said": ODD}), json.dumps({"said": ODD}, ensure_ascii=False), repr([ODD]), html.escape(ODD),
    f"https://root:{quote(ODD, safe='')}@bmc/", quote(ODD), quote_plus(ODD),
    base64.b64encode(ODD.encode()).decode(), base64.b64encode(f"root:{ODD}".encode()).decode(),
    base64.urlsafe_b64encode(f"admin:{ODD}!".encode()).decode(),
])  # fmt: skip
def test_every_spelling_is_blotted_out(written: str) -> None:
    """Escaped, quoted, encoded with a neighbour on either side: nothing of it is left."""
    redactor = knowing(ODD)
    cleaned = redactor.clean(written)
    assert BLOT in cleaned
    assert cleaned.encode() == redactor.clean_bytes(written.encode())
    assert not [part for part in ("n/g", "n%2Fg", "ru") if part in cleaned]


def test_a_line_of_a_key_is_the_key() -> None:
    """Half of a private key in a log is no better than the whole."""
    body = KEY.splitlines()[1:3]
    said = f"cannot read {body[0]} after\n{body[1]}"
    assert [] == [line for line in body if line in knowing(KEY).clean(said)]
    assert "-----BEGIN OPENSSH PRIVATE KEY-----" == knowing(KEY).clean("-----BEGIN OPENSSH PRIVATE KEY-----")


def test_a_password_that_is_a_common_word_breaks_no_record() -> None:
    """Somebody's BMC password is "pass": texts lose it, keys and outcomes stay what they are."""
    record = {"outcome": "pass", "stage": "pass", "pass": 1, "said": "the pass word", "list": ["pass"]}
    cleaned = json.loads(knowing("pass").clean_json(json.dumps(record)))
    assert {"outcome": "pass", "stage": "pass", "pass": 1, "said": f"the {BLOT} word", "list": [BLOT]} == cleaned


def test_short_values_are_left_alone() -> None:
    """A three-letter value would eat ordinary text."""
    assert "abc and abcd" == knowing("abc").clean("abc and abcd")


def test_an_address_with_a_token_is_known_by_its_shape() -> None:
    """What another process minted is not known by value; the address of a boot artifact gives it away."""
    said = '"Image": "http://10.0.0.1:8480/boot/0a1b2c3d/AbCdEf0123456789_-xyz/agent.iso"'
    assert f'"Image": "http://10.0.0.1:8480/boot/0a1b2c3d/{BLOT}/agent.iso"' == Redactor().clean(said)
    assert Redactor().clean(said).encode() == Redactor().clean_bytes(said.encode())


def test_thousands_of_tokens_cost_nothing() -> None:
    """Tokens minted for a hall are found among megabytes, in the time of one scan."""
    redactor = Redactor()
    tokens = [f"token-{number:06}-abcdefgh" for number in range(5000)]
    for token in tokens:
        redactor.learn_token(token)
    text = " ".join(f"word{number} other-{number:06}-abcdefgh" for number in range(20000)) + f" {tokens[77]}/x"
    began = time.process_time()
    cleaned = redactor.clean(text)
    took_s = time.process_time() - began
    assert (True, False) == (cleaned.endswith(f"{BLOT}/x"), tokens[77] in cleaned)
    assert took_s < 1.0


@given(st.text(min_size=8, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_no_secret_survives_json(secret: str, before: str, after: str) -> None:
    """Whatever the value and its neighbours: read back from cleaned JSON it is not there."""
    assume(secret not in BLOT)
    cleaned = json.loads(knowing(secret).clean_json(json.dumps({"said": f"{before}{secret}{after}"})))
    assert secret not in cleaned["said"]
