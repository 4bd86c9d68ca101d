"""Files that survive a crash: written whole, private where needed, locked by one process."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import PeerError

__all__ = [
    "StateFolder",
    "append_lines",
    "changing",
    "close_folder",
    "is_locked",
    "read_lines",
    "refuse_loose_permissions",
    "sync_folder",
    "write_whole",
]

_held = threading.local()  # which folders a thread is changing


def write_whole(
    path: Path, *parts: bytes | memoryview, mode: int | None = None, durable: bool = True
) -> None:
    """Replace a file atomically. Without a mode, the process's umask decides who may read it.

    Readers, also after a crash, find the old content or the new, never a part. With durable=False
    that does not hold after a power cut.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)  # what lies there may be open elsewhere, or be a link
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    handle = os.open(draft, flags, 0o666 if mode is None else mode)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            for part in parts:
                file.write(part)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        rename(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rename(draft: Path, path: Path) -> None:
    """Replace `path` by a finished draft. Tests make the program fail before and after."""
    draft.replace(path)


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Append lines durably, all or none.

    A line that a crash cut short is dropped first. If the disk is full, what was written is taken
    back and OSError raised.
    """
    data = "".join(f"{line}\n" for line in lines).encode()
    with path.open("a+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
            end = os.pread(file.fileno(), end, 0).rfind(b"\n") + 1
            file.truncate(end)
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def read_lines(path: Path) -> list[str]:
    """All complete lines of a file; none if there is no file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def refuse_loose_permissions(path: Path) -> None:
    """Refuse a secret file that others may read or that belongs to another user."""
    found = path.stat()
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise PeerError(
            f"{path} may be read by others (mode {stat.S_IMODE(found.st_mode):04o}). "
            f"If nobody copied it: chmod 600 {path}; otherwise make a new identity."
        )
    if found.st_uid != os.geteuid():
        raise PeerError(
            f"{path} belongs to user {found.st_uid}, "
            f"not to the user who runs this peer ({os.geteuid()})."
        )


def close_folder(folder: Path) -> bool:
    """Take everybody else's rights to a folder away; whether there were any."""
    found = folder.stat()
    loose = bool(found.st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    if loose:
        folder.chmod(stat.S_IMODE(found.st_mode) & stat.S_IRWXU)
    return loose


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Let one process at a time read, compare and write what lies in this folder.

    A thread may do so within itself.
    """
    held: set[str] = _held.__dict__.setdefault("folders", set())
    place = os.path.realpath(folder)
    if place in held:
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        held.add(place)
        yield
    finally:
        held.discard(place)
        os.close(handle)


def is_locked(folder: Path) -> bool:
    """Whether a running process holds this state folder."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


class StateFolder:
    """The state folder of one running peer: a lock, and how often it was started."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise PeerError(
                f"{folder} is in use by another process of this peer. Stop that one first."
            ) from None

    def next_incarnation(self) -> int:
        """One more than last time, on disk before use: (incarnation, seq) must never repeat."""
        path = self.folder / "incarnation"
        text = path.read_bytes() if path.exists() else b"0"
        if not re.fullmatch(rb"[0-9]{1,15}\s*", text):
            raise PeerError(
                f"{path} does not hold a number. "
                "Remove the whole folder: the peer then joins as new."
            )
        write_whole(path, f"{int(text) + 1}\n".encode(), mode=0o600)
        return int(text) + 1

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
