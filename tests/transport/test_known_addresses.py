"""Whose handshakes have room of their own: addresses in any spelling, and names."""

import contextlib
import socket
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.transport import Endpoint, Member
from peerloom.transport import known_addresses as module
from peerloom.transport.known_addresses import KnownAddresses, same_form
from tests.federation import QUICK, RUN, endpoint, federation, free_ports, identity, until


def roster_at(*addresses):
    roster = federation(1, [])
    for number, address in enumerate(addresses, 1):
        certificate = identity(number).certificate.decode()
        roster = roster.with_member(identity(0), Member(f"m{number}", certificate, (address,)))
    return roster


@given(st.ip_addresses(v=4))
def test_mapped_and_plain_are_one_address(address):
    assert same_form(f"::ffff:{address}") == same_form(f"::FFFF:{address}%1") == str(address)


@given(st.ip_addresses(v=6))
def test_spellings_of_one_address_are_one(address):
    spellings = (address.exploded, address.exploded.upper(), f"{address}%eth0")
    assert len({same_form(text) for text in (str(address), *spellings)}) == 1


def test_members_are_known_in_every_spelling():
    known = KnownAddresses(lambda: roster)
    roster = roster_at("192.0.2.7:1", "[2001:db8:0:0::5]:1", "[::ffff:198.51.100.9]:1")
    for address in ("::ffff:192.0.2.7", "2001:DB8::5%eth0", "198.51.100.9"):
        assert same_form(address) in known, address
    assert "203.0.113.1" not in known


def test_names_are_resolved_again_and_the_last_answer_stays(monkeypatch):
    answers = {"a.example": "192.0.2.1"}
    asked = []

    def getaddrinfo(name, *_, **__):
        asked.append(name)
        if name not in answers:
            raise socket.gaierror("no answer")
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (answers[name], 0, 0, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(module, "_EVERY", 0.05)
    rosters = [roster_at("a.example:1")]
    known = KnownAddresses(lambda: rosters[-1])
    known.start()
    try:
        assert until(lambda: "192.0.2.1" in known)
        answers["a.example"] = "::ffff:192.0.2.2"
        assert until(lambda: "192.0.2.2" in known)
        assert "192.0.2.1" not in known
        answers.clear()
        count = len(asked)
        assert until(lambda: len(asked) > count + 3)
        assert "192.0.2.2" in known, "the name server is away, and the last answer stays"
        rosters.append(roster_at("b.example:1").amended(identity(0)))
        answers["b.example"] = "192.0.2.3"
        assert until(lambda: "192.0.2.3" in known), "a newer roster is looked at at once"
        assert "192.0.2.2" not in known, "who has left has the room of a stranger"
    finally:
        known.stop()


@pytest.mark.parametrize("host", ["localhost", "[::ffff:127.0.0.1]"])
@pytest.mark.slow
def test_a_member_known_by_name_gets_in_through_a_flood(tmp_path, host):
    """Strangers from other addresses take all places; the member comes from 127.0.0.1."""
    ports = free_ports(2)
    roster = federation(2, [(0, 1), (1, 0)], ports)
    named = [
        Member(each.name, each.certificate, (f"{host}:{port}",))
        for each, port in zip(roster.members, ports, strict=True)
    ]
    roster = roster.amended(identity(0), members=tuple(named))
    patient = replace(QUICK, handshake=30.0)
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(endpoint(0, roster, tmp_path, ports[0], settings=patient))
        assert until(lambda: "127.0.0.1" in a._driver._listener._members)
        for number in range(40):  # silent ones, who keep their places to the end of the test
            source = (f"127.0.1.{1 + number % 5}", 0)
            where = ("127.0.0.1", ports[0])
            stack.enter_context(socket.create_connection(where, source_address=source))
        assert until(lambda: a.refusals().get("handshake_flood") == 8)
        # It listens elsewhere than the roster says: the other side cannot dial it.
        b = stack.enter_context(
            Endpoint(identity(1), roster, RUN, tmp_path / "b", ("127.0.0.1", 0), QUICK)
        )
        assert until(lambda: all(link.up for link in b.links()))
