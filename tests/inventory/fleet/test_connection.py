"""Whatever a server does on the wire, one of our own exceptions comes out, in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from inventory.errors import BookUnreachable, ChangeRefused, LoginRefused, OutputNotUnderstood, RackmintError
from inventory.fleet import Fleet

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"


@contextmanager
def answering(raw: bytes, *, after_s: float = 0.0) -> Iterator[Fleet]:
    """A fleet whose server says these very bytes to everybody and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(65536)
                over.wait(after_s)
                peer.sendall(raw)

    thread = threading.Thread(target=serve)
    thread.start()
    fleet = Fleet(server=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.5)
    try:
        yield fleet
    finally:
        fleet.close()
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", BookUnreachable),  # hangs up
        (b"\x16\x03\x01\x00\x00 what", BookUnreachable),  # speaks TLS
        (b"SSH-2.0-OpenSSH_9.6\r\n", BookUnreachable),
        (_OK + b"Content-Length: 500\r\n\r\n{", BookUnreachable),  # cut off in the middle
        (_OK + b"Content-Length: 5\r\n\r\n<htm>", BookUnreachable),  # a proxy's page
        (_OK + b"Content-Length: 2\r\n\r\n[]", OutputNotUnderstood),
        (_OK + b"Content-Length: 17\r\n\r\n" + b'{"metadata":null}', OutputNotUnderstood),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", BookUnreachable),
        (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", LoginRefused),
        (b"HTTP/1.1 403 No\r\nContent-Length: 3\r\nConnection: close\r\n\r\n\xff\xfe{", ChangeRefused),
        (b"HTTP/1.1 302 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", RackmintError),
    ],
)
def test_nonsense_on_the_wire_becomes_an_error_of_ours(raw: bytes, expected: type[RackmintError]) -> None:
    """Never the client library's own exception, never a traceback for the operator."""
    with answering(raw) as fleet, pytest.raises(expected):
        fleet.node("n1")


def test_a_server_that_does_not_answer_is_given_up_in_time() -> None:
    """Each try has its own time-out, and there are few."""
    started = time.monotonic()
    with answering(b"", after_s=10) as fleet, pytest.raises(BookUnreachable):
        fleet.node("n1")
    assert time.monotonic() - started < 5


def test_a_write_that_may_have_been_heard_is_not_sent_again() -> None:
    """The caller looks at what stands there instead."""
    with answering(b"") as fleet, pytest.raises(BookUnreachable, match="create the Node"):
        fleet.precreate("n1", "CH1", "run-a")
