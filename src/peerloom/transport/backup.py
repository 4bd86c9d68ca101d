"""A backup of a peer's folder: who it is and what it trusts, never the state of a run.

A state that is put back would say things that the peer has already said differently, and
neighbours refuse it. A backup holds the private key: keep it as you keep the key.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import PeerError
from .archive import BROKEN, unpacked
from .documents import digest, parse_json
from .files import changing, write_whole
from .home import UNASKED, Home
from .identity import short_id
from .invitations import InvitationBook

__all__ = ["DRAFT", "restore_backup", "write_backup"]

DRAFT = ".restore"
"""The folder, within the peer's, in which a backup is judged; a kill may leave it there."""

_LIST, _INVITATIONS = "backup.json", "invitations.json"
_FORMAT = 1
_NAMES = re.compile(
    r"identity\.(key|crt)|peer\.json|roster\.json|site\.toml|invitations\.json|proposal\.json"
    r"|experiment\.toml|audit\.(jsonl|head)|next/identity\.(key|crt)|code/(?!\.{1,2}$)[A-Za-z0-9_.-]{1,100}"
)
_LARGEST = 256 << 20  # bytes of all files together
_SECRET = re.compile(r".*\.key|invitations\.json|audit\.head|site\.toml")


def write_backup(home: Home, file: Path) -> list[str]:
    """Write the archive, readable by its owner alone; the names of what is in it.

    Refuses to write it into the folder itself, and more than could be restored.
    """
    if file.resolve().is_relative_to(home.folder.resolve()):
        raise PeerError(f"{file} is in the peer's own folder. Write the backup to another place.")
    found = {
        name: path.read_bytes()
        for path in sorted(home.folder.rglob("*"))
        if path.is_file() and _NAMES.fullmatch(name := path.relative_to(home.folder).as_posix())
    }
    if (size := sum(map(len, found.values()))) > _LARGEST:
        raise PeerError(
            f"{home.folder} has {size} bytes to keep, and a backup at most {_LARGEST}. Mostly that "
            "is large files in `code`, or a long audit.jsonl: keep those by another way."
        )
    about = {
        "format": _FORMAT,
        "id": home.identity.id,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in found.items()},
    }
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in {_LIST: json.dumps(about).encode(), **found}.items():
            target.writestr(zipfile.ZipInfo(name), data)
    write_whole(file, archive.getvalue(), mode=0o600)
    return list(found)


def restore_backup(file: Path, folder: Path) -> Home:
    """Put a backup into a folder. Its next start asks neighbours for the newest roster first.

    Its invitations have ended: one that was used since would be good once more. Refuses a folder
    that holds a run, another identity or a newer roster, and an archive that is not whole; then
    nothing is written.
    """
    if any((folder / "state").glob("*")):
        raise PeerError(
            f"{folder} holds the state of a run, which is newer than any backup. Use it as it is, "
            "or restore into another folder."
        )
    files = _unpacked(file)
    with _draft_in(folder) as place:
        backup = _laid_out(place, files)
        if (folder / "identity.key").exists():
            _check_older(backup, Home.open(folder))
        version = backup.roster.version if backup.founder else 0  # refuses a spoilt one
        if (book := place / _INVITATIONS).exists():
            InvitationBook(book).void()
            files[book.name] = book.read_bytes()
        # First the mark: whatever follows, nobody believes this roster before asking.
        write_whole(folder / UNASKED, b"", mode=0o600)
        _laid_out(folder, files)
    home = Home.open(folder)
    home.audit.note("restore", file=str(file), roster=version)
    return home


def _check_older(backup: Home, there: Home) -> None:
    if there.identity.id != backup.identity.id:
        raise PeerError(
            f"{there.folder} has the key of {short_id(there.identity.id)}, the backup that of "
            f"{short_id(backup.identity.id)}. Restore into another folder."
        )
    if there.founder and (not backup.founder or there.roster.version > backup.roster.version):
        raise PeerError(
            f"{there.folder} has version {there.roster.version} of the roster, which is newer than "
            "the backup's. Restore into another folder, or use this one as it is."
        )


def _laid_out(folder: Path, files: dict[str, bytes]) -> Home:
    folder.mkdir(exist_ok=True, mode=0o700)
    # The key comes last: a folder without it is no peer's yet, and may be restored again.
    for name, data in sorted(files.items(), key=lambda file: file[0] == "identity.key"):
        path = folder / name
        path.parent.mkdir(exist_ok=True, mode=0o700)
        write_whole(path, data, mode=0o600 if _SECRET.fullmatch(name) else None)
    return Home.open(folder)


@contextmanager
def _draft_in(folder: Path) -> Iterator[Path]:
    """A place for a draft in this folder, which is made, and goes again if nothing comes of it."""
    made = [each for each in (folder, *folder.absolute().parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with changing(folder):
            draft = folder / DRAFT
            shutil.rmtree(draft, ignore_errors=True)  # of an earlier call that was killed
            try:
                yield draft
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    finally:
        with suppress(OSError):  # something lies there
            for each in made:
                each.rmdir()


def _unpacked(file: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    room = _LARGEST
    try:
        with zipfile.ZipFile(file) as source:
            for entry in source.infolist():
                name = entry.filename
                if name in files or not (name == _LIST or _NAMES.fullmatch(name)):
                    raise PeerError(f"{file} holds {name[:80]!a}, which no backup has.")
                files[name] = unpacked(source, entry, room)
                room -= len(files[name])
                if room < 0:
                    raise PeerError(f"{file} holds more than the {_LARGEST} bytes of a backup.")
        about: dict[str, Any] = parse_json(files.pop(_LIST))
        hashes = {name: digest(value) for name, value in about["files"].items()}
    except BROKEN as error:
        raise PeerError(
            f"{file} is no readable backup ({type(error).__name__}). Take another copy of it."
        ) from None
    if about.get("format") != _FORMAT:
        raise PeerError(f"{file} is a backup of another version of Peerloom.")
    if hashes != {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}:
        raise PeerError(f"{file} was changed: a file in it does not have its hash.")
    return files
