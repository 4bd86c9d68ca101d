"""The kit for a site that joins by files: roster and experiment in one archive. Private keys are never in it."""

from __future__ import annotations

import io
import json
import zipfile
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


@dataclass(frozen=True)
class Kit:
    """What a site needs: the signed roster and, if there is one yet, the experiment file whose hash stands in it."""

    roster: Roster
    experiment: bytes | None

    def __post_init__(self) -> None:
        if self.experiment is not None:
            self.roster.check_file(self.experiment, "the kit's experiment.toml")


def write_kit(path: Path, kit: Kit) -> None:
    """Write the archive. The same content gives the same bytes."""
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
    """Read an archive: known names only, nothing is unpacked to a path that it chooses, and the founder must have signed.

    That holds for the roster, and through the hash that stands there for the bytes of the experiment, which are not parsed.
    """
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as source:
            for entry in source.infolist():
                limit = _LIMITS.get(entry.filename)
                if limit is None or entry.filename in files:
                    raise PeerError(
                        f"{path} holds '{entry.filename[:80]}', which no kit has. Do not use it; ask the founder."
                    )
                with source.open(entry) as file:
                    files[entry.filename] = file.read(
                        limit + 1
                    )  # never more than this, whatever the archive claims
                if len(files[entry.filename]) > limit:
                    raise PeerError(
                        f"{entry.filename} in {path} is larger than {limit} bytes. Do not use it; ask the founder."
                    )
        about = json.loads(files["kit.json"])
        if about["format"] != _FORMAT:
            raise PeerError(
                f"{path} is a kit of format {about['format']}; this version of Peerloom reads {_FORMAT}."
            )
        return Kit(Roster.from_bytes(files["roster.json"], founder), files.get("experiment.toml"))
    except (
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        TypeError,
        NotImplementedError,
        RuntimeError,
        EOFError,
        OSError,
    ) as error:
        raise PeerError(
            f"{path} is no readable kit ({type(error).__name__}). Ask the founder for it again."
        ) from None
