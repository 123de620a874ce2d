"""NetBox down, slow, wrong, forbidden or not a NetBox: one clear sentence each, and nothing is written twice."""

from __future__ import annotations

import inspect
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pynetbox
import pytest
import requests
from aiohttp import web

from inventory.deadline import Deadline
from inventory.errors import BadSettings, BookUnreachable, BudgetSpent, ChangeRefused, LoginRefused, RackmintError
from inventory.netbox import NetBox, refusals
from inventory.netbox.refusals import translated
from inventory.secrets import Secret
from tests.inventory.netbox.hall import TOKEN, Hall, Served, certificate, found, record, report


@dataclass
class Odd:
    """A server that answers whatever the test says, and remembers what came."""

    status: int = 200
    text: str = "{}"
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 10**6  # how many answers are odd; afterwards: an empty list
    seen: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        """One answer."""
        self.seen.append(f"{request.method} {request.path}")
        if len(self.seen) > self.times:
            return web.json_response({"count": 0, "next": None, "previous": None, "results": []})
        return web.Response(status=self.status, text=self.text, content_type=self.content_type, headers=self.headers)


@pytest.fixture
def odd() -> Iterator[tuple[Odd, NetBox]]:
    """An odd server and a client of it."""
    server = Odd()
    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", server.answer)
    served = Served(app)
    with NetBox(served.url, Secret(TOKEN)) as netbox:
        yield server, netbox
    served.stop()


def test_nobody_listens() -> None:
    """A wrong port names the URL and what the system said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with NetBox(url, Secret(TOKEN)) as netbox, pytest.raises(BookUnreachable, match=rf"{url}/api/status/.*refused"):
        netbox.check()


def test_down_is_said_after_three_tries(odd: tuple[Odd, NetBox]) -> None:
    """A 503 is asked again twice, and then told with the URL."""
    server, netbox = odd
    server.status, server.text, server.content_type = 503, "<h1>maintenance</h1>", "text/html"
    with pytest.raises(BookUnreachable, match=r"/api/dcim/racks/.*HTTP 503"):
        netbox.racks()
    assert ["GET /api/dcim/racks/"] * 3 == server.seen


def test_a_short_absence_is_ridden_out(odd: tuple[Odd, NetBox]) -> None:
    """Two 502s of a reloading proxy are not noticed."""
    server, netbox = odd
    server.status, server.times = 502, 2
    assert () == netbox.racks()


def test_a_plain_write_is_never_sent_twice(lab_hall: Hall) -> None:
    """A POST that got no good answer may have arrived: it is not repeated."""
    node = lab_hall.nodes[0]
    said = report(lab_hall, node)
    plan = lab_hall.netbox.plan_record(lab_hall.netbox.read(said.node.netbox_id or 0), said, certificate(node))
    before = len(lab_hall.book.requests)
    lab_hall.faults.add("netbox_down")
    with pytest.raises(BookUnreachable):
        lab_hall.netbox._wire.post("dcim/modules", [{}], node.name)
    assert 1 == len(lab_hall.book.requests) - before
    lab_hall.faults.clear()
    assert lab_hall.netbox.record(plan) > 0


def test_a_node_whose_netbox_is_lost_harms_no_other(lab_hall: Hall) -> None:
    """`netbox_down` on one node answers 503 for its device alone."""
    one, two = lab_hall.nodes
    first, _ = lab_hall.ids()
    one.faults.add("netbox_down")
    with pytest.raises(BookUnreachable, match="503"):
        lab_hall.netbox.read(first)
    assert record(lab_hall, two) > 0


def test_a_bad_token_is_told_as_such(lab_hall: Hall) -> None:
    """The sentence names the token's setting and never the token."""
    with NetBox(lab_hall.url, Secret("wrong-token-wrong")) as netbox, pytest.raises(LoginRefused) as refused:
        netbox.check()
    assert "HTTP 403 Invalid v1 token. Check the token in [netbox] token" in str(refused.value)
    assert "wrong-token-wrong" not in str(refused.value)


def test_an_old_netbox_is_refused(lab_hall: Hall) -> None:
    """Before 4.6 there is no If-Match, so nothing can be written safely."""
    lab_hall.book.version = "4.5.9"
    with pytest.raises(BadSettings, match=r"NetBox 4\.5\.9 .* needs 4\.6 or newer"):
        lab_hall.netbox.check()


@pytest.mark.parametrize(("text", "kind"), [("<html>hello</html>", "text/html"), ("{}", "application/json")])
def test_something_else_is_no_netbox(odd: tuple[Odd, NetBox], text: str, kind: str) -> None:
    """A web page or another service at the URL is told apart."""
    server, netbox = odd
    server.text, server.content_type = text, kind
    with pytest.raises(BookUnreachable, match="Check that this is a NetBox"):
        netbox.check()


def test_a_redirect_is_not_followed_with_the_token(odd: tuple[Odd, NetBox]) -> None:
    """A moved NetBox is told with its new address; a redirected write would turn into a read."""
    server, netbox = odd
    server.status, server.headers = 302, {"Location": "https://elsewhere.example/"}
    with pytest.raises(BookUnreachable, match=r"redirects to https://elsewhere\.example/"):
        netbox.read(1)
    with pytest.raises(BookUnreachable):
        netbox.racks()


def test_surroundings_give_proxies_and_never_a_login(
    lab_hall: Hall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of the environment is used, and a .netrc that knows this host does not replace the token."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with NetBox(lab_hall.url, Secret(TOKEN), timeout_s=2) as netbox:
        assert netbox.racks()
    monkeypatch.setenv("HTTP_PROXY", lab_hall.url)
    with NetBox("http://netbox.invalid", Secret(TOKEN), timeout_s=2) as proxied:
        assert proxied.racks()


def test_a_deadline_ends_the_waiting(odd: tuple[Odd, NetBox]) -> None:
    """With its budget spent a call ends at once, and names NetBox."""
    server, _ = odd
    clock = [0.0]
    deadline = Deadline("r1-n01", 5, clock=lambda: clock[0])
    with NetBox(f"http://127.0.0.1:{_port(odd)}", Secret(TOKEN), deadline=deadline) as netbox:
        clock[0] = 6.0
        with pytest.raises(BudgetSpent, match="NetBox"):
            netbox.racks()
    assert [] == server.seen


def _port(odd: tuple[Odd, NetBox]) -> str:
    return odd[1]._wire.url.rpartition(":")[2]


def test_without_graphql_the_book_is_read_over_rest(lab_hall: Hall) -> None:
    """GraphQL switched off: recording and re-recording come to the same."""
    lab_hall.book.graphql_on = False
    assert record(lab_hall, lab_hall.nodes[0]) > 0
    assert 0 == record(lab_hall, lab_hall.nodes[0], "run-2")


def test_before_4_7_ports_get_their_mac_as_an_object(lab_hall: Hall) -> None:
    """NetBox 4.6 ignores a port's mac_address in silence: the MAC is made and the port pointed at it."""
    lab_hall.book.version = "4.6.2"
    node = lab_hall.nodes[0]
    record(lab_hall, node)
    macs = {port.name: port.mac for port in lab_hall.netbox.read(lab_hall.ids()[0]).ports}
    assert node.nics[0].mac == macs["PCIe1/1"]
    assert 0 == record(lab_hall, node, "run-2")


def test_a_token_without_the_catalogue_leaves_unknown_parts_out(lab_hall: Hall) -> None:
    """Parts of unknown type are told, the rest is recorded, and no module type is invented."""
    lab_hall.book.may_add_types = False
    node = lab_hall.nodes[0]
    said = report(lab_hall, node)
    book = lab_hall.netbox.read(said.node.netbox_id or 0)
    plan = lab_hall.netbox.plan_record(book, said, certificate(node))
    assert (51, ()) == (len(plan.findings), plan.new_parts)
    assert "GPU1: NetBox has no module type NVIDIA H100 80GB HBM3" in {f.cause for f in plan.findings}
    lab_hall.netbox.record(plan)
    assert "accepted" == lab_hall.netbox.read(book.id).text("verdict")


def test_fields_that_are_not_set_up_are_told(lab_hall: Hall) -> None:
    """A NetBox without our custom fields on modules refuses them, and the sentence says what to do."""
    lab_hall.book.store.drop(
        "extras/custom-fields", lab_hall.book.store.one("extras/custom-fields", name="firmware")["id"]
    )
    with pytest.raises(ChangeRefused, match=r"custom_fields firmware: .* does not exist.*rackmint netbox init"):
        record(lab_hall, lab_hall.nodes[0])


def test_device_fields_that_are_not_set_up_are_left_out_and_told(lab_hall: Hall) -> None:
    """One custom field less: the rest is recorded, the gap is a finding, and a second run still writes nothing."""
    store, node = lab_hall.book.store, lab_hall.nodes[0]
    store.drop("extras/custom-fields", store.one("extras/custom-fields", name="bios_profile")["id"])
    del lab_hall.book.device(node.name)["custom_fields"]["bios_profile"]
    said = report(lab_hall, node)
    plan = lab_hall.netbox.plan_record(lab_hall.netbox.read(said.node.netbox_id or 0), said, certificate(node))
    assert ["NetBox has no custom field bios_profile on devices"] == [finding.cause for finding in plan.findings]
    lab_hall.netbox.record(plan)
    assert 0 == record(lab_hall, node, "run-2")


def test_a_refusal_names_row_and_field(lab_hall: Hall) -> None:
    """NetBox's nested complaint becomes one sentence with the node in front."""
    node = lab_hall.nodes[0]
    record(lab_hall, node)
    module = lab_hall.person.module(node.name, "GPU1")
    again = [{n: module[n]["id"] for n in ("device", "module_bay", "module_type")}]
    with pytest.raises(ChangeRefused, match=f"^{node.name}: POST .*module_bay already exists"):
        lab_hall.netbox._wire.post("dcim/modules", again, node.name)


def test_accepted_is_not_applied(lab_hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """A NetBox that answers 200 and keeps nothing is found out by reading back."""
    monkeypatch.setattr(lab_hall.book.store, "change", lambda path, row, body: row)
    with pytest.raises(RackmintError, match="still differs after writing"):
        record(lab_hall, lab_hall.nodes[0])


# Every exception these two libraries define; a new one in a later version fails this test and wants a sentence.
_PYNETBOX = {"AllocationError", "ContentError", "ParameterValidationError", "RequestError"}


def test_every_exception_of_pynetbox_is_known() -> None:
    """The exceptions pynetbox may raise are exactly those that are translated by name."""
    defined = {n for n, c in inspect.getmembers(pynetbox.core.query, inspect.isclass) if issubclass(c, Exception)}
    assert _PYNETBOX == defined
    assert _PYNETBOX == {name for name in _PYNETBOX if f"pynetbox.{name}" in inspect.getsource(refusals)}


@pytest.mark.parametrize(
    "error",
    [
        requests.ConnectionError("no route"),
        requests.Timeout("too slow"),
        requests.TooManyRedirects("round and round"),
        requests.exceptions.SSLError("self-signed"),
        requests.exceptions.ChunkedEncodingError("cut off"),
        requests.exceptions.InvalidURL("no host"),
        requests.exceptions.MissingSchema("no scheme"),
    ],
)
def test_every_transport_error_is_translated(error: requests.RequestException) -> None:
    """Whatever requests raises, the sentence says what was asked of whom."""
    with pytest.raises(BookUnreachable, match=r"^GET http://book/api/: "), translated("GET http://book/api/"):
        raise error


def test_a_wrong_identity_writes_nothing_but_the_alarm(lab_hall: Hall) -> None:
    """Another chassis answers at this BMC: no field is touched, the journal says so, a person decides."""
    one, two = lab_hall.nodes
    said = report(lab_hall, one, inventory=found(two))
    plan = lab_hall.netbox.plan_record(lab_hall.netbox.read(said.node.netbox_id or 0), said, certificate(one))
    assert ("journal entry",) == plan.writes
    assert f"NetBox has serial {one.serial} for this node, its BMC says {two.serial}" == plan.findings[0].cause
    lab_hall.netbox.record(plan)
    assert ({}, "") == (lab_hall.book.modules(one.name), lab_hall.netbox.read(plan.book.id).text("verdict"))
