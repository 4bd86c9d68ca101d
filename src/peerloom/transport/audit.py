"""The audit log of a peer's folder: what was done with it, line by line, hash-chained and signed.

    audit.jsonl    {"n", "at" (UTC), "what", "about", "before", "key", "sig"}
    audit.head     how many lines there are and the hash of the last, signed

`before` is the SHA-256 of the line before. Every line is signed, and the head, so that without the
key no line can be changed, added, removed or cut off unnoticed. Whoever holds the key, or puts back
an older copy of both files, is not noticed here.

When a peer changes its key, both keys sign a line of kind "rekey": lines up to it are of the old.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import PeerError
from .certificate import certificate_id, certificate_verifies
from .documents import canonical, sealed, unsealed
from .files import write_whole
from .identity import Identity
from .json_files import COUNT, TEXT, check_form, read_json
from .types import StopRequested

__all__ = ["AuditLog"]

_LINE = {"n": COUNT, "at": TEXT, "what": TEXT, "about": {}, "before": TEXT}
_HEAD = {"n": COUNT, "hash": TEXT, "sig": TEXT}
_SPOILT = (ValueError, KeyError, TypeError, RecursionError)
_TAIL = 4096  # bytes read at a time to find the last line
_log = logging.getLogger("peerloom.transport")


class AuditLog:
    """The log of one folder. Processes of the same peer may write to it at the same time."""

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.path, self.head_path = folder / "audit.jsonl", folder / "audit.head"
        self._identity = identity

    def note(self, what: str, **about: object) -> bool:
        """Add a line, durably; whether that was possible. A full disk is no reason to stop."""
        return self._written(what, about)

    def _written(
        self, what: str, about: dict[str, object], then: Callable[[], None] = lambda: None
    ) -> bool:
        try:
            with self._locked() as file:
                self._append(file, what, about)
                then()
        except OSError as error:
            _log.warning("%s cannot be written: %s", self.path, error)
            return False
        return True

    @contextmanager
    def run(self, run: str, **about: object) -> Iterator[None]:
        """Note that a run starts here, and how it ends."""
        self.note("start", run=run, **about)
        try:
            yield
        except BaseException as error:
            how = "stopped" if isinstance(error, StopRequested) else f"failed: {str(error)[:500]}"
            self.note("end", run=run, how=how)
            raise
        self.note("end", run=run, how="done")

    def note_rekey(self, new: Identity, replace: Callable[[], None] = lambda: None) -> bool:
        """Add the last line of this key: which key comes after it, as both of them sign.

        `replace` puts the new key in its place, before anybody writes another line.
        """
        old = self._identity
        accepted = sealed(new.sign("audit rekey", old.id.encode()))
        line = {"was": old.certificate.decode(), "id": new.id, "accepted": accepted}
        return self._written("rekey", {**line}, replace)

    def lines(self) -> list[dict[str, Any]]:
        """The lines that can be read, as they are."""
        found = list[dict[str, Any]]()
        for line in self._complete()[0]:
            try:
                found.append(_parsed(line))
            except _SPOILT:
                continue
        return found

    def head(self) -> str:
        """Number and hash of the last line, as they were written down; empty if they are not."""
        try:
            found = read_json(self.head_path, _HEAD)
        except PeerError:
            return ""
        return f"{found['n']} {found['hash']}"

    def cut_short(self) -> bool:
        """Whether the last line is not complete, as a kill leaves it."""
        return bool(self._complete()[1])

    def mend(self) -> None:
        """Take away a last line that is not complete."""
        with self._locked():
            pass

    def findings(self) -> list[str]:
        """What was changed, removed, cut off or signed by another key; nothing if all is whole."""
        lines, _ = self._complete()
        found, last, before = list[str](), 0, ""
        keys = _Keys(self._identity, self.lines())
        for place, line in enumerate(lines, start=1):
            try:
                entry = _parsed(line)
            except _SPOILT as error:
                found.append(f"line {place} was changed: it is no line of this log ({error})")
                last, before = last + 1, _hash(line)
                continue
            if (n := entry["n"]) > last + 1:
                found.append(f"{_range(last + 1, n - 1)} removed before line {place}")
            elif n <= last:
                found.append(f"line {place} has number {n}, which came before: it was put in")
            elif entry["before"] != before:
                found.append(
                    f"line {place - 1} was changed, or line {place} was: the one is not followed "
                    "by the other"
                    if place > 1
                    else "line 1 was changed: it claims that another came before"
                )
            found += self._signature(entry, place, keys.at(n))
            last, before = max(n, last), _hash(line)
        return found + self._end(lines, last, keys)

    def _signature(self, entry: dict[str, Any], place: int, certificate: bytes) -> list[str]:
        if "sig" not in entry:
            return [f"line {place} was changed or added: its signature is missing"]
        if entry.get("key") != certificate_id(certificate):
            return [f"line {place} is signed by another key ({_whose(entry.get('key'))})"]
        if not _verifies(certificate, _canonical(entry), entry["sig"]):
            return [f"line {place} was changed after it was signed"]
        return []

    def _end(self, lines: list[bytes], last: int, keys: _Keys) -> list[str]:
        """Compare the end of the log with the head."""
        if not self.head_path.exists():
            return (
                ["audit.head is missing: lines may have been cut off"]
                if lines
                else ["there is no line: the folder is older than its log, or both were removed"]
            )
        try:
            head = json.loads(self.head_path.read_bytes())
            check_form(head, _HEAD)
        except (OSError, *_SPOILT):
            return ["audit.head was changed: it cannot be read, and lines may have been cut off"]
        content = f"{head['n']} {head['hash']}".encode()
        if not _verifies(keys.at(head["n"]), content, head["sig"]):
            return ["audit.head was changed, or is of another peer: its signature is wrong"]
        if head["n"] > last:
            return [f"{_range(last + 1, head['n'])} cut off at the end"]
        if last > head["n"] + 1:
            return [f"{_range(head['n'] + 2, last)} added by another program"]
        if last == head["n"] and lines and _hash(lines[-1]) != head["hash"]:
            return [f"line {len(lines)}, the last, was changed"]
        return []

    # -- writing

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """The file, opened by this process alone, without a line that a kill cut short."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
                file.truncate(os.pread(file.fileno(), end, 0).rfind(b"\n") + 1)
            yield file

    def _append(self, file: Any, what: str, about: dict[str, object]) -> None:
        with suppress(OSError, PeerError):  # another process may have replaced the key meanwhile
            if self._identity.certificate_file.read_bytes() != self._identity.certificate:
                self._identity = Identity.load(self._identity.folder)
        end = file.seek(0, os.SEEK_END)
        before = _last_line(file.fileno(), end)
        entry: dict[str, Any] = {
            "n": self._number(before, file.fileno(), end) + 1,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "what": what,
            "about": about,
            "before": _hash(before) if end else "",
        }
        entry["key"] = self._identity.id
        entry["sig"] = self._signed(_canonical(entry))
        line = json.dumps(entry, separators=(",", ":")).encode()
        if file.write(line + b"\n") != len(line) + 1:
            file.truncate(end)
            raise OSError(f"{self.path} could not be written whole")
        os.fsync(file.fileno())
        head = {"n": entry["n"], "hash": _hash(line)}
        head["sig"] = self._signed(f"{head['n']} {head['hash']}".encode())
        write_whole(self.head_path, json.dumps(head).encode() + b"\n", mode=0o600)

    def _number(self, last: bytes, handle: int, end: int) -> int:
        """The number of the last line; how many there are, if it was spoilt."""
        try:
            return int(_parsed(last)["n"]) if end else 0
        except _SPOILT:
            return os.pread(handle, end, 0).count(b"\n")

    def _complete(self) -> tuple[list[bytes], bytes]:
        """All complete lines, and what follows the last."""
        data = self.path.read_bytes() if self.path.exists() else b""
        whole = data.rfind(b"\n") + 1
        return data[:whole].split(b"\n")[:-1], data[whole:]

    def _signed(self, data: bytes) -> str:
        return sealed(self._identity.sign("audit", data))


class _Keys:
    """Which key signed which lines: the folder's own, and before every change the one before."""

    def __init__(self, identity: Identity, lines: list[dict[str, Any]]) -> None:
        self._since = [(0, identity.certificate)]  # newest first: from this line on
        for entry in reversed(lines):
            if entry["what"] == "rekey" and (old := self._before(entry)) is not None:
                self._since[-1] = (entry["n"] + 1, self._since[-1][1])
                self._since.append((0, old))

    def at(self, n: int) -> bytes:
        """The certificate of the key that signs line n."""
        return next(certificate for since, certificate in self._since if n >= since)

    def _before(self, entry: dict[str, Any]) -> bytes | None:
        """The certificate of the key before, if the key that followed it says so too."""
        new, about = self._since[-1][1], entry["about"]
        try:
            check_form(about, {"was": TEXT, "id": TEXT, "accepted": TEXT})
            old = about["was"].encode()
            id = certificate_id(old).encode()
        except (ValueError, PeerError):
            return None
        follows = about["id"] == certificate_id(new)
        return old if follows and _verifies(new, id, about["accepted"], "audit rekey") else None


def _last_line(handle: int, end: int) -> bytes:
    """The last line of a file of whole lines that ends there; not all of a long file is read."""
    start, tail = end, b""
    while start and b"\n" not in tail[:-1]:
        start = max(0, start - _TAIL)
        tail = os.pread(handle, end - start, start)
    return tail[:-1].rpartition(b"\n")[2]


def _verifies(certificate: bytes, data: bytes, signature: str, purpose: str = "audit") -> bool:
    try:
        return certificate_verifies(certificate, purpose, data, unsealed(signature))
    except ValueError:
        return False


def _parsed(line: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(line)
    check_form(entry, _LINE)
    if set(entry) - {"key", "sig"} != set(_LINE) or ("sig" in entry) != ("key" in entry):
        raise ValueError("it has other fields")
    if "sig" in entry:
        check_form(entry, {"key": TEXT, "sig": TEXT})
    return entry


def _canonical(entry: dict[str, Any]) -> bytes:
    content = {name: value for name, value in entry.items() if name != "sig"}
    return canonical(content)


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _range(first: int, last: int) -> str:
    return f"line {first} was" if first == last else f"lines {first} to {last} were"


def _whose(key: object) -> str:
    return key[:7] if isinstance(key, str) and key.isalnum() and key.isascii() else "unknown"
