"""POST, PATCH and DELETE: logins, power, boot, BIOS settings, virtual media."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from lab.bmc import bios, managers, root
from lab.bmc.answers import ROOT, Answer, Resource, error
from lab.bmc.bmc import Bmc
from lab.bmc.systems import BOOT_MODES, OVERRIDES
from lab.bmc.tree import Table, read
from lab.hardware import FACTORY_BIOS
from lab.machine import PointlessReset

Writer = Callable[..., Answer]

MEDIA_TASK_S = 4.0  # inserting an image by a task; our choice
_MEDIA_EXTRAS = frozenset({"Inserted", "WriteProtected", "TransferMethod", "TransferProtocolType"})


def write(bmc: Bmc, method: str, path: str, raw: bytes, if_match: str) -> Answer:
    """Answer a POST, PATCH or DELETE of `path`, which stands below /redfish/v1."""
    found = TABLES[method].find(path)
    bmc.changes += not path.startswith("/SessionService")
    if found is None:
        exists = read(bmc, path, {}).status == 200
        return error("OperationNotAllowed") if exists else error("ResourceMissingAtURI", f"{ROOT}{path}")
    try:
        body = json.loads(raw or b"{}")
    except ValueError:
        return error("MalformedJSON")
    if not isinstance(body, dict):
        return error("MalformedJSON")
    if method == "PATCH" and (refusal := _precondition(bmc, path, if_match)):
        return refusal
    return found[0](bmc, body, **found[1])


def _precondition(bmc: Bmc, path: str, if_match: str) -> Answer | None:
    """Settings objects everywhere, and everything at one maker, are changed only by who has read them."""
    current = read(bmc, path, {})
    if current.status != 200:
        return current
    strict = bmc.layout.patch_needs_etag or path.endswith(f"/Bios/{bmc.layout.bios_settings}")
    if not if_match:
        return error("PreconditionRequired") if strict else None
    tags = {tag.strip().removeprefix("W/") for tag in if_match.split(",")}
    return None if tags & {"*", current.headers["ETag"]} else error("PreconditionFailed")


# --- sessions ------------------------------------------------------------------------------------------------------


def login(bmc: Bmc, body: Resource) -> Answer:
    """Open a session."""
    if (body.get("UserName"), body.get("Password")) != (bmc.login.username, bmc.login.password):
        return error("InsufficientPrivilege", at=401)
    session = bmc.open_session(bmc.login.username)
    if session is None:
        return error("SessionLimitExceeded")
    place = f"{ROOT}/SessionService/Sessions/{session.id}"
    return Answer(201, root.session(bmc, session.id), {"X-Auth-Token": session.token, "Location": place})


def logout(bmc: Bmc, body: Resource, session_id: str) -> Answer:
    """Close a session."""
    if bmc.sessions.pop(session_id, None) is None:
        return error("ResourceMissingAtURI", f"{ROOT}/SessionService/Sessions/{session_id}")
    return Answer(204)


# --- power and boot ------------------------------------------------------------------------------------------------


def reset(bmc: Bmc, body: Resource, system: str) -> Answer:
    """A power transition; 204 says it has begun, not that it is over."""
    kind = body.get("ResetType")
    if system != bmc.layout.host:
        return error("ActionNotSupported", "ComputerSystem.Reset")
    if kind is None:
        return error("ActionParameterMissing", "ComputerSystem.Reset", "ResetType")
    if kind not in bmc.layout.resets:
        return error("ActionParameterNotSupported", str(kind), "ComputerSystem.Reset")
    try:
        bmc.machine.reset(str(kind))
    except PointlessReset:
        return error("ResourceInUse")
    return Answer(204)


def patch_system(bmc: Bmc, body: Resource, system: str) -> Answer:
    """Boot override, identification light, asset tag; all or nothing."""
    if system != bmc.layout.host:
        return error("OperationNotAllowed")
    unknown = set(body) - {"Boot", "IndicatorLED", "LocationIndicatorActive", "AssetTag"}
    if unknown:
        return error("PropertyNotWritable", min(unknown))
    boot = body.get("Boot", {})
    if refusal := _bad_boot(bmc, boot):
        return refusal
    _set_boot(bmc, boot)
    if "AssetTag" in body:
        bmc.machine.state.asset_tag = str(body["AssetTag"])
    if "LocationIndicatorActive" in body or "IndicatorLED" in body:
        lit = body.get("LocationIndicatorActive", body.get("IndicatorLED") not in {None, "Off"})
        bmc.machine.locating = bool(lit)
    return Answer(200, read(bmc, f"/Systems/{system}", {}).body)


def _bad_boot(bmc: Bmc, boot: Mapping[str, Any]) -> Answer | None:
    allowed: Mapping[str, tuple[str, ...]] = {
        "BootSourceOverrideTarget": bmc.layout.targets,
        "BootSourceOverrideEnabled": OVERRIDES,
        "BootSourceOverrideMode": BOOT_MODES,
    }
    for name, value in boot.items():
        if name in allowed and value not in allowed[name]:
            return error("PropertyValueNotInList", str(value), name)
        if name not in {*allowed, "HttpBootUri"}:
            return error("PropertyUnknown", name)
    if boot.get("BootSourceOverrideTarget") == "UefiHttp" and not (
        boot.get("HttpBootUri") or bmc.machine.override.http_uri
    ):
        return error("GeneralError", "UefiHttp needs HttpBootUri")
    return None


def _set_boot(bmc: Bmc, boot: Mapping[str, Any]) -> None:
    override = bmc.machine.override
    override.target = boot.get("BootSourceOverrideTarget", override.target)
    override.enabled = boot.get("BootSourceOverrideEnabled", override.enabled)
    override.mode = boot.get("BootSourceOverrideMode", override.mode)
    if "HttpBootUri" in boot:
        override.http_uri = boot["HttpBootUri"] or ""
    if override.target == "None":
        override.enabled = "Disabled"
    elif override.enabled == "Disabled":
        override.target = "None"


# --- BIOS settings -------------------------------------------------------------------------------------------------


def patch_bios(bmc: Bmc, body: Resource, system: str, settings: str) -> Answer:
    """Stage settings for the next POST: known names and allowed values only, all or nothing."""
    shape, changes = bmc.machine.state.shape, body.get("Attributes")
    if not isinstance(changes, dict):
        return error("PropertyUnknown", min(body, default="Attributes"))
    for name, value in changes.items():
        if not bios.allowed(shape, name):
            return error("PropertyUnknown", name)
        if name in bios.READ_ONLY:
            return error("PropertyNotWritable", name)
        if value not in bios.allowed(shape, name):
            return error("PropertyValueNotInList", str(value), name)
    bmc.machine.state.bios_pending.update(changes)
    return Answer(200, read(bmc, f"/Systems/{system}/Bios/{settings}", {}).body)


def reset_bios(bmc: Bmc, body: Resource, system: str) -> Answer:
    """Stage the maker's own settings."""
    bmc.machine.state.bios_pending = dict(FACTORY_BIOS[bmc.machine.state.shape])
    return Answer(204)


# --- virtual media -------------------------------------------------------------------------------------------------


def insert_media(bmc: Bmc, body: Resource, kind: str, owner: str, slot: str) -> Answer:
    """Put an image into the virtual CD drive; one that is there already blocks it."""
    machine, action = bmc.machine, "VirtualMedia.InsertMedia"
    if managers.media(bmc, kind, owner, slot) is None:
        return error("ResourceMissingAtURI", f"{ROOT}/{kind}/{owner}/VirtualMedia/{slot}")
    if not body.get("Image"):
        return error("ActionParameterMissing", action, "Image")
    extras = sorted(_MEDIA_EXTRAS & set(body))
    if extras and bmc.layout.media_minimal:
        return error("ActionParameterUnknown", action, extras[0])
    if machine.media.image:
        return error("ResourceInUse")
    if not bmc.layout.media_task:
        _load(bmc, body)
        return Answer(204)
    machine.keep(_load_later(bmc, body))
    return root.accepted(bmc.begin_task("Insert virtual media", MEDIA_TASK_S))


def _load(bmc: Bmc, body: Resource) -> None:
    if not bmc.machine.fault("media_stale"):
        bmc.machine.media.image = str(body["Image"])
        bmc.machine.media.write_protected = bool(body.get("WriteProtected", True))


async def _load_later(bmc: Bmc, body: Resource) -> None:
    await bmc.machine.clock.sleep(MEDIA_TASK_S)
    _load(bmc, body)


def eject_media(bmc: Bmc, body: Resource, kind: str, owner: str, slot: str) -> Answer:
    """Take the image out."""
    if managers.media(bmc, kind, owner, slot) is None:
        return error("ResourceMissingAtURI", f"{ROOT}/{kind}/{owner}/VirtualMedia/{slot}")
    if not bmc.machine.fault("media_stale"):
        bmc.machine.media.image = ""
    return Answer(204)


def patch_media(bmc: Bmc, body: Resource, kind: str, owner: str, slot: str) -> Answer:
    """Insert or eject by changing the resource, as older BMCs want it."""
    if not body.get("Image") or body.get("Inserted") is False:
        return eject_media(bmc, body, kind, owner, slot)
    return insert_media(bmc, {"Image": body["Image"]}, kind, owner, slot)


_MEDIA = "/{kind}/{owner}/VirtualMedia/{slot}"
TABLES: Mapping[str, Table[Writer]] = {
    "POST": Table(
        {
            "/SessionService/Sessions": login,
            "/Systems/{system}/Actions/ComputerSystem.Reset": reset,
            "/Systems/{system}/Bios/Actions/Bios.ResetBios": reset_bios,
            f"{_MEDIA}/Actions/VirtualMedia.InsertMedia": insert_media,
            f"{_MEDIA}/Actions/VirtualMedia.EjectMedia": eject_media,
        }
    ),
    "PATCH": Table(
        {
            "/Systems/{system}": patch_system,
            "/Systems/{system}/Bios/{settings}": patch_bios,
            _MEDIA: patch_media,
        }
    ),
    "DELETE": Table({"/SessionService/Sessions/{session_id}": logout}),
}
