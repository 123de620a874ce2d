"""How bytes reach a BMC: each request counted, the certificate held against its pin, no body without end."""

from __future__ import annotations

import time
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from inventory.deadline import Deadline
from inventory.redfish.pins import trusting_context

MOST_BYTES = 16 * 1024 * 1024  # our choice: the largest real resource seen is 513 KB (a GB300 port metric report)


class AnswerTooLarge(requests.RequestException):
    """A BMC sent more than any resource can be, or for longer than there was time."""


class CountingAdapter(HTTPAdapter):
    """One BMC's transport; the pin is checked in the TLS handshake, before a request is written."""

    def __init__(self, *, verify: bool | str, fingerprint: str, deadline: Deadline) -> None:
        self.requests = 0
        self.keeps_connections = True
        self._verify: bool | str = verify
        self._fingerprint = fingerprint
        self._deadline = deadline
        self._last_words_until: float | None = None
        super().__init__(max_retries=0, pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any) -> None:
        """Hand the pin down to every connection that will be made."""
        if self._fingerprint:
            pool_kwargs |= {"assert_fingerprint": self._fingerprint, "ssl_context": trusting_context()}
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)

    def hang_up(self) -> None:
        """Close idle connections, so that the next request goes out on a fresh one."""
        self.poolmanager.clear()

    def last_words(self, seconds: float) -> None:
        """Let one more short answer in although the budget may be spent."""
        self._last_words_until = time.monotonic() + seconds

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send one request and take in its whole body, as far as that is reasonable."""
        self.requests += 1
        kwargs |= {"stream": True, "verify": self._verify, "proxies": None}
        response = super().send(request, *args, **kwargs)
        response._content = self._body(response)
        response.close()  # gives the connection back; without a body nothing else does
        if not self.keeps_connections:
            self.hang_up()  # some servers close without saying so; the next request would find a dead connection
        return response

    def _body(self, response: requests.Response) -> bytes:
        taken = bytearray()
        for chunk in response.iter_content(64 * 1024):
            taken += chunk
            if len(taken) > MOST_BYTES or self._time_is_up():
                response.close()
                raise AnswerTooLarge(f"answer cut off after {len(taken)} bytes", response=response)
        return bytes(taken)

    def _time_is_up(self) -> bool:
        if self._last_words_until is not None:
            return time.monotonic() > self._last_words_until
        return self._deadline.left_s <= 0 or self._deadline.cancel.is_set()
