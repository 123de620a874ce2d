"""What a profile asks of a machine, what it plans, and what it says about the result."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bios_profiles.profile import BiosPlan, BiosProfile, Setting, digest, judge, load_profile, load_profiles, plan
from inventory.errors import BadSettings
from inventory.findings import Outcome
from inventory.model import Bios, BiosValue, Identity
from lab.hardware import Shape, build_node

WHY = {"why": "because the test says so", "source": "this very test file"}


def setting(name: str, value: str | int | bool = "On", **more: object) -> Setting:
    """A setting by exact name."""
    return Setting.model_validate({"attribute": name, "value": value, **WHY, **more})


def profile(*settings: Setting) -> BiosProfile:
    """A profile of these settings."""
    return BiosProfile(name="p", source="this very test file", settings=settings)


def after_post(bios: Bios, staged: dict[str, BiosValue]) -> Bios:
    """The machine once it has POSTed."""
    return Bios(attributes={**bios.attributes, **bios.pending, **staged})


NAMES = st.sampled_from(["Acs", "Vtd", "Smt_00A1", "Smt_00A2", "Turbo_FFFF", "Mode"])
VALUES = st.one_of(st.sampled_from(["On", "Off", "Auto"]), st.booleans(), st.integers(0, 1))
SETTINGS = st.lists(
    st.one_of(
        st.builds(lambda n, v, a: setting(n, v, accepted=tuple(a)), NAMES, VALUES, st.lists(VALUES, max_size=2)),
        st.builds(
            lambda n, v: Setting(pattern=n, value=v, **WHY), st.sampled_from(["Gone", "M.de_?", "Boot.*"]), VALUES
        ),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda s: "Mode" if s.name in {"Mode", "M.de_?"} else s.name,
)
MACHINES = st.builds(
    lambda now, pending: Bios(attributes=now, pending={k: v for k, v in pending.items() if k in now}),
    st.dictionaries(NAMES, st.one_of(VALUES, st.none())),
    st.dictionaries(NAMES, VALUES),
)


@given(settings=SETTINGS, bios=MACHINES)
def test_a_plan_applied_leaves_nothing_to_plan(settings: list[Setting], bios: Bios) -> None:
    """After staging the changes and one POST the plan is empty and every finding about a present setting passes."""
    wanted = profile(*settings)
    first = plan(wanted, bios)
    then = after_post(bios, first.changes)
    second = plan(wanted, then)
    assert second.empty is True
    assert {*first.changes, *first.already, *first.pending} == set(second.already)
    present = {f.outcome for f in judge(wanted, then) if f.subject in then.attributes}
    assert present <= {Outcome.PASS}


@given(settings=SETTINGS, bios=MACHINES)
def test_staging_twice_stages_once(settings: list[Setting], bios: Bios) -> None:
    """With the changes staged and no POST yet, nothing is staged again."""
    wanted = profile(*settings)
    staged = Bios(attributes=bios.attributes, pending={**bios.pending, **plan(wanted, bios).changes})
    assert {} == plan(wanted, staged).changes


def test_a_good_value_that_a_pending_one_would_undo_is_staged() -> None:
    """The value after the next POST counts, not today's."""
    found = plan(profile(setting("Acs", "Off")), Bios(attributes={"Acs": "Off"}, pending={"Acs": "On"}))
    assert BiosPlan(changes={"Acs": "Off"}) == found


def test_a_rightly_pending_value_needs_a_post_and_no_staging() -> None:
    """Staged by an earlier run: wait for the POST, write nothing."""
    found = plan(profile(setting("Acs", "Off")), Bios(attributes={"Acs": "On"}, pending={"Acs": "Off"}))
    assert BiosPlan(pending={"Acs": "Off"}) == found
    assert found.needs_post is True


def test_a_pattern_finds_the_name_behind_its_changing_suffix() -> None:
    """Supermicro's four hex digits differ between BIOS builds; every attribute of the name is set."""
    wanted = profile(Setting(pattern="PCIeACSCTL", value="Disable", **WHY))
    bios = Bios(attributes={"PCIeACSCTL_1E3C": "Enable", "PCIeACSCTL_00aF": "Enable", "PCIeACSCTLMode_1E3C": "x"})
    assert {"PCIeACSCTL_1E3C": "Disable", "PCIeACSCTL_00aF": "Disable"} == plan(wanted, bios).changes


def test_a_number_is_not_a_yes() -> None:
    """A BMC that says 1 did not say true."""
    assert {"Smt": True} == plan(profile(setting("Smt", True)), Bios(attributes={"Smt": 1})).changes


def test_a_reverted_setting_fails_and_names_both_values() -> None:
    """The sentence says what it is and what was wanted."""
    (found,) = judge(profile(setting("Acs", "Off")), Bios(attributes={"Acs": "On"}))
    assert (Outcome.FAIL, "BIOS setting Acs is On, wanted Off") == (found.outcome, found.cause)


def test_a_setting_that_waits_for_a_post_fails_and_says_so() -> None:
    """Accepted is not applied."""
    (found,) = judge(profile(setting("Acs", "Off")), Bios(attributes={"Acs": "On"}, pending={"Acs": "Off"}))
    assert "BIOS setting Acs is On, wanted Off, Off waits for the next POST" == found.cause


@pytest.mark.parametrize(
    ("required", "outcome"), [pytest.param(True, Outcome.ERROR), pytest.param(False, Outcome.NOT_APPLICABLE)]
)
def test_an_absent_setting_is_never_a_pass(required: bool, outcome: Outcome) -> None:
    """Not on this model: said, and an error where the profile insists."""
    found = judge(profile(setting("Acs", required=required), setting("Here")), Bios(attributes={"Here": "On"}))
    assert [("Here", Outcome.PASS), ("Acs", outcome)] == [(f.subject, f.outcome) for f in found]


def test_a_null_is_no_answer() -> None:
    """An attribute without a value is an error and is staged."""
    wanted, bios = profile(setting("Acs")), Bios(attributes={"Acs": None})
    assert ({"Acs": "On"}, [Outcome.ERROR]) == (plan(wanted, bios).changes, [f.outcome for f in judge(wanted, bios)])


@pytest.mark.parametrize("attributes", [{}, {"Other": "x"}])
def test_nothing_read_or_nothing_that_fits_is_an_error(attributes: dict[str, BiosValue]) -> None:
    """A profile of which nothing applies has proven nothing."""
    found = judge(profile(setting("Acs"), setting("Smt")), Bios(attributes=attributes))
    assert [("bios_profile", Outcome.ERROR)] == [(f.metric, f.outcome) for f in found]


def test_two_settings_for_one_attribute_are_refused() -> None:
    """A contradiction in the profile is named, not resolved by order."""
    wanted = profile(setting("Acs_00A1"), Setting(pattern="Acs", value="Off", **WHY))
    with pytest.raises(BadSettings, match="Acs_00A1 and Acs both mean Acs_00A1"):
        plan(wanted, Bios(attributes={"Acs_00A1": "x"}))


def test_the_digest_is_of_the_values_alone() -> None:
    """A better reason leaves certificates valid; another value, or another order of lines, is told apart rightly."""
    one, other = setting("Acs"), setting("Smt", 1)
    base = digest(profile(one, other))
    assert base == digest(profile(other, one.model_copy(update={"why": "a better reason than before"})))
    assert base != digest(profile(one, setting("Smt", 0)))
    assert base != digest(profile(one, setting("Smt", True)))


def test_a_profile_says_when_it_is_for_another_machine() -> None:
    """The wrong profile is named before anything is staged."""
    dgx = load_profiles()["dgx-h100"]
    assert "" == dgx.misfit(Identity(manufacturer="NVIDIA", model="DGXH100 "))
    assert "BIOS profile dgx-h100 is for model DGXH100, this is DGXA100" == dgx.misfit(Identity(model="DGXA100"))


@pytest.mark.parametrize("shape", list(Shape))
def test_each_lab_machine_needs_at_least_three_changes(shape: Shape) -> None:
    """The simulated rack's factory values give the tune stage something to do, and one POST settles it."""
    wanted = load_profiles()[f"lab-{shape.value}"]
    node = build_node("R1", 1, shape)
    bios = Bios(attributes=node.bios)
    found = plan(wanted, bios)
    assert len(found.changes) >= 3
    assert "" == wanted.misfit(Identity(manufacturer=node.manufacturer, model=node.model))
    assert {Outcome.PASS} == {f.outcome for f in judge(wanted, after_post(bios, found.changes))} - {
        Outcome.NOT_APPLICABLE
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "Mend the file"),
        ('name = "x"\nsource = "a source that is long"\nsettings = []', "settings"),
        ('name = "x"\nsource = "a source that is long"\n[[settings]]\nattribute = "A"\nvalue = "v"', "settings.0.why"),
        (
            'name = "x"\nsource = "a source that is long"\n[[settings]]\npattern = "("\nvalue = "v"\n'
            'why = "long enough a reason"\nsource = "long enough a source"',
            "not a regular expression",
        ),
    ],
)
def test_a_broken_profile_is_refused_by_file_and_field(tmp_path: Path, text: str, said: str) -> None:
    """The sentence names the file and what to mend."""
    file = tmp_path / "broken.toml"
    file.write_text(text)
    with pytest.raises(BadSettings) as raised:
        load_profile(file)
    assert str(file) in str(raised.value)
    assert said in str(raised.value)
