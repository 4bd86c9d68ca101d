"""The founder's join server under visitors who are silent, drip, flood or come at once."""

import contextlib
import socket
import ssl
import threading
import time

import pytest

from peerloom.errors import PeerError
from peerloom.transport import InvitationBook, JoinServer, join_online, join_request
from peerloom.transport.frames import encode
from peerloom.transport.schemas import Kind
from tests.federation import federation, identity, until

FOUNDER = federation(1, [])


@pytest.fixture
def joining(tmp_path):
    """A join server that waits in a thread; invitation, refusals and the rosters it gave."""
    before = threading.active_count()  # other tests may have left some of their own
    book = InvitationBook(tmp_path / "invitations.json")
    server = JoinServer(identity(0), ("127.0.0.1", 0))
    found = {"refused": [], "joined": [], "port": server.port, "server": server}
    found["invitation"] = book.invite(identity(0), f"127.0.0.1:{server.port}", 1)
    thread = threading.Thread(
        target=lambda: found["joined"].append(
            server.serve(
                lambda data: book.accept(identity(0), FOUNDER, data), 30.0, found["refused"].append
            )
        )
    )
    thread.start()
    yield found
    thread.join(20.0)
    assert not thread.is_alive()
    assert until(lambda: threading.active_count() <= before), "no visitor's thread is left"
    server.close()


def join(joining, number=1):
    begin = time.monotonic()
    invitation = joining["invitation"]
    roster = join_online(invitation, join_request(identity(number), invitation, "newcomer", ()))
    return roster, time.monotonic() - begin


def silent(joining):
    return socket.create_connection(("127.0.0.1", joining["port"]))


def drip(joining, stop):
    """A visitor that is past its handshake and sends one byte at a time."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["peerloom-join/1"])
    frame = iter(encode(Kind.JOIN, {}, bytes(5000), version=6))
    with (
        contextlib.suppress(OSError, StopIteration),
        silent(joining) as raw,
        context.wrap_socket(raw) as sock,
    ):
        while not stop.wait(0.02):
            sock.sendall(bytes([next(frame)]))


@pytest.mark.parametrize("count", [1, 8, 20])
def test_silent_visitors_delay_nobody(joining, count):
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(silent(joining))
        assert until(lambda: len(joining["server"]._visits) == min(count, 8))
        roster, seconds = join(joining)
    assert seconds < 3.0, "one that waits for the others would need 10 s"
    assert until(lambda: joining["joined"] == [roster])


def test_visitors_that_drip_delay_nobody(joining):
    stop = threading.Event()
    threads = [threading.Thread(target=drip, args=(joining, stop)) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    roster, seconds = join(joining)
    stop.set()
    for thread in threads:
        thread.join()
    assert seconds < 3.0
    assert until(lambda: joining["joined"] == [roster])


def test_a_flood_from_one_address_displaces_itself(joining):
    """The newcomer, here the oldest visitor of all, comes from another address."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(
            socket.create_connection(
                ("127.0.0.1", joining["port"]), source_address=("127.0.0.2", 0)
            )
        )
        for _ in range(40):
            stack.enter_context(silent(joining))
        assert until(lambda: len(joining["refused"]) >= 30)
        assert "127.0.0.2" in {visit.network for visit in joining["server"]._visits}
        first.settimeout(0.2)
        with pytest.raises(TimeoutError):
            first.recv(1)  # still open
        join(joining)


def test_the_places_are_free_again_after_the_time_of_a_visit(joining, monkeypatch):
    monkeypatch.setattr("peerloom.transport.join_server._TIMEOUT", 0.3)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(silent(joining))
        assert until(lambda: len(joining["refused"]) == 3)
        assert until(lambda: not joining["server"]._visits)
    join(joining)


def test_of_two_who_come_at_once_one_joins(joining):
    """The invitation is good once, and requests are judged one by one."""
    ends = []

    def go(number):
        try:
            ends.append(join(joining, number)[0])
        except PeerError as error:
            ends.append(str(error))

    threads = [threading.Thread(target=go, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(not isinstance(end, str) for end in ends) == 1
