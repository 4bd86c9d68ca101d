"""A relay's folder, a site's own words about dialling out, and room for those who are called."""

import errno
import json
import socket
from dataclasses import replace

import pytest

from peerloom.errors import ConfigError, PeerError
from peerloom.peers.site_code import SiteCode
from peerloom.peers.site_network import outbound_of
from peerloom.transport.outbound import PROXY_VARIABLE
from peerloom.transport.relay.limits import Limits
from peerloom.transport.relay.service import RelayService
from peerloom.transport.rosterbook import RosterBook
from tests.federation import free_ports, identity
from tests.relays import PATIENT, roster_with, without_port


@pytest.fixture
def service(tmp_path):
    said = []
    (port,) = free_ports(1)
    where = (f"127.0.0.1:{port}",)
    made = RelayService(tmp_path / "relay", where, identity(0).id, Limits(), said.append)
    made.said = said
    yield made
    made._lock.close()
    for listener in made._listeners:
        listener.close()


def test_a_full_disk_does_not_keep_a_newer_roster_from_being_used(service, tmp_path, monkeypatch):
    first = roster_with(2, [(0, 1)], [])
    assert service.server.take(first.to_bytes())
    offer = RosterBook.offer

    def full(book, roster):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RosterBook, "offer", full)
    second = first.without_member(identity(0), "peer-1")
    assert service.server.take(second.to_bytes())
    assert service.server.roster.version == 2
    assert sum("make room on the disk" in line for line in service.said) == 1
    service._write("running")
    assert json.loads((tmp_path / "relay" / "status.json").read_bytes())["roster_unsaved"]
    monkeypatch.setattr(RosterBook, "offer", offer)
    service._write("running")
    assert not service.status()["roster_unsaved"]
    kept = RosterBook(tmp_path / "relay" / "roster.json", identity(0).id).current
    assert kept.version == 2


def test_one_process_per_folder_and_one_founder(service, tmp_path):
    again = ("127.0.0.1:1",)
    with pytest.raises(PeerError, match="in use"):
        RelayService(tmp_path / "relay", again, identity(0).id, Limits(), print)
    service.server.take(roster_with(2, [(0, 1)], []).to_bytes())
    service._lock.close()
    with pytest.raises(PeerError):
        RelayService(tmp_path / "relay", again, identity(1).id, Limits(), print)


def test_a_port_that_is_taken_is_a_sentence(service, tmp_path):
    taken = (f"127.0.0.1:{service.ports[0]}",)
    with pytest.raises(PeerError, match=r"Cannot listen on 127\.0\.0\.1"):
        RelayService(tmp_path / "other", taken, identity(0).id, Limits(), print)


def test_a_site_says_how_it_dials_out(tmp_path, monkeypatch):
    monkeypatch.delenv(PROXY_VARIABLE, raising=False)
    assert outbound_of(tmp_path).proxy is None
    monkeypatch.setenv(PROXY_VARIABLE, "http://me:hidden@proxy.example:3128")
    assert outbound_of(tmp_path).proxy.login == "me:hidden"
    file = tmp_path / "site.toml"
    file.touch(0o600)
    file.write_text('[network]\nproxy = "http://it:hidden@other.example:8080"\nwrapped = true\n')
    found = outbound_of(tmp_path)
    assert (found.proxy.host, found.proxy.login, found.wrapped) == (
        "other.example", "it:hidden", True,
    )  # fmt: skip
    assert outbound_of(tmp_path, "third.example:1").proxy.login == ""
    with pytest.raises(ConfigError, match="every user") as refusal:
        outbound_of(tmp_path, "http://me:hidden@third.example:1")
    assert "hidden" not in str(refusal.value)
    SiteCode(tmp_path)._write({})  # `peer allow` keeps the rest of the file, and its mode
    assert outbound_of(tmp_path).proxy.login == "it:hidden"
    file.chmod(0o640)
    with pytest.raises(PeerError, match="may be read by others"):
        outbound_of(tmp_path)
    file.write_text('[network]\nproxi = "x"\n')
    with pytest.raises(ConfigError, match="does not know proxi"):
        outbound_of(tmp_path)


def test_room_for_called_streams_is_counted_by_relay_and_caller(tmp_path):
    """All come from the relay's address: one caller must not take the room of another.

    Nor one relay that of the next: it may name anybody.
    """
    roster = roster_with(3, [(0, 1), (2, 1)], [])
    with without_port(1, roster, tmp_path, settings=replace(PATIENT, handshake=60.0)) as b:
        listener, most = b._driver._listener, b._table.settings.handshakes_per_address
        with socket.create_server(("127.0.0.1", 0), backlog=most + 3) as server:
            where = server.getsockname()
            pairs = [(socket.create_connection(where), server.accept()[0]) for _ in range(most + 3)]
        *first, other, elsewhere = (ours for ours, _ in pairs)
        for ours in first:
            listener.admit(ours, identity(0).id, "relay:r")
        listener.admit(other, identity(2).id, "relay:r")
        listener.admit(elsewhere, identity(0).id, "relay:s")
        assert b.refusals() == {"handshake_flood": 1}
        assert first[most].fileno() == -1
        assert {way: len(room) for way, room in listener._called.items()} == {
            "relay:r": most + 1,
            "relay:s": 1,
        }
        for _, theirs in pairs:
            theirs.close()
