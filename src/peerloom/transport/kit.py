"""The kit for a site that joins by files: roster and experiment in one signed archive, no keys.

`kit.json` lists every file with its size and SHA-256, `kit.sig` holds signatures over the bytes of
that list. A reader looks at the signature first, then at the list, then at the hashes; only what
passed all of them is given to a parser.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import PeerError
from .archive import BROKEN, unpacked
from .documents import canonical, digest, parse_json, whole
from .files import write_whole
from .founders import Signature
from .identity import Identity, short_id, spelled_id
from .roster import LARGEST_ROSTER, Roster

__all__ = ["Kit", "read_kit", "write_kit"]

_LIST, _SIGNATURES = "kit.json", "kit.sig"
_LIMITS = {
    _LIST: 4096,
    _SIGNATURES: 65536,
    "README.txt": 65536,
    "roster.json": LARGEST_ROSTER,
    "experiment.toml": 1 << 20,
}
_FORMAT = 2
_DO_NOT_USE = "Do not use it; ask the founder."


@dataclass(frozen=True)
class Kit:
    """What a site needs: the signed roster and, if there is one, the experiment file.

    Refuses an experiment whose hash is not the one in the roster.
    """

    roster: Roster
    experiment: bytes | None

    def __post_init__(self) -> None:
        if self.experiment is not None:
            self.roster.check_file(self.experiment, "the kit's experiment.toml")


def write_kit(path: Path, kit: Kit, founder: Identity) -> None:
    """Write the archive, signed by one founder. Refuses another key, and a private one inside.

    One signature is enough: the roster, and in it the hash of the experiment, bear those of all
    who must sign.
    """
    if founder.id not in kit.roster.founders:
        raise PeerError(
            "Only a founder of the federation signs kits, and this peer is not the founder. Pass "
            "on the kit that the founder made."
        )
    readme = (
        f"Kit of a Peerloom federation. Made by founder {spelled_id(founder.id)}\n"
        "Compare this id with what the founder told you by another way, then:\n\n"
        "    peerloom peer kit open THIS_FILE --founder ID\n"
    )
    files = {"README.txt": readme.encode(), "roster.json": kit.roster.to_bytes()}
    if kit.experiment is not None:
        files["experiment.toml"] = kit.experiment
    for name, data in files.items():
        if b"PRIVATE KEY" in data:
            raise PeerError(
                f"{name} holds a private key, and a kit must not. Take it out of the file."
            )
    listed = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    }
    manifest = canonical({"format": _FORMAT, "files": listed})
    signature = Signature.of(founder, "kit", manifest).document()
    files |= {_LIST: manifest, _SIGNATURES: json.dumps([signature]).encode()}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in sorted(files.items()):
            target.writestr(zipfile.ZipInfo(name), data)
    write_whole(path, archive.getvalue())


def read_kit(path: Path, founder: str, founders: Collection[str] = ()) -> Kit:
    """Read an archive into memory; nothing of it is parsed before it is known to be signed.

    `founder` is the one whose roster is believed. The kit itself must be signed by one of
    `founders`, those that this site knows, or without them by `founder`. The experiment is not
    parsed here.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(path, archive)
            manifest, signatures = (
                _unpacked(path, archive, entries.pop(name), _LIMITS[name])
                for name in (_LIST, _SIGNATURES)
            )
            _check_signed(path, manifest, signatures, founders or (founder,))
            listed = _read_list(path, parse_json(manifest), set(entries))
            files = {
                name: _unpacked(path, archive, entry, listed[name][0])
                for name, entry in entries.items()
            }
        for name, data in files.items():
            if (len(data), hashlib.sha256(data).hexdigest()) != listed[name]:
                raise PeerError(
                    f"{name} in {path} is not the file that the founder signed. {_DO_NOT_USE}"
                )
        return Kit(Roster.from_bytes(files["roster.json"], founder), files.get("experiment.toml"))
    except BROKEN as error:
        raise PeerError(
            f"{path} is no readable kit ({type(error).__name__}). Ask the founder for it again."
        ) from None


def _entries(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """What the archive holds, by name. Refuses names that no kit has; nothing is unpacked yet."""
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename
        if name not in _LIMITS or name in entries:
            raise PeerError(f"{path} holds {name[:80]!a}, which no kit has. {_DO_NOT_USE}")
        entries[name] = entry
    if not {_LIST, _SIGNATURES} <= set(entries):
        raise PeerError(
            f"{path} is not signed. Kits of older versions of Peerloom were not; ask the founder "
            "for a new one."
        )
    return entries


def _unpacked(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int) -> bytes:
    data = unpacked(archive, entry, limit)
    if len(data) > limit:
        raise PeerError(f"{entry.filename} in {path} is larger than {limit} bytes. {_DO_NOT_USE}")
    return data


def _check_signed(
    path: Path, manifest: bytes, signatures: bytes, founders: Collection[str]
) -> None:
    """Refuse a list that no founder signed whom this site knows."""
    found = Signature.read_all(parse_json(signatures))
    signers = [signature.id for signature in found]
    if len(set(signers)) < len(signers):
        raise PeerError(f"{path} bears two signatures by one key. {_DO_NOT_USE}")
    if not all(signature.holds("kit", manifest) for signature in found):
        raise PeerError(f"A signature of {path} is wrong: it was changed on its way. {_DO_NOT_USE}")
    if not set(signers) & set(founders):
        names = ", ".join(short_id(id) for id in signers) or "nobody"
        known = ", ".join(short_id(id) for id in founders)
        raise PeerError(
            f"{path} is signed by {names}, not by {known} whom this site believes. If founders "
            "have changed, take the new roster first: peerloom peer roster take FILE"
        )


def _read_list(path: Path, manifest: Any, names: set[str]) -> dict[str, tuple[int, str]]:
    """Size and hash of every file. Refuses a list of others than these names."""
    if manifest["format"] != _FORMAT or set(manifest) != {"format", "files"}:
        raise PeerError(
            f"{path} is a kit of format {manifest['format']!s:.20}; "
            f"this version of Peerloom reads {_FORMAT}."
        )
    listed = {
        name: (min(whole(about["size"]), _LIMITS[name]), digest(about["sha256"]))
        for name, about in manifest["files"].items()
    }
    if set(listed) != names or "roster.json" not in names:
        raise PeerError(
            f"{path} does not hold exactly the files that the founder signed. {_DO_NOT_USE}"
        )
    return listed
