"""Power, boot source, virtual media and BIOS over real HTTPS, on all three shapes, with and without faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest

from inventory.errors import BudgetSpent, ChangeNotApplied, ChangeRefused, LeaseLost, OutputNotUnderstood
from inventory.redfish import Bmc, BmcLogin
from lab.bmc.serve import BmcServer
from lab.hardware import Shape
from lab.machine import Machine
from tests.inventory.redfish.conftest import OddBmc

OpenBmc = Callable[..., AbstractContextManager[Bmc]]
SHAPES = pytest.mark.parametrize("shape", list(Shape))
URL = "http://127.0.0.1:8/boot/a1/token/agent.iso"


@dataclass
class Rig:
    """A lab machine and its BMC as the product sees it."""

    server: BmcServer
    bmc: Bmc

    @property
    def machine(self) -> Machine:
        """The machine behind it."""
        return self.server.bmc.machine


Start = Callable[..., Rig]


@pytest.fixture
def start(lab_bmc: Callable[[Shape], BmcServer], connect: OpenBmc, login: BmcLogin) -> Iterator[Start]:
    """Start a lab machine and enter its BMC."""
    entered: list[AbstractContextManager[Bmc]] = []

    def begin(shape: Shape, *, on: bool = False, **more: object) -> Rig:
        server = lab_bmc(shape)
        if on:
            server.bmc.machine.switch_on_idle()
        context = connect(server.url, login, **more)
        entered.append(context)
        return Rig(server, context.__enter__())

    yield begin
    for context in entered:
        context.__exit__(None, None, None)


@SHAPES
def test_power_goes_on_and_off_proven(start: Start, shape: Shape) -> None:
    """Power follows, is read back, and asking for what is already so sends nothing."""
    rig = start(shape)
    assert "Off" == rig.bmc.power()
    rig.bmc.power_on()
    assert "On" == rig.bmc.power()
    writes = len(rig.bmc.evidence)
    rig.bmc.power_on()
    assert writes == len(rig.bmc.evidence)
    rig.bmc.power_off()
    assert "Off" == rig.bmc.power()


@SHAPES
def test_a_restart_posts_once_more(start: Start, shape: Shape) -> None:
    """A restart is proven by its marks and costs exactly one POST."""
    rig = start(shape, on=True)
    rig.bmc.restart()
    assert ("On", 1) == (rig.bmc.power(), rig.machine.posts)


def test_a_graceful_shutdown_ends_off(start: Start) -> None:
    """Graceful means asking the operating system; the state proves it."""
    rig = start(Shape.HGX, on=True)
    rig.bmc.graceful_off()
    assert "Off" == rig.bmc.power()


def test_power_accepted_without_effect_is_not_applied(start: Start) -> None:
    """A BMC that accepts a reset and does nothing is told so, with the state seen."""
    rig = start(Shape.HGX, power_s=0.3)
    rig.machine.state.faults.add("power_accepted_no_effect")
    with pytest.raises(ChangeNotApplied, match=r"n1: reset \(On\) was accepted.*power is Off, wanted On"):
        rig.bmc.power_on()


def test_a_restart_without_effect_is_not_applied(start: Start) -> None:
    """A restart that leaves no mark has not happened."""
    rig = start(Shape.PCIE, on=True, power_s=0.3)
    rig.machine.state.faults.add("power_accepted_no_effect")
    with pytest.raises(ChangeNotApplied, match="reset"):
        rig.bmc.restart()


def test_a_post_that_does_not_end_names_its_last_progress(start: Start) -> None:
    """The budget ends with the last progress in the sentence."""
    rig = start(Shape.HGX, on=True, budget_s=1.0)
    with pytest.raises(BudgetSpent, match="last progress SetupEntered"):
        rig.bmc.wait_posted()


@SHAPES
def test_boot_once_is_written_in_full_and_read_back(start: Start, shape: Shape) -> None:
    """The whole triple arrives, and clearing it leaves the boot order alone."""
    rig = start(shape)
    rig.bmc.boot_once("Cd")
    override = rig.machine.override
    assert ("Cd", "Once", "UEFI") == (override.target, override.enabled, override.mode)
    rig.bmc.boot_once("UefiHttp", http_uri=URL)
    assert ("UefiHttp", URL) == (override.target, override.http_uri)
    rig.bmc.boot_to_disk()
    assert ("None", "Disabled") == (override.target, override.enabled)


def test_a_boot_source_that_is_not_allowed_is_refused_naming_the_allowed(start: Start) -> None:
    """Nothing is sent; the refusal lists what the BMC allows."""
    rig = start(Shape.HGX)
    with pytest.raises(ChangeRefused, match="the BMC allows None, Pxe, Cd"):
        rig.bmc.boot_once("RemoteDrive")
    assert () == rig.bmc.evidence


@SHAPES
def test_media_goes_in_and_out(start: Start, shape: Shape) -> None:
    """Whatever body, task or place this BMC wants, the image is in; another one replaces it; then it is out."""
    rig = start(shape)
    rig.bmc.insert_media(URL)
    assert URL == rig.machine.media.image
    rig.bmc.insert_media(URL + "2")
    assert URL + "2" == rig.machine.media.image
    rig.bmc.eject_media()
    assert "" == rig.machine.media.image


def test_a_bmc_without_a_slot_has_nothing_to_eject(odd: OddBmc, connect: OpenBmc) -> None:
    """No slot is already so when ejecting, and a refusal when inserting; nothing is written either way."""
    with connect(odd.url, None) as bmc:
        bmc.eject_media()
        with pytest.raises(ChangeRefused, match="offers no slot"):
            bmc.insert_media(URL)
    assert {"GET"} == {asked.method for asked in odd.asked}


def test_a_slot_that_cannot_be_read_is_not_taken_for_empty(odd: OddBmc, connect: OpenBmc) -> None:
    """A link to media that leads nowhere leaves open what is in there, and that is said."""
    odd.tree["/redfish/v1/Systems/1"]["VirtualMedia"] = {"@odata.id": "/redfish/v1/Systems/1/VirtualMedia"}
    with connect(odd.url, None) as bmc, pytest.raises(OutputNotUnderstood, match="virtual media"):
        bmc.eject_media()


def test_stale_media_is_not_taken_for_ours(start: Start) -> None:
    """A slot that keeps an old image is reported with the image it shows."""
    rig = start(Shape.PCIE, budget_s=3.0)
    rig.machine.media.image = "http://elsewhere/old.iso"
    rig.machine.state.faults.add("media_stale")
    with pytest.raises(ChangeNotApplied, match=r"eject.*old\.iso"):
        rig.bmc.insert_media(URL)


@SHAPES
def test_bios_settings_are_staged_and_proven_pending(start: Start, shape: Shape) -> None:
    """Changes wait for the next POST and are shown to wait; the same again writes nothing."""
    rig = start(shape)
    name = next(n for n, v in rig.machine.state.bios.items() if v in ("Disable", "Disabled"))
    wanted = {"Disable": "Enable", "Disabled": "Enabled"}[str(rig.machine.state.bios[name])]
    rig.bmc.stage_bios({name: wanted})
    assert {name: wanted} == rig.bmc.bios().pending
    assert {name: wanted} == {n: v for n, v in rig.machine.state.bios_pending.items() if n == name}
    writes = len(rig.bmc.evidence)
    rig.bmc.stage_bios({name: wanted})
    assert writes == len(rig.bmc.evidence)


def test_a_refused_bios_value_carries_the_bmcs_own_words(start: Start) -> None:
    """The extended message names value and property."""
    rig = start(Shape.HGX)
    with pytest.raises(ChangeRefused, match="The value Sideways for the property SRIOVEnable"):
        rig.bmc.stage_bios({"SRIOVEnable": "Sideways"})


def test_an_unknown_bios_attribute_is_refused_before_anything_is_sent(start: Start) -> None:
    """All unknown names are told at once."""
    rig = start(Shape.HGX)
    with pytest.raises(ChangeRefused, match="Nonsense1, Nonsense2: not on this machine"):
        rig.bmc.stage_bios({"Nonsense1": 1, "Nonsense2": 2, "SRIOVEnable": "Enable"})
    assert () == rig.bmc.evidence


@SHAPES
def test_the_light_comes_on(start: Start, shape: Shape) -> None:
    """The identification light is lit and darkened, proven."""
    rig = start(shape)
    rig.bmc.locate(True)
    assert True is rig.machine.locating
    rig.bmc.locate(False)
    assert False is rig.machine.locating


def test_a_burst_of_503_is_borne_by_writes_too(start: Start) -> None:
    """Not now is no refusal: the same power-on gets through when the burst is over, once."""
    rig = start(Shape.HGX)
    rig.machine.state.faults.add("bmc_503_burst")
    rig.machine.state.knobs["bmc_503_left"] = 4
    rig.bmc.power_on()
    assert ("On", 1) == (rig.bmc.power(), rig.machine.posts)


def test_who_has_lost_the_lease_writes_nothing(start: Start) -> None:
    """The fence is asked before every write and its refusal goes through."""

    def fence() -> None:
        raise LeaseLost("n1", "run 2 owns the node")

    rig = start(Shape.HGX, fence=fence)
    for write in (rig.bmc.power_on, lambda: rig.bmc.boot_once("Cd"), lambda: rig.bmc.insert_media(URL)):
        with pytest.raises(LeaseLost):
            write()
    assert ("Off", "") == (rig.machine.power, rig.machine.media.image)


@SHAPES
def test_sessions_are_given_back(start: Start, shape: Shape) -> None:
    """No session is left on the BMC after leaving."""
    rig = start(shape)
    assert 1 == len(rig.server.bmc.sessions)
    rig.bmc.__exit__(None, None, None)
    assert 0 == len(rig.server.bmc.sessions)
