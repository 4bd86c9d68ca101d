"""A roster as JSON: the bytes that the founder signs, and the file with the signature."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from ..errors import PeerError
from .members import Link, Member

if TYPE_CHECKING:
    from .roster import Roster

__all__ = ["LARGEST_ROSTER", "MALFORMED", "canonical_bytes", "file_bytes", "read_fields"]

LARGEST_ROSTER = 4 << 20  # bytes: some 3000 members with their certificates
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading a stranger's document may raise: any field may be missing or of any type."""

_FORMAT = 1
_FIELDS = {"format", "founder", "version", "epoch", "members", "links", "run", "spec", "previous"}


def canonical_bytes(roster: Roster) -> bytes:
    """The bytes that are signed: sorted keys and no spaces, so one content has one form."""
    return json.dumps(
        _content(roster), sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def file_bytes(roster: Roster) -> bytes:
    """The file: the content and the signature."""
    document = {
        "roster": _content(roster),
        "signature": base64.b64encode(roster.signature).decode(),
    }
    return json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"


def read_fields(data: bytes) -> dict[str, Any]:
    """The fields of `Roster` in a file's bytes. Nothing is verified yet.

    Refuses a file that is too large with `PeerError`. Any other fault raises one of `MALFORMED`.
    """
    if len(data) > LARGEST_ROSTER:
        raise PeerError(
            f"A roster of {len(data)} bytes is too large; at most {LARGEST_ROSTER} are read."
        )
    document = json.loads(data)
    content = document["roster"]
    signature = base64.b64decode(document["signature"], validate=True)
    known = set(content) - {"file"} == _FIELDS and content["format"] == _FORMAT
    if set(document) != {"roster", "signature"} or not known:
        raise ValueError("unknown fields or format")
    return {
        "founder": content["founder"],
        "version": _whole(content["version"]),
        "epoch": _whole(content["epoch"]),
        "members": tuple(
            Member(m["name"], m["certificate"], tuple(m["addresses"])) for m in content["members"]
        ),
        "links": tuple(
            Link(e["from"], e["to"], float(e["a"]), float(e["b"]), e["layer"])
            for e in content["links"]
        ),
        "run": content["run"],
        "spec": content["spec"],
        "previous": content["previous"],
        "signature": signature,
        "file": _digest(content["file"]) if "file" in content else "",
    }


def _content(roster: Roster) -> dict[str, Any]:
    content = {
        "format": _FORMAT,
        "founder": roster.founder,
        "version": roster.version,
        "epoch": roster.epoch,
        "members": [
            {"name": m.name, "certificate": m.certificate, "addresses": list(m.addresses)}
            for m in roster.members
        ],
        "links": [
            {"from": e.source, "to": e.target, "a": e.a, "b": e.b, "layer": e.layer}
            for e in roster.links
        ],
        "run": roster.run,
        "spec": roster.spec,
        "previous": roster.previous,
    }
    if roster.file:  # rosters from before there was this field keep the bytes that were signed
        content["file"] = roster.file
    return content


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _digest(value: object) -> str:
    if type(value) is not str or not re.fullmatch("[0-9a-f]{64}", value):
        raise ValueError(f"{value!r} is no SHA-256")
    return value
