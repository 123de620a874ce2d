"""Files laid on a node over SFTP: they live in the node's memory until the next boot."""

from __future__ import annotations

import io

import asyncssh

from lab.machine import Machine
from lab.shell.node import memory
from lab.shell.tree import files, is_folder

_FILE_MODE, _FOLDER_MODE = 0o100600, 0o040755


class Upload(io.BytesIO):
    """A file opened for writing; its content counts from the moment it is closed."""

    def __init__(self, machine: Machine, path: str, content: bytes) -> None:
        super().__init__(content)
        self._machine, self._path = machine, path
        memory(machine).files[path] = content

    def keep(self) -> None:
        """Put what was written where the node reads it."""
        memory(self._machine).files[self._path] = self.getvalue()


class NodeFiles(asyncssh.SFTPServer):
    """The node's file tree as SFTP sees it."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], machine: Machine) -> None:
        super().__init__(channel)
        self._machine = machine

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        """Open for reading or writing; a missing folder is an error as on a real system."""
        name = _name(path)
        held = files(self._machine)
        if pflags & asyncssh.FXF_WRITE:
            if not is_folder(self._machine, name.rpartition("/")[0] or "/"):
                raise asyncssh.SFTPNoSuchFile("No such file or directory")
            old = b"" if pflags & asyncssh.FXF_TRUNC else held.get(name, "").encode()
            return Upload(self._machine, name, old)
        if name not in held:
            raise asyncssh.SFTPNoSuchFile("No such file or directory")
        return io.BytesIO(held[name].encode())

    def close(self, file_obj: object) -> None:
        """Keep what was written."""
        if isinstance(file_obj, Upload):
            file_obj.keep()

    def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        """Size and mode of a file or folder."""
        name = _name(path)
        if is_folder(self._machine, name):
            return asyncssh.SFTPAttrs(permissions=_FOLDER_MODE, uid=0, gid=0, size=0)
        text = files(self._machine).get(name)
        if text is None:
            raise asyncssh.SFTPNoSuchFile("No such file or directory")
        return asyncssh.SFTPAttrs(permissions=_FILE_MODE, uid=0, gid=0, size=len(text.encode()))

    lstat = stat

    def fstat(self, file_obj: object) -> asyncssh.SFTPAttrs:
        """Size of an open file."""
        size = len(file_obj.getvalue()) if isinstance(file_obj, io.BytesIO) else 0
        return asyncssh.SFTPAttrs(permissions=_FILE_MODE, uid=0, gid=0, size=size)

    def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Modes are taken and not looked at."""

    def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        """Modes are taken and not looked at."""

    def mkdir(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Make a folder whose parent is there."""
        name = _name(path)
        if not is_folder(self._machine, name.rpartition("/")[0] or "/"):
            raise asyncssh.SFTPNoSuchFile("No such file or directory")
        memory(self._machine).folders.add(name)

    def remove(self, path: bytes) -> None:
        """Forget an uploaded file."""
        if memory(self._machine).files.pop(_name(path), None) is None:
            raise asyncssh.SFTPNoSuchFile("No such file or directory")

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Move an uploaded file."""
        held = memory(self._machine).files
        if _name(oldpath) not in held:
            raise asyncssh.SFTPNoSuchFile("No such file or directory")
        held[_name(newpath)] = held.pop(_name(oldpath))

    posix_rename = rename

    def realpath(self, path: bytes) -> bytes:
        """Relative paths begin at /root."""
        return _name(path).encode()


def _name(path: bytes) -> str:
    text = path.decode(errors="replace").rstrip("/") or "/"
    return text if text.startswith("/") else f"/root/{text}".removesuffix("/.")
