"""A roster as JSON: the bytes that are hashed and signed, and the file with the signatures."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from typing import TYPE_CHECKING, Any

from ..errors import PeerError
from .certificate import certificate_id
from .documents import canonical, digest, parse_json, pem, sealed, text, texts, unsealed, whole
from .founders import MOST_CHANGES, MOST_FOUNDERS, Head, Signature, believe
from .members import Link, Member, Relay

if TYPE_CHECKING:
    from .roster import Roster

__all__ = ["LARGEST_ROSTER", "bears_certificate", "canonical_bytes", "file_bytes", "read_fields"]

LARGEST_ROSTER = 4 << 20  # bytes: some 3000 members with their certificates

_CERTIFICATE = re.compile(rb'"certificate": "([^"]{1,2000})"')
_FIELDS_1 = {"format", "founder", "version", "epoch", "members", "links", "run", "spec", "previous"}
_FIELDS_2 = {
    "format", "founder", "version", "epoch", "founders", "threshold", "members", "links", "relays",
    "run", "spec", "file", "log", "expires", "speaks",
}  # fmt: skip


def canonical_bytes(roster: Roster) -> bytes:
    """The content in the one form that is hashed."""
    return canonical(_content(roster) if roster.format == 2 else _content_1(roster))


def file_bytes(roster: Roster) -> bytes:
    """The file: the content and the signatures."""
    if roster.format == 2:
        document = {
            "roster": _content(roster),
            "signatures": [signature.document() for signature in roster.signatures],
            "changes": [head.document() for head in roster.changes],
        }
    else:
        signature = roster.signatures[0].value if roster.signatures else b""
        document = {"roster": _content_1(roster), "signature": sealed(signature)}
    return json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"


def bears_certificate(data: bytes, founder: str) -> bool:
    """Whether a file, as `file_bytes` writes it, has this founder's certificate at a signature.

    The signature is not judged. This costs little, so it comes before anything else is looked at
    in what strangers bring: they have seen no founder's certificate.
    """
    # Two names in a document of one space more than none: no text holds a line's end.
    begin, end = data.find(b'\n "roster": {'), data.rfind(b'\n "signatures": [')
    if not 0 < begin < end:
        return False
    most = 2 * MOST_FOUNDERS * (MOST_CHANGES + 1)
    for part in (data[end:], data[:begin]):
        for found in itertools.islice(_CERTIFICATE.finditer(part), most):
            try:
                id = certificate_id(found[1].replace(b"\\n", b"\n"))
            except PeerError:
                continue
            if id == founder:
                return True
    return False


def read_fields(data: bytes, founder: str = "") -> dict[str, Any]:
    """The fields of `Roster` in a file's bytes.

    With a founder, signatures are judged before anything else is looked at: a roster may list
    thousands of certificates, and reading them is work that no stranger is to give us. Refuses
    wrong signatures and a file that is too large with `PeerError`. Any other fault raises one of
    `MALFORMED`.
    """
    if len(data) > LARGEST_ROSTER:
        raise PeerError(
            f"A roster of {len(data)} bytes is too large; at most {LARGEST_ROSTER} are read."
        )
    document = parse_json(data)
    content = document["roster"]
    if content["format"] == 1:
        return _read_1(document, content, founder)
    if (
        content["format"] != 2
        or set(document) != {"roster", "signatures", "changes"}
        or set(content) != _FIELDS_2
        or not content["founders"]
    ):
        raise ValueError("unknown fields or format")
    signing = _read_signing(document, content)
    if founder:
        believe(founder, (*signing["changes"], _head(content, signing)))
    return {
        **_common(content),
        **signing,
        "format": 2,
        "members": tuple(_read_member(found) for found in content["members"]),
        "relays": tuple(_read_relay(found) for found in content["relays"]),
        "file": "" if content["file"] == "" else digest(content["file"]),
        "log": tuple(digest(each) for each in content["log"]),
        "expires": whole(content["expires"]),
        "speaks": whole(content["speaks"]),
    }


def _read_signing(document: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """Who may sign, who did, and how it came that they may."""
    if len(document["changes"]) > MOST_CHANGES:
        raise ValueError("founders changed too often")
    return {
        "founders": texts(content["founders"]),
        "threshold": whole(content["threshold"]),
        "signatures": Signature.read_all(document["signatures"]),
        "changes": tuple(Head.read(found) for found in document["changes"]),
    }


def _head(content: dict[str, Any], signing: dict[str, Any]) -> Head:
    """What founders sign of this content."""
    return Head(
        text(content["founder"]), whole(content["version"]), signing["founders"],
        signing["threshold"], hashlib.sha256(canonical(content)).hexdigest(), signing["signatures"],
    )  # fmt: skip


def _common(content: dict[str, Any]) -> dict[str, Any]:
    """The fields that both formats have."""
    return {
        "founder": text(content["founder"]),
        "version": whole(content["version"]),
        "epoch": whole(content["epoch"]),
        "links": tuple(
            Link(e["from"], e["to"], float(e["a"]), float(e["b"]), text(e["layer"]))
            for e in content["links"]
        ),
        "run": text(content["run"]),
        "spec": text(content["spec"]),
    }


def _content(roster: Roster) -> dict[str, Any]:
    return {
        "format": 2,
        "founder": roster.founder,
        "version": roster.version,
        "epoch": roster.epoch,
        "founders": list(roster.founders),
        "threshold": roster.threshold,
        "members": [{**_named(member), "was": member.was} for member in roster.members],
        "links": [_linked(link) for link in roster.links],
        "relays": [_named(relay) for relay in roster.relays],
        "run": roster.run,
        "spec": roster.spec,
        "file": roster.file,
        "log": list(roster.log),
        "expires": roster.expires,
        "speaks": roster.speaks,
    }


def _named(who: Member | Relay) -> dict[str, Any]:
    return {
        "name": who.name,
        "certificate": who.certificate,
        "addresses": list(who.addresses),
    }


def _linked(link: Link) -> dict[str, Any]:
    return {
        "from": link.source, "to": link.target, "a": link.a, "b": link.b, "layer": link.layer,
    }  # fmt: skip


def _read_member(found: dict[str, Any]) -> Member:
    if set(found) != {"name", "certificate", "addresses", "was"}:
        raise ValueError("a member has unknown fields")
    return Member(
        text(found["name"]), pem(found["certificate"], 1 << 20), texts(found["addresses"]),
        text(found["was"]),
    )  # fmt: skip


def _read_relay(found: dict[str, Any]) -> Relay:
    if set(found) != {"name", "certificate", "addresses"}:
        raise ValueError("a relay has unknown fields")
    return Relay(text(found["name"]), pem(found["certificate"], 1 << 20), texts(found["addresses"]))


# -- format 1: read for one release, and written only as it was read


def _read_1(document: dict[str, Any], content: dict[str, Any], founder: str) -> dict[str, Any]:
    if set(document) != {"roster", "signature"} or set(content) - {"file"} != _FIELDS_1:
        raise ValueError("unknown fields or format")
    members = tuple(
        Member(text(m["name"]), pem(m["certificate"], 1 << 20), texts(m["addresses"]))
        for m in content["members"]
    )
    own = [member.certificate for member in members if member.id == content["founder"]]
    if not own:
        raise ValueError("the founder is no member")
    signature = Signature(own[0], unsealed(document["signature"]))
    if founder:
        who, version = content["founder"], whole(content["version"])
        believe(founder, (Head(who, version, (who,), 1, "", (signature,), canonical(content)),))
    return {
        **_common(content),
        "format": 1,
        "members": members,
        "file": digest(content["file"]) if "file" in content else "",
        "log": (digest(content["previous"]),) if content["previous"] else (),
        "signatures": (signature,),
    }


def _content_1(roster: Roster) -> dict[str, Any]:
    content = {
        "format": 1,
        "founder": roster.founder,
        "version": roster.version,
        "epoch": roster.epoch,
        "members": [_named(member) for member in roster.members],
        "links": [_linked(link) for link in roster.links],
        "run": roster.run,
        "spec": roster.spec,
        "previous": roster.previous,
    }
    if roster.file:
        content["file"] = roster.file
    return content
