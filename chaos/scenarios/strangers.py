"""Peers that must be refused: strangers, members with wrong papers, other versions."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from peerloom.transport import Endpoint, Identity, Roster
from peerloom.transport.certificate import self_signed
from peerloom.transport.frames import encode
from peerloom.transport.schemas import VERSION, Kind
from peerloom.transport.tls import ALPN

from ..ends import QUICK, RUN, endpoint, federation, free_ports, identity, incoming, until
from ..figures import Figure, Stage, exactly, told
from ..speaker import Speaker, open_context, stranger

__all__ = ["other_versions", "wrong_papers"]


def wrong_papers(stage: Stage) -> list[Figure]:
    """Each is refused for the right reason, and nothing that it says is applied."""
    ports = free_ports(4)
    old = _expired(stage)
    roster = federation(4, [(0, 1), (2, 1), (3, 1)], [f"127.0.0.1:{port}" for port in ports])
    members = [
        replace(member, certificate=old.certificate.decode()) if k == 2 else member
        for k, member in enumerate(roster.members)
    ]
    roster = replace(roster, members=tuple(members)).signed(identity(0))
    found: dict[str, tuple[str, str]] = {}
    with endpoint(1, roster, stage.folder) as b:

        def attempt(name: str, reason: str, act: Callable[[], object]) -> None:
            stage.say(name)
            before = b.refusals()
            act()
            until(lambda: b.refusals() != before, 5.0)
            new = [why for why, count in b.refusals().items() if count > before.get(why, 0)]
            found[name] = (reason, " ".join(new))

        attempt("wrong key", "unknown_certificate", lambda: stranger(b.port, _with(9)))
        attempt("no certificate", "no_certificate", lambda: stranger(b.port, open_context()))
        attempt(
            "expired certificate",
            "expired_certificate",
            lambda: stranger(b.port, _with_identity(old)),
        )
        attempt("plain text", "plain_text", lambda: _plainly(b.port, b"GET / HTTP/1.0\r\n\r\n"))
        attempt(
            "own frames in plain text",
            "plain_text",
            lambda: _plainly(b.port, encode(Kind.PING, {"stamp": 1})),
        )
        attempt("TLS 1.2", "old_tls", lambda: stranger(b.port, _older(_with(0))))
        attempt("another protocol", "wrong_protocol", lambda: stranger(b.port, _with(0, "h2")))
        attempt("wrong run", "wrong_run", lambda: _greet(roster, b.port, run="run-2"))
        attempt("wrong model", "wrong_spec", lambda: _greet(roster, b.port, agreement="other"))
        other = federation(2, [(0, 1)], ["127.0.0.1:1", "127.0.0.1:2"], spec="other")
        attempt(
            "wrong federation", "roster_fork", lambda: _greet(roster, b.port, roster=other.hash)
        )
        with Speaker(3, roster, b.port) as member:
            before_removal = member.greet()
        b.adopt(roster.without_member(identity(0), "peer-3"))
        attempt("removed member", "unknown_certificate", lambda: stranger(b.port, _with(3)))
        found["no link between the two"] = ("not_a_neighbour", _without_link(stage, ports))
        applied = sum(link.frames.get("applied", 0) for link in b.links())
    wrong = [
        f"{name}: {got or 'not refused'}" for name, (reason, got) in found.items() if got != reason
    ]
    return [
        told("kinds of wrong papers tried", len(found)),
        exactly("a member, before it is removed, is", before_removal, "accepted"),
        exactly("refused for the right reason", len(found) - len(wrong), len(found)),
        exactly("parcels applied", applied, 0),
        *[exactly("not as it should be", text, "") for text in wrong],
    ]


def other_versions(stage: Stage) -> list[Figure]:
    """A later version that knows ours, one that does not, and one with another frame format."""
    roster = federation(2, [(0, 1)], [f"127.0.0.1:{port}" for port in free_ports(2)])
    events: list[str] = []
    with endpoint(1, roster, stage.folder, on_event=lambda event: events.append(event.text)) as b:
        with Speaker(0, roster, b.port) as both:
            knows_ours = both.greet(versions=[VERSION, VERSION + 1])
            first = both.data()
        with Speaker(0, roster, b.port) as later:
            not_ours = later.greet(versions=[VERSION + 1, VERSION + 2])
        with Speaker(0, roster, b.port) as foreign:
            hello = bytearray(encode(Kind.PING, {"stamp": 1}))
            hello[4] = VERSION + 1  # the version stands in the fifth byte of every frame
            foreign.sock.sendall(hello)
            other_frames = str(foreign.answer(Kind.REFUSE).header["why"])
        applied = incoming(b).frames.get("applied", 0)
    return [
        exactly("n+1 that speaks n too", f"{knows_ours}, {first}", "accepted, applied"),
        exactly("n+1 that does not", not_ours, "protocol_version"),
        exactly("frames of n+1", other_frames, "protocol_version"),
        exactly("people are told to upgrade", any("upgrade one" in text for text in events), True),
        exactly("parcels applied", applied, 1),
    ]


def _with(number: int, alpn: str = ALPN) -> ssl.SSLContext:
    return _with_identity(identity(number), alpn)


def _with_identity(whose: Identity, alpn: str = ALPN) -> ssl.SSLContext:
    context = open_context(alpn)
    context.load_cert_chain(whose.certificate_file, whose.key_file)
    return context


def _older(context: ssl.SSLContext) -> ssl.SSLContext:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def _plainly(port: int, data: bytes) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as raw,
        contextlib.suppress(ConnectionError),
    ):
        raw.sendall(data)
        raw.recv(100)


def _greet(known: Roster, port: int, /, **changes: str) -> None:
    with Speaker(0, known, port) as member:
        member.greet(**changes)


def _without_link(stage: Stage, ports: list[int]) -> str:
    """At another endpoint, whose roster has no such link."""
    roster = federation(3, [(1, 2)], [f"127.0.0.1:{port}" for port in ports])
    lonely = Endpoint(identity(1), roster, RUN, stage.folder / "lonely", ("127.0.0.1", 0), QUICK)
    with lonely, Speaker(0, roster, lonely.port) as member:
        return member.greet()


def _expired(stage: Stage) -> Identity:
    """Member 2 with a certificate of long ago."""
    key = serialization.load_pem_private_key(identity(2).key_file.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    folder = stage.folder / "expired"
    folder.mkdir()
    (folder / "identity.key").touch(0o600)
    (folder / "identity.key").write_bytes(identity(2).key_file.read_bytes())
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=4000)
    (folder / "identity.crt").write_bytes(self_signed(key, since))
    return Identity.load(folder)
