"""What an agent and a freshly booted node may say to the image service; anything else is refused unread."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field, StringConstraints, ValidationError

from inventory.model import Frozen
from os_images.agent import DiskFacts

# No control characters: what a node says is shown on terminals and kept in databases. Lengths are our choice.
_PRINTABLE = r"^[^\x00-\x1f\x7f]*$"
Word = Annotated[str, StringConstraints(max_length=256, pattern=_PRINTABLE)]
Sentence = Annotated[str, StringConstraints(max_length=2000, pattern=_PRINTABLE)]


class Disk(Frozen):
    """One disk as the agent reports it."""

    by_path: Annotated[Word, Field(min_length=1)]
    size_bytes: int = Field(ge=0, le=1 << 60)
    wwn: Word = ""
    serial: Word = ""
    model: Word = ""
    signature: Word = ""

    def facts(self) -> DiskFacts:
        """The same as the agent's own noun."""
        return DiskFacts(**self.model_dump())


class Register(Frozen):
    """The agent's first words."""

    attempt: Word
    token: Word
    uuid: Word
    serial: Word
    macs: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    disks: Annotated[tuple[Disk, ...], Field(max_length=256)] = ()


class Event(Frozen):
    """How far the agent is."""

    attempt: Word
    token: Word
    kind: Literal["booted", "writing", "written", "seeded", "done", "failed"]
    detail: Sentence = ""


class PhoneHome(Frozen):
    """The installed OS, up for the first time, says where it is and by which key it is known."""

    attempt: Word
    token: Word
    host_name: Word = ""
    addresses: Annotated[tuple[Word, ...], Field(min_length=1, max_length=16)]  # "ip:port"
    ssh_host_key: Annotated[Sentence, Field(min_length=1)]
    machine_uuid: Word
    boot_id: Word = ""
    image_digest: Word = ""


Message = TypeVar("Message", Register, Event, PhoneHome)


class NotUnderstood(Exception):
    """The body is not such a message; the text says where, and never repeats what was sent."""


def understand(kind: type[Message], raw: bytes) -> Message:
    """Read a body; raises `NotUnderstood`."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:200]
        raise NotUnderstood(f"{where or 'body'}: {first['msg'][:200]}") from error
