"""How a model's firmware should be set: the profile, what would have to change, and whether it holds. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from inventory.data_files import read_file, read_folders
from inventory.errors import BadSettings
from inventory.findings import Finding, Outcome
from inventory.model import Bios, BiosValue, Frozen, Identity

_SHIPPED = Path(__file__).parent

# Supermicro ends attribute names in "_" and four hex digits that vary between BIOS builds. Source: SYS-821GE tree.
_SUFFIX = re.compile(r"_[0-9A-Fa-f]{4}$")


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


class Setting(Frozen):
    """One wanted value, with its reason. Named exactly, or by a pattern on the name without its varying suffix."""

    attribute: str = ""
    pattern: Annotated[str, AfterValidator(_compiles)] = ""  # must match the whole name; every match is set
    value: str | int | bool
    accepted: tuple[str | int | bool, ...] = ()  # other values that are as good and are left alone
    why: str = Field(min_length=10)
    source: str = Field(min_length=10)
    note: str = ""  # where sources disagree: both sides
    required: bool = False  # its absence on a machine is an error and not just "not on this model"

    @model_validator(mode="after")
    def _one_name(self) -> Setting:
        if bool(self.attribute) == bool(self.pattern):
            raise ValueError("a setting has either an attribute or a pattern")
        return self

    @property
    def name(self) -> str:
        """How the profile calls it."""
        return self.attribute or self.pattern

    def names_in(self, bios: Bios) -> tuple[str, ...]:
        """The attributes of this machine that are meant, by name."""
        if self.attribute:
            return (self.attribute,) if self.attribute in bios.attributes else ()
        return tuple(sorted(a for a in bios.attributes if re.fullmatch(self.pattern, _SUFFIX.sub("", a))))

    def content(self, value: BiosValue) -> bool:
        """Whether a value is good as it is. `1` is not `true`: a BMC that says one does not mean the other."""
        return any(type(value) is type(good) and value == good for good in (self.value, *self.accepted))

    @property
    def wanted(self) -> str:
        """The good values in words."""
        return " or ".join(_said(value) for value in (self.value, *self.accepted))


class BiosProfile(Frozen):
    """The settings a server model is held to."""

    name: str = Field(min_length=1)
    manufacturers: tuple[str, ...] = ()  # as Redfish prints them; empty = any
    models: tuple[str, ...] = ()
    source: str = Field(min_length=10)
    settings: tuple[Setting, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _each_once(self) -> BiosProfile:
        names = [setting.name for setting in self.settings]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"set twice: {', '.join(twice)}")
        return self

    def misfit(self, identity: Identity) -> str:
        """Why this profile is not for this machine; empty when it is or when the machine does not say."""
        for what, allowed, seen in (
            ("manufacturer", self.manufacturers, identity.manufacturer),
            ("model", self.models, identity.model),
        ):
            if allowed and seen and seen.strip() not in allowed:
                return f"BIOS profile {self.name} is for {what} {' or '.join(allowed)}, this is {seen.strip()}"
        return ""


@dataclass(frozen=True, slots=True)
class BiosPlan:
    """What setting a machine to its profile takes."""

    changes: dict[str, BiosValue] = field(default_factory=dict)  # to be staged
    already: tuple[str, ...] = ()  # holds, and nothing pending would undo it
    unknown: tuple[str, ...] = ()  # settings of the profile that this model does not have
    pending: dict[str, BiosValue] = field(default_factory=dict)  # staged rightly before, waits for a POST

    @property
    def empty(self) -> bool:
        """Nothing to stage and nothing to wait for: already so."""
        return not self.changes and not self.pending

    @property
    def needs_post(self) -> bool:
        """Whether the next POST will make a difference."""
        return not self.empty


def plan(profile: BiosProfile, bios: Bios) -> BiosPlan:
    """What to stage so that the next POST brings the machine to its profile; `BadSettings` on a contradiction."""
    changes: dict[str, BiosValue] = {}
    pending: dict[str, BiosValue] = {}
    already: list[str] = []
    for name, setting in _resolved(profile, bios).items():
        after_post = bios.pending.get(name, bios.attributes[name])
        if not setting.content(after_post):
            changes[name] = setting.value
        elif setting.content(bios.attributes[name]):
            already.append(name)
        else:
            pending[name] = after_post
    unknown = tuple(setting.name for setting in profile.settings if not setting.names_in(bios))
    return BiosPlan(changes, tuple(already), unknown, pending)


def judge(profile: BiosProfile, bios: Bios) -> tuple[Finding, ...]:
    """One finding a setting, wanted against got, as read back. Nothing readable, or nothing that fits, is an error."""
    if not bios.attributes:
        return (_error(profile, "the BMC told no BIOS attributes", "Read the BIOS again after POST; look at the BMC"),)
    resolved = _resolved(profile, bios)
    if not resolved:
        return (_error(profile, "not one setting of the profile exists on this machine", "Name the right profile"),)
    absent = tuple(_absent(setting) for setting in profile.settings if not setting.names_in(bios))
    return tuple(_held(name, setting, bios) for name, setting in resolved.items()) + absent


def digest(profile: BiosProfile) -> str:
    """What a certificate binds: the values alone, so that a better reason in the file makes no certificate stale."""
    settings = sorted(
        json.dumps([s.attribute, s.pattern, s.value, list(s.accepted), s.required]) for s in profile.settings
    )
    return hashlib.sha256("\n".join(settings).encode()).hexdigest()


def load_profiles(*folders: Path) -> dict[str, BiosProfile]:
    """All profiles by name, shipped ones first; a site's profile of the same name wins.

    Raises `BadSettings` naming the file and the field.
    """
    return read_folders(load_profile, (_SHIPPED, *folders))


def load_profile(file: Path) -> BiosProfile:
    """One profile; raises `BadSettings` naming the file and the field."""
    return read_file(BiosProfile, file, "BIOS profile")


def _resolved(profile: BiosProfile, bios: Bios) -> dict[str, Setting]:
    """Attribute name on this machine → the setting it is held to."""
    found: dict[str, Setting] = {}
    for setting in profile.settings:
        for name in setting.names_in(bios):
            if name in found:
                raise BadSettings(
                    f"BIOS profile {profile.name}: {found[name].name} and {setting.name} both mean {name}. Keep one"
                )
            found[name] = setting
    return found


def _held(name: str, setting: Setting, bios: Bios) -> Finding:
    got = bios.attributes[name]
    outcome = Outcome.ERROR if got is None else Outcome.PASS if setting.content(got) else Outcome.FAIL
    waits = f", {_said(bios.pending[name])} waits for the next POST" if name in bios.pending else ""
    good = outcome is Outcome.PASS
    return Finding(
        metric="bios_setting",
        subject=name,
        outcome=outcome,
        observed=_said(got) + ("" if good else waits),
        expected=setting.wanted,
        source=f"{setting.source}: {setting.why}",
        cause="" if good else f"BIOS setting {name} is {_said(got)}, wanted {setting.wanted}{waits}",
        remedy="" if good else "Stage it again and restart; if it reverts, update the BIOS or set it by hand",
        value=got,
        evidence=bios.source.evidence if bios.source else None,
    )


def _absent(setting: Setting) -> Finding:
    return Finding(
        metric="bios_setting",
        subject=setting.name,
        outcome=Outcome.ERROR if setting.required else Outcome.NOT_APPLICABLE,
        observed="not on this model",
        expected=setting.wanted,
        source=f"{setting.source}: {setting.why}",
        cause=f"BIOS setting {setting.name} does not exist on this machine" if setting.required else "",
        remedy="Look for its new name in the BIOS attribute registry and mend the profile" if setting.required else "",
    )


def _error(profile: BiosProfile, what: str, remedy: str) -> Finding:
    return Finding(
        metric="bios_profile",
        subject=profile.name,
        outcome=Outcome.ERROR,
        observed=what,
        expected=f"{len(profile.settings)} settings to hold against",
        source=profile.source,
        cause=f"BIOS profile {profile.name} cannot be judged: {what}",
        remedy=remedy,
    )


def _said(value: BiosValue) -> str:
    if value is None:
        return "no answer"
    return str(value).lower() if isinstance(value, bool) else str(value)
