"""The kit for a site that joins by files: roster and experiment in one archive, no keys."""

from __future__ import annotations

import io
import json
import lzma
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from ..errors import PeerError
from .files import write_whole
from .identity import spelled_id
from .roster import LARGEST_ROSTER, Roster

__all__ = ["Kit", "read_kit", "write_kit"]

_LIMITS = {
    "kit.json": 4096,
    "README.txt": 65536,
    "roster.json": LARGEST_ROSTER,
    "experiment.toml": 1 << 20,
}
_FORMAT = 1
_BROKEN_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError,
    RuntimeError,
)  # fmt: skip
_BROKEN_FIELDS = (KeyError, ValueError, TypeError)


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


def write_kit(path: Path, kit: Kit) -> None:
    """Write the archive. Refuses a private key; the same content gives the same bytes."""
    readme = (
        f"Kit of a Peerloom federation. Founder: {spelled_id(kit.roster.founder)}\n"
        "Compare this id with what the founder told you by another way, then:\n\n"
        "    peerloom peer kit open THIS_FILE --founder ID\n"
    )
    about = {"format": _FORMAT, "founder": kit.roster.founder, "version": kit.roster.version}
    files = {
        "kit.json": json.dumps(about).encode(),
        "README.txt": readme.encode(),
        "roster.json": kit.roster.to_bytes(),
    }
    if kit.experiment is not None:
        files["experiment.toml"] = kit.experiment
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in sorted(files.items()):
            if b"PRIVATE KEY" in data:
                raise PeerError(
                    f"{name} holds a private key, and a kit must not. Take it out of the file."
                )
            target.writestr(zipfile.ZipInfo(name), data)
    write_whole(path, archive.getvalue())


def read_kit(path: Path, founder: str) -> Kit:
    """Read an archive into memory. Refuses unknown names, large files and a wrong signature.

    The founder signs the roster, and with the hash in it the experiment, which is not parsed here.
    """
    try:
        files = _unpacked(path)
        about = json.loads(files["kit.json"])
        if about["format"] != _FORMAT:
            raise PeerError(
                f"{path} is a kit of format {about['format']}; "
                f"this version of Peerloom reads {_FORMAT}."
            )
        return Kit(Roster.from_bytes(files["roster.json"], founder), files.get("experiment.toml"))
    except (*_BROKEN_ARCHIVE, *_BROKEN_FIELDS) as error:
        raise PeerError(
            f"{path} is no readable kit ({type(error).__name__}). Ask the founder for it again."
        ) from None


def _unpacked(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as source:
        for entry in source.infolist():
            name = entry.filename
            limit = _LIMITS.get(name)
            if limit is None or name in files:
                raise PeerError(
                    f"{path} holds '{name[:80]}', which no kit has. Do not use it; ask the founder."
                )
            with source.open(entry) as file:
                files[name] = file.read(limit + 1)  # no more, whatever the archive claims
            if len(files[name]) > limit:
                raise PeerError(
                    f"{name} in {path} is larger than {limit} bytes. "
                    "Do not use it; ask the founder."
                )
    return files
