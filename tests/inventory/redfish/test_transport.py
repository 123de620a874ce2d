"""The wire: certificates, sessions, redirects, retries, tasks, sizes. Nothing is re-sent that may have been obeyed."""

from __future__ import annotations

import base64
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from inventory.deadline import Deadline
from inventory.errors import (
    BudgetSpent,
    Cancelled,
    ChangeNotApplied,
    ChangeRefused,
    LoginRefused,
    NodeBusy,
    NodeUnreachable,
    OutputNotUnderstood,
)
from inventory.redfish import Bmc, BmcLogin, PinStore, adapter, client
from inventory.redfish.crawl import Reader
from inventory.redfish.pins import leaf_sha256
from inventory.secrets import Secret
from lab.bmc.serve import BmcServer
from lab.hardware import Shape

OpenBmc = Callable[..., AbstractContextManager[Bmc]]
LabBmc = Callable[[Shape], BmcServer]
SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
SESSIONS = "/redfish/v1/SessionService/Sessions"


# --- certificates -----------------------------------------------------------------------------------------------------


def test_the_first_certificate_seen_is_pinned(lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin) -> None:
    """On first contact the leaf's SHA-256 is remembered, and used from then on."""
    server = lab_bmc(Shape.HGX)
    held: dict[str, str] = {}
    with connect(server.url, login, pins=PinStore(held.get, held.__setitem__)):
        pass
    assert {server.url: leaf_sha256("n1", server.url, Deadline("n1", 5))} == held


def test_another_certificate_is_an_alarm_and_no_credential_leaves(
    lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin
) -> None:
    """With a wrong pin not one request reaches the BMC, and the sentence says what to do."""
    server = lab_bmc(Shape.HGX)
    pins = PinStore({server.url: "ab" * 32}.get, lambda url, pin: None)
    with pytest.raises(NodeUnreachable, match=r"certificate changed.*forget the pin"):
        connect(server.url, login, pins=pins).__enter__()
    assert 0 == server.bmc.requests


def test_verify_refuses_a_self_signed_certificate(lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin) -> None:
    """With tls="verify" nobody is believed who is not signed."""
    server = lab_bmc(Shape.HGX)
    with pytest.raises(NodeUnreachable, match="certificate not trusted"):
        connect(server.url, login, tls="verify").__enter__()
    assert 0 == server.bmc.requests


def test_a_ca_file_is_believed(lab_bmc: LabBmc, connect: OpenBmc, login: BmcLogin, tmp_path: Path) -> None:
    """With a CA file, what it has signed is trusted."""
    server = lab_bmc(Shape.HGX)
    held = tmp_path / "ca.pem"
    held.write_text(ssl.get_server_certificate(("127.0.0.1", server.port)))
    with connect(server.url, login, tls=str(held)) as bmc:
        assert "Off" == bmc.power()


# --- sessions ---------------------------------------------------------------------------------------------------------


def offer_sessions(odd: Any, *, status: int = 201) -> dict[str, int]:
    """Give the odd BMC sessions; tokens are t1, t2, …; returns a counter of those alive."""
    alive: dict[str, int] = {}
    odd.tree["/redfish/v1"]["Links"] = {"Sessions": {"@odata.id": SESSIONS}}

    @odd.on("POST", SESSIONS)
    def _(asked: Any) -> Any:
        number = len(alive) + 1
        alive[f"{SESSIONS}/{number}"] = 1
        odd.on("DELETE", f"{SESSIONS}/{number}")(lambda asked: (alive.update({asked.path: 0}), (204, None))[1])
        return status, {}, {"X-Auth-Token": f"t{number}", "Location": f"{SESSIONS}/{number}"}

    return alive


def test_the_session_is_given_back_when_things_go_wrong(odd: Any, connect: OpenBmc, login: BmcLogin) -> None:
    """An exception inside still ends with the DELETE."""
    alive = offer_sessions(odd)
    with pytest.raises(ZeroDivisionError), connect(odd.url, login):
        1 / 0  # noqa: B018
    assert {f"{SESSIONS}/1": 0} == alive


def test_the_session_is_given_back_when_the_budget_is_spent_or_somebody_says_stop(
    odd: Any, connect: OpenBmc, login: BmcLogin
) -> None:
    """Cancelled and out of time, the BMC still gets its slot back."""
    alive = offer_sessions(odd)
    deadline = Deadline("n1", 20)
    with pytest.raises(Cancelled), connect(odd.url, login, deadline=deadline) as bmc:
        deadline.cancel.set()
        bmc.power()
    assert {f"{SESSIONS}/1": 0} == alive


def test_an_expired_session_is_renewed_once(odd: Any, connect: OpenBmc, login: BmcLogin) -> None:
    """A 401 in the middle means a new token, and the question again."""
    offer_sessions(odd)
    body = odd.tree[SYSTEM]
    odd.on("GET", SYSTEM)(
        lambda asked: (401, {}) if len(odd.asked) > 6 and asked.headers["X-Auth-Token"] == "t1" else (200, body)
    )
    with connect(odd.url, login) as bmc:
        for _ in range(5):
            assert "On" == bmc.power()
    assert 2 == odd.count("POST", SESSIONS)


def test_a_refused_login_is_tried_once(odd: Any, connect: OpenBmc, login: BmcLogin) -> None:
    """No second guess, no Basic behind it: accounts lock."""
    offer_sessions(odd)
    odd.on("POST", SESSIONS)(lambda asked: (401, {"error": {"message": "who are you"}}))
    with pytest.raises(LoginRefused, match=r"log in at .* as lab: who are you"):
        connect(odd.url, login).__enter__()
    assert (1, []) == (
        odd.count("POST", SESSIONS),
        [one for one in odd.asked if "Authorization" in one.headers],
    )


def test_basic_is_used_where_there_are_no_sessions(odd: Any, connect: OpenBmc, login: BmcLogin) -> None:
    """No session service, no session: each request carries the login."""
    with connect(odd.url, login) as bmc:
        bmc.power()
    expected = "Basic " + base64.b64encode(b"lab:a-password").decode()
    assert expected == odd.asked[-1].headers["Authorization"]


def test_a_password_is_in_no_evidence(odd: Any, connect: OpenBmc, store: Any) -> None:
    """What is kept of a login is nothing."""
    offer_sessions(odd)
    with connect(odd.url, BmcLogin("lab", Secret("canary-7f3a"))) as bmc:
        bmc.read()
        kept = [store.read(evidence.sha256) for evidence in bmc.evidence]
    assert kept
    assert [] == [raw for raw in kept if b"canary-7f3a" in raw]


# --- other hosts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "foreign", ["http://127.0.0.1:9/x", "https://evil.example/redfish/v1/Systems/1", "//evil.example/x"]
)
def test_a_foreign_id_is_not_followed(odd: Any, connect: OpenBmc, foreign: str) -> None:
    """An absolute link to another host is noted and never asked."""
    odd.tree[SYSTEM]["Processors"] = {"@odata.id": foreign}
    with connect(odd.url) as bmc:
        read = bmc.read()
    told = {missing.fact: missing.reason for missing in read.missing}
    assert "points at another host" in told["gpus"]


def test_a_redirect_to_another_host_is_not_followed(odd: Any, connect: OpenBmc) -> None:
    """The token stays here."""
    odd.on("GET", SYSTEM)(lambda asked: (307, None, {"Location": "http://127.0.0.1:9/redfish/v1/Systems/1"}))
    with pytest.raises(OutputNotUnderstood, match="points at another host"):
        connect(odd.url).__enter__()


def test_a_redirect_on_the_same_host_keeps_method_and_body(odd: Any, connect: OpenBmc, login: BmcLogin) -> None:
    """Old Supermicro answers the login with a redirect to the same path and a slash."""
    odd.tree["/redfish/v1"]["Links"] = {"Sessions": {"@odata.id": SESSIONS}}

    @odd.on("POST", SESSIONS)
    def _(asked: Any) -> Any:
        if not asked.path.endswith("/"):
            return 308, None, {"Location": f"{odd.url}{SESSIONS}/"}
        return 201, {}, {"X-Auth-Token": asked.body["UserName"]}

    with connect(odd.url, login) as bmc:
        bmc.power()
    assert "lab" == odd.asked[-1].headers["X-Auth-Token"]


def test_the_environments_proxy_is_ignored(odd: Any, connect: OpenBmc, monkeypatch: pytest.MonkeyPatch) -> None:
    """BMC traffic goes to the BMC."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with connect(odd.url) as bmc:
        assert "On" == bmc.power()


# --- not now, silence, garbage ----------------------------------------------------------------------------------------


def test_a_numeric_retry_after_is_obeyed(odd: Any, connect: OpenBmc) -> None:
    """The BMC names a second, a second it is (give or take the jitter)."""
    answers = iter([(503, {}, {"Retry-After": "1"})])
    body = odd.tree[SYSTEM]
    with connect(odd.url) as bmc:
        odd.on("GET", SYSTEM)(lambda asked: next(answers, (200, body)))
        began = time.monotonic()
        bmc.wire.poll_s = 0.1  # a wish of 1 s is within 30 polls
        bmc.power()
    assert 0.75 <= time.monotonic() - began <= 3


@pytest.mark.parametrize("wish", ["soon", "Wed, 21 Oct 2015 07:28:00 GMT", "", "99999999"])
def test_an_odd_retry_after_stalls_nothing(odd: Any, connect: OpenBmc, wish: str) -> None:
    """Words, dates and years are no reason to wait for long."""
    answers = iter([(503, {}, {"Retry-After": wish})] * 2)
    body = odd.tree[SYSTEM]
    with connect(odd.url) as bmc:
        odd.on("GET", SYSTEM)(lambda asked: next(answers, (200, body)))
        began = time.monotonic()
        assert "On" == bmc.power()
    assert time.monotonic() - began < 3


def test_busy_for_too_long_is_busy(odd: Any, connect: OpenBmc) -> None:
    """Patience ends before the budget does, and says whose words it ended on."""
    with connect(odd.url) as bmc:
        odd.on("GET", SYSTEM)(lambda asked: (503, {"error": {"message": "lifecycle controller in use"}}))
        bmc.wire.be_patient(0.3)
        with pytest.raises(NodeBusy, match="lifecycle controller in use"):
            Reader.afresh(bmc.wire).need(SYSTEM)


def test_a_bmc_that_is_not_there_is_unreachable_soon(connect: OpenBmc) -> None:
    """A refused port takes three tries and no more."""
    began = time.monotonic()
    with pytest.raises(NodeUnreachable, match="Check cabling"):
        connect("http://127.0.0.1:9").__enter__()
    assert time.monotonic() - began < 3


def test_a_web_server_that_is_no_bmc_is_called_so(odd: Any, connect: OpenBmc) -> None:
    """Not Redfish is another sentence than not reachable."""
    odd.tree["/redfish/v1"] = b"<html>router</html>"
    with pytest.raises(OutputNotUnderstood, match="is no Redfish service"):
        connect(odd.url).__enter__()


def test_a_body_without_end_is_cut_off(odd: Any, connect: OpenBmc, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a resource can be is not taken in; the rest of the node is."""
    monkeypatch.setattr(adapter, "MOST_BYTES", 50_000)
    odd.tree[SYSTEM]["Processors"] = {"@odata.id": f"{SYSTEM}/Processors"}
    odd.tree[f"{SYSTEM}/Processors"] = b" " * 200_000
    with connect(odd.url) as bmc:
        read = bmc.read()
    told = {missing.fact: missing.reason for missing in read.missing}
    assert ("N1", True) == (read.identity.serial, "cut off" in told["gpus"])


def test_a_body_that_drips_ends_with_the_budget(odd: Any, connect: OpenBmc) -> None:
    """A byte now and then does not keep us for longer than there is time."""
    gate = threading.Event()

    @odd.on("GET", f"{SYSTEM}/Bios")
    def _(asked: Any) -> Any:
        gate.wait(1.5)
        return 200, {}

    began = time.monotonic()
    with pytest.raises(BudgetSpent), connect(odd.url, budget_s=0.6) as bmc:
        bmc.read()
    gate.set()
    assert time.monotonic() - began < 3


def test_a_slow_write_is_sent_once_and_judged_by_reading_back(
    odd: Any, connect: OpenBmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Reset that is obeyed without an answer in time is done; it is not sent again."""
    monkeypatch.setattr(client, "WRITE_S", 0.2)
    odd.tree[SYSTEM]["PowerState"] = "Off"

    @odd.on("POST", RESET)
    def _(asked: Any) -> Any:
        odd.tree[SYSTEM]["PowerState"] = "On"
        time.sleep(0.6)
        return 204, None

    with connect(odd.url) as bmc:
        bmc.power_on()
    assert 1 == odd.count("POST", RESET)


def test_a_dropped_write_without_effect_is_said_and_not_repeated(odd: Any, connect: OpenBmc) -> None:
    """Silence and the old state: once sent, the trouble is told."""
    odd.tree[SYSTEM]["PowerState"] = "Off"
    odd.on("POST", RESET)(lambda asked: (0, None))
    with connect(odd.url, power_s=0.3) as bmc, pytest.raises(NodeUnreachable, match=r"POST .*Reset"):
        bmc.power_on()
    assert 1 == odd.count("POST", RESET)


def test_a_500_to_a_write_is_refused_once(odd: Any, connect: OpenBmc) -> None:
    """The BMC's own words, once."""
    odd.tree[SYSTEM]["PowerState"] = "Off"
    odd.on("POST", RESET)(lambda asked: (500, {"error": {"message": "SYS518 not ready"}}))
    with connect(odd.url, power_s=0.3) as bmc, pytest.raises(ChangeRefused, match="SYS518 not ready"):
        bmc.power_on()
    assert 1 == odd.count("POST", RESET)


# --- ETags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("etag", "takes", "tried"),
    [
        ('W/"a"', 'W/"a"', ['W/"a"']),
        ('W/"a"', '"a"', ['W/"a"', '"a"']),
        ('W/"a"', None, ['W/"a"', '"a"', None]),
        ('W/"a"', "*", ['W/"a"', '"a"', None, "*"]),
        ('"a"', "*", ['"a"', None, "*"]),
        ("", "*", [None, "*"]),
    ],
)
def test_the_etag_ladder(odd: Any, connect: OpenBmc, etag: str, takes: str | None, tried: list[str | None]) -> None:
    """As given, strong, none, star: climbed only after 412 or 428."""
    odd.tree[SYSTEM] |= {"@odata.etag": etag, "LocationIndicatorActive": False}
    seen: list[str | None] = []

    @odd.on("PATCH", SYSTEM)
    def _(asked: Any) -> Any:
        seen.append(asked.headers.get("If-Match"))
        if seen[-1] != takes:
            return (412 if seen[-1] else 428), {}
        odd.tree[SYSTEM].update(asked.body)
        return 200, odd.tree[SYSTEM]

    with connect(odd.url) as bmc:
        bmc.locate(True)
    assert tried == seen


# --- tasks ------------------------------------------------------------------------------------------------------------

TASK, MONITOR = "/redfish/v1/TaskService/Tasks/1", "/redfish/v1/TaskService/TaskMonitors/1"


def a_task(state: str, **more: Any) -> dict[str, Any]:
    """A Task resource."""
    return {"@odata.type": "#Task.v1_4_0.Task", "@odata.id": TASK, "TaskState": state, **more}


@pytest.mark.parametrize("shape", ["location", "body", "both", "job", "vanishes", "late"])
def test_every_shape_of_202_is_followed_to_its_end(odd: Any, connect: OpenBmc, shape: str) -> None:
    """Location alone, a Task as body, both, a job after 204, a monitor that vanishes, one that comes late."""
    odd.tree[SYSTEM]["PowerState"] = "Off"
    polls: list[str] = []

    def poll(asked: Any) -> Any:
        polls.append(asked.path)
        if shape == "late" and len(polls) < 2:
            return 404, {}
        if len(polls) < 3:
            return (202, {}, {"Retry-After": "0"}) if asked.path == MONITOR else (200, a_task("Running"))
        odd.tree[SYSTEM]["PowerState"] = "On"
        return (404, {}) if shape == "vanishes" else (200, a_task("Completed"))

    jobs = "/redfish/v1/Managers/1/Jobs/J1"
    for path in (TASK, MONITOR, jobs):
        odd.on("GET", path)(poll)
    answers = {
        "location": (202, {}, {"Location": MONITOR, "Retry-After": "0"}),
        "body": (202, a_task("New")),
        "both": (202, a_task("New"), {"Location": MONITOR}),
        "job": (204, None, {"Location": jobs}),
        "vanishes": (202, {}, {"Location": MONITOR}),
        "late": (202, a_task("New")),
    }
    odd.on("POST", RESET)(lambda asked: answers[shape])
    with connect(odd.url) as bmc:
        bmc.power_on()
    assert (1, 3) == (odd.count("POST", RESET), len(polls))


def test_a_task_that_fails_tells_its_message(odd: Any, connect: OpenBmc) -> None:
    """The task's own message is the refusal."""
    odd.tree[SYSTEM]["PowerState"] = "Off"
    odd.tree[TASK] = a_task("Exception", Messages=[{"Message": "fan wall open"}])
    odd.on("POST", RESET)(lambda asked: (202, a_task("New")))
    with connect(odd.url) as bmc, pytest.raises(ChangeRefused, match="its task ended as Exception: fan wall open"):
        bmc.power_on()


# --- power by what a BMC allows ---------------------------------------------------------------------------------------


def test_reset_types_are_chosen_from_the_action_info(odd: Any, connect: OpenBmc) -> None:
    """Where On is not allowed and ForceOn is, ForceOn is sent."""
    odd.tree[SYSTEM]["PowerState"] = "Off"
    odd.tree[SYSTEM]["Actions"]["#ComputerSystem.Reset"]["@Redfish.ActionInfo"] = f"{SYSTEM}/ResetActionInfo"
    odd.tree[f"{SYSTEM}/ResetActionInfo"] = {"Parameters": [{"Name": "ResetType", "AllowableValues": ["ForceOn"]}]}
    sent: list[str] = []

    @odd.on("POST", RESET)
    def _(asked: Any) -> Any:
        sent.append(asked.body["ResetType"])
        odd.tree[SYSTEM]["PowerState"] = "On"
        return 204, None

    with connect(odd.url) as bmc:
        bmc.power_on()
    assert ["ForceOn"] == sent


def test_a_graceful_shutdown_that_is_not_offered_is_refused_and_not_forced(odd: Any, connect: OpenBmc) -> None:
    """No silent fall to ForceOff."""
    odd.tree[SYSTEM]["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] = ["On", "ForceOff"]
    with connect(odd.url) as bmc, pytest.raises(ChangeRefused, match="GracefulShutdown"):
        bmc.graceful_off()
    assert 0 == odd.count("POST", RESET)


def test_bios_accepted_and_not_pending_is_not_applied(odd: Any, connect: OpenBmc) -> None:
    """A 200 that stages nothing is shown attribute by attribute, with the words in Settings.Messages."""
    odd.tree[f"{SYSTEM}/Bios"] = {
        "Attributes": {"A": "x"},
        "@Redfish.Settings": {
            "SettingsObject": {"@odata.id": f"{SYSTEM}/Bios/SD"},
            "Messages": [{"Message": "A is owned by the workload profile"}],
        },
    }
    odd.tree[f"{SYSTEM}/Bios/SD"] = {}
    odd.on("PATCH", f"{SYSTEM}/Bios/SD")(lambda asked: (200, {}))
    with (
        connect(odd.url, budget_s=2) as bmc,
        pytest.raises(ChangeNotApplied, match=r"A is 'x', wanted 'y' \(A is owned by the workload profile\)"),
    ):
        bmc.stage_bios({"A": "y"})
