"""The lab's NetBox behaves as NetBox does where rackmint relies on it. The same door tests run against a real one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import requests
from aiohttp import web

from lab.hardware import Shape, build_node
from lab.netbox import LabBook, make_app

TOKEN = "token-of-the-stand-in"


class Desk:
    """The stand-in, served, and an HTTP session with its token."""

    def __init__(self) -> None:
        self.nodes = [build_node("R1", 1, Shape.HGX), build_node("R2", 1, Shape.PCIE)]
        self.faults: set[str] = set()
        urls = {node.name: "https://127.77.1.1:8443" for node in self.nodes[:1]}
        self.book = LabBook(self.nodes, "lab", TOKEN, urls)
        self._loop = asyncio.new_event_loop()
        self._runner = web.AppRunner(make_app(self.book, self.faults), access_log=None)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self.http = requests.Session()
        self.http.headers["Authorization"] = f"Token {TOKEN}"

    async def _start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()

    def close(self) -> None:
        """Stop serving."""
        self.http.close()
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def get(self, path: str, **query: object) -> requests.Response:
        """GET below /api/."""
        return self.http.get(f"{self.url}/api/{path}/", params=query)

    def count(self, path: str, **query: object) -> int:
        """How many rows a list shows."""
        count: int = self.get(path, **query).json()["count"]
        return count

    def send(self, method: str, path: str, body: object, **headers: str) -> requests.Response:
        """A write below /api/."""
        return self.http.request(method, f"{self.url}/api/{path}/", json=body, headers=headers)

    def ask(self, query: str, **variables: object) -> dict[str, object]:
        """A GraphQL query's whole answer."""
        answer = self.http.post(f"{self.url}/graphql/", json={"query": query, "variables": variables})
        said: dict[str, object] = answer.json()
        return said


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A fresh stand-in."""
    made = Desk()
    yield made
    made.close()


def test_without_the_token_nothing_is_shown(desk: Desk) -> None:
    """403 with NetBox's words, for no token and for a wrong one; either keyword is taken."""
    bare = requests.get(f"{desk.url}/api/status/", timeout=5)
    wrong = requests.get(f"{desk.url}/api/status/", headers={"Authorization": "Token no"}, timeout=5)
    right = requests.get(f"{desk.url}/api/status/", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=5)
    assert (403, "Authentication credentials were not provided.") == (bare.status_code, bare.json()["detail"])
    assert (403, 200) == (wrong.status_code, right.status_code)
    assert ("4.7.3", "4.7") == (right.json()["netbox-version"], right.headers["API-Version"])


def test_the_book_is_filled_before_the_first_run(desk: Desk) -> None:
    """Racks, staged devices with serial and BMC address, and a bay for every part."""
    (device,) = desk.get("dcim/devices", name="r1-n01").json()["results"]
    assert ("staged", desk.nodes[0].serial, 1.0) == (device["status"]["value"], device["serial"], device["position"])
    assert ("127.77.1.1/16", "lab-hgx") == (device["oob_ip"]["address"], device["custom_fields"]["node_class"])
    assert (2, 51, 0) == (
        desk.count("dcim/racks"),
        desk.count("dcim/module-bays", device_id=device["id"]),
        desk.count("dcim/modules"),
    )


def test_an_unknown_filter_shows_everything(desk: Desk) -> None:
    """NetBox's most expensive habit: a misspelt filter is ignored."""
    assert (2, 1, 2) == (
        desk.count("dcim/devices"),
        desk.count("dcim/devices", rack_id=desk.book.device("r1-n01")["rack"]),
        desk.count("dcim/devices", rack_nmae="R1"),
    )


def test_lists_come_in_pages(desk: Desk) -> None:
    """Fifty rows unless asked for more, with the next page's address."""
    first = desk.get("dcim/module-bays").json()
    second = desk.http.get(first["next"]).json()
    assert (102, 50, 50, 2) == (
        first["count"],
        len(first["results"]),
        len(second["results"]),
        len(desk.http.get(second["next"]).json()["results"]),
    )


def test_if_match_lets_one_writer_through(desk: Desk) -> None:
    """The ETag moves with every write; a PATCH on an old one is 412 and changes nothing."""
    device = desk.book.device("r1-n01")
    tag = desk.get(f"dcim/devices/{device['id']}").headers["ETag"]
    answers = [
        desk.send("PATCH", f"dcim/devices/{device['id']}", {"description": words}, **{"If-Match": tag})
        for words in ("first", "second")
    ]
    assert ([200, 412], "first") == ([answer.status_code for answer in answers], device["description"])


def test_a_bulk_write_is_all_or_nothing(desk: Desk) -> None:
    """One bad row refuses the list, and the answer says which."""
    rows = [{"name": "One", "slug": "one"}, {"name": "Two", "slug": "one"}]
    answer = desk.send("POST", "dcim/manufacturers", rows)
    assert (400, 1) == (answer.status_code, answer.json()["errors"][0]["index"])
    assert 0 == desk.count("dcim/manufacturers", slug="one")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("dcim/racks", {"name": "R3"}, "site"),
        ("dcim/devices", {"name": "x", "site": 999, "device_type": 1, "role": 1}, "site"),
        ("dcim/devices", {"name": "x", "status": "nope"}, "site"),
        ("extras/tags", {"name": "rackmint", "slug": "other"}, "non_field_errors"),
    ],
)
def test_bad_rows_are_refused_by_field(desk: Desk, path: str, body: dict[str, object], field: str) -> None:
    """Missing, unknown, wrong and double values are each a 400 that names the field."""
    answer = desk.send("POST", path, body)
    assert (400, True) == (answer.status_code, field in answer.json())


def test_unknown_custom_fields_are_refused(desk: Desk) -> None:
    """A custom field nobody set up is a 400, in NetBox's words."""
    device = desk.book.device("r1-n01")
    answer = desk.send("PATCH", f"dcim/devices/{device['id']}", {"custom_fields": {"no_such": "x"}})
    assert "Custom field 'no_such' does not exist for this object type." in answer.text


def test_an_interface_takes_its_mac(desk: Desk) -> None:
    """Since 4.7 a MAC given with the port makes the MAC object and marks it primary, in upper case."""
    device = desk.book.device("r1-n01")
    port = {"device": device["id"], "name": "x", "type": "other", "mac_address": "02:aa:00:00:00:01"}
    made = desk.send("POST", "dcim/interfaces", [port]).json()[0]
    assert "02:AA:00:00:00:01" == made["mac_address"]
    assert 1 == desk.count("dcim/devices", mac_address="02:aa:00:00:00:01")


def test_graphql_refuses_what_it_does_not_know(desk: Desk) -> None:
    """Over GraphQL a misspelt field or filter is an error and not a surprise."""
    device_id = str(desk.book.device("r1-n01")["id"])
    good = desk.ask("query A($ids: [ID!]) { device_list(filters: {id: {in_list: $ids}}) { name } }", ids=[device_id])
    assert {"data": {"device_list": [{"name": "r1-n01"}]}} == good
    assert "Cannot query field 'nmae'" in str(desk.ask("{ device_list { nmae } }")["errors"])
    assert "not defined" in str(desk.ask('{ device_list(filters: {nmae: {exact: "x"}}) { name } }')["errors"])
    assert "Syntax Error" in str(desk.ask("{ device_list { name ")["errors"])


def test_down_is_down_for_everything(desk: Desk) -> None:
    """The fault netbox_down answers 503 at every door, until it is taken away."""
    desk.faults.add("netbox_down")
    assert [503, 503] == [desk.get("status").status_code, desk.get("dcim/racks").status_code]
    desk.faults.clear()
    assert 200 == desk.get("status").status_code


def test_down_for_one_node_leaves_the_others(desk: Desk) -> None:
    """The same fault on one node answers 503 for its device alone."""
    desk.nodes[0].faults.add("netbox_down")
    one, two = (desk.book.device(node.name)["id"] for node in desk.nodes)
    assert [503, 200, 200] == [
        desk.get(f"dcim/devices/{one}").status_code,
        desk.get(f"dcim/devices/{two}").status_code,
        desk.get("dcim/devices").status_code,
    ]


def test_a_conflict_happens_once_a_device(desk: Desk) -> None:
    """The fault netbox_conflict edits the device just before our PATCH, so that it is 412 once."""
    desk.nodes[0].faults.add("netbox_conflict")
    path = f"dcim/devices/{desk.book.device('r1-n01')['id']}"
    codes = []
    for _ in range(2):
        tag = desk.get(path).headers["ETag"]
        codes.append(desk.send("PATCH", path, {"serial": "S1"}, **{"If-Match": tag}).status_code)
    assert [412, 200] == codes


def test_people_edit_the_book(desk: Desk) -> None:
    """The planted differences of an audit: moved on paper, re-labelled, taken out of service."""
    desk.book.move("r1-n01", 20, "R2")
    desk.book.edit_custom("r1-n01", certificate_id="old")
    device = desk.get("dcim/devices", name="r1-n01").json()["results"][0]
    assert ("R2", 20.0, "old") == (
        device["rack"]["name"],
        device["position"],
        device["custom_fields"]["certificate_id"],
    )
