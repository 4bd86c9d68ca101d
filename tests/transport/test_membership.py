"""Identity, roster, invitation, kit: what is believed, and every way to be refused."""

import base64
import contextlib
import errno
import hmac
import itertools
import json
import socket
import ssl
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.errors import PeerError
from peerloom.transport import (
    Home,
    Identity,
    Invitation,
    InvitationBook,
    JoinServer,
    Link,
    Member,
    Roster,
    RosterBook,
    files,
    join_online,
    join_request,
    read_id,
    short_id,
    spelled_id,
)
from peerloom.transport.certificate import certificate_id, certificate_verifies
from peerloom.transport.founders import Signature
from peerloom.transport.frames import encode
from peerloom.transport.proposals import ProposalBook, read_proposal
from peerloom.transport.roster import parse_address
from peerloom.transport.schemas import Kind
from tests.federation import federation, identity

# -- identity


def test_a_new_identity_keeps_its_key_to_itself(tmp_path):
    me = Identity.create(tmp_path / "me")
    assert stat.S_IMODE(me.key_file.stat().st_mode) == 0o600
    assert Identity.load(tmp_path / "me") == me
    assert b"PRIVATE" not in me.certificate
    assert me.id == certificate_id(me.certificate)
    with pytest.raises(PeerError, match="already has an identity"):
        Identity.create(tmp_path / "me")


@pytest.mark.parametrize("found", [False, True])
def test_init_can_be_given_again_wherever_it_was_ended(found, tmp_path, monkeypatch):
    rename, left = files.rename, [0]

    def fails(draft, path):
        left[0] -= 1
        if not left[0]:
            raise OSError(errno.EIO, "as if killed")
        rename(draft, path)

    monkeypatch.setattr(files, "rename", fails)
    for count in itertools.count(1):
        folder, left[0] = tmp_path / str(count), count
        # Of the audit log a failure is no reason to stop.
        with contextlib.suppress(OSError):
            Home.create(folder, "a", (), found)
            if left[0] > 0:
                break
        if not (folder / "peer.json").exists():
            Home.create(folder, "a", (), found)
        home = Home.open(folder)
        assert (home.name, home.founder) == ("a", home.identity.id if found else "")
        assert not found or home.roster.has(home.identity.id)
        with pytest.raises(PeerError, match="already has an identity"):
            Home.create(folder, "a", (), found)
    assert count > 4 + found


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_can_read_is_refused(mode, tmp_path):
    me = Identity.create(tmp_path)
    me.key_file.chmod(mode)
    with pytest.raises(PeerError, match="may be read by others"):
        Identity.load(tmp_path)


def test_key_and_certificate_must_belong_together(tmp_path):
    Identity.create(tmp_path)
    (tmp_path / "identity.crt").write_bytes(identity(1).certificate)
    with pytest.raises(PeerError, match="do not belong together"):
        Identity.load(tmp_path)
    (tmp_path / "identity.crt").write_bytes(b"nonsense")
    with pytest.raises(PeerError, match="no readable certificate"):
        Identity.load(tmp_path)
    with pytest.raises(PeerError, match="peer init"):
        Identity.load(tmp_path / "nowhere")


def test_signatures_hold_for_one_purpose_only():
    me = identity(0)
    signature = me.sign("roster", b"text")
    assert certificate_verifies(me.certificate, "roster", b"text", signature)
    assert not certificate_verifies(me.certificate, "join", b"text", signature)
    assert not certificate_verifies(me.certificate, "roster", b"texT", signature)
    assert not certificate_verifies(identity(1).certificate, "roster", b"text", signature)


@given(st.integers(0, 55), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_one_wrong_character_of_an_id_is_found(place, letter):
    text = spelled_id(identity(0).id)
    assert read_id(text.lower()) == identity(0).id == read_id(identity(0).id)
    plain = text.replace("-", "")
    wrong = plain[:place] + letter + plain[place + 1 :]
    if wrong != plain:
        with pytest.raises(PeerError, match="check character"):
            read_id(wrong)


def test_ids_are_read_and_shortened():
    assert len(spelled_id(identity(0).id).split("-")) == 8
    assert short_id(identity(0).id) == identity(0).id[:7]
    with pytest.raises(PeerError, match="3 characters"):
        read_id("ABC")


# -- roster

PAIR = federation(2, [(0, 1)])


def test_a_member_is_found_by_every_form_of_its_id():
    member = PAIR.members[1]
    spelled = spelled_id(member.id)
    forms = (member.name, member.id, spelled, spelled.lower(), spelled.replace("-", " "))
    for written in (*forms, short_id(member.id), spelled.split("-")[0]):
        assert PAIR.member(written) is member, written
    for wrong in (spelled[:-1], spelled[:-1] + "-", member.id[:6], member.id[:13], ""):
        with pytest.raises(PeerError, match="no member"):
            PAIR.member(wrong)


def test_a_roster_survives_its_file_and_nothing_else():
    data = PAIR.to_bytes()
    assert Roster.from_bytes(data, PAIR.founder) == PAIR
    with pytest.raises(PeerError, match="not by"):
        Roster.from_bytes(data, identity(1).id)


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@pytest.mark.parametrize("bit", range(8))
def test_no_changed_byte_gets_through(bit):
    """A change of any byte of the file is a `PeerError`, or means nothing, such as a space."""
    original = PAIR.to_bytes()
    for place in range(len(original)):
        changed = bytearray(original)
        changed[place] ^= 1 << bit
        try:
            read = Roster.from_bytes(bytes(changed), PAIR.founder)
        except PeerError:
            continue
        assert read.canonical() == PAIR.canonical(), place


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=10,
    )
)
def test_any_document_is_refused_in_one_way(document):
    content = json.loads(PAIR.to_bytes())["roster"]
    for data in (
        document,
        {"roster": document, "signature": ""},
        {"roster": document, "signatures": [], "changes": []},
        *(
            {"roster": {**content, field: document}, "signatures": [], "changes": []}
            for field in content
        ),
        {"roster": content, "signatures": document, "changes": []},
        {"roster": content, "signatures": [], "changes": document},
    ):
        with pytest.raises(PeerError):
            Roster.from_bytes(json.dumps(data).encode(), PAIR.founder)


def test_only_the_founder_signs():
    with pytest.raises(PeerError, match="Only the founder"):
        PAIR.signed(identity(1))
    own = PAIR.signatures[0]
    for forged in (
        Signature.of(identity(1), "roster", PAIR.head.signed_bytes),
        Signature(own.certificate, identity(1).sign("roster", PAIR.head.signed_bytes)),
        Signature.of(identity(0), "join", PAIR.head.signed_bytes),
    ):
        with pytest.raises(PeerError, match="sign"):
            replace(PAIR, signatures=(forged,)).verify(PAIR.founder)


def test_versions_only_grow_and_forks_are_refused(tmp_path):
    book = RosterBook(tmp_path / "roster.json", PAIR.founder)
    second = PAIR.with_links(identity(0), [])
    third = second.with_member(identity(0), Member("peer-2", identity(2).certificate.decode()))
    assert book.offer(PAIR)
    assert book.offer(second)
    assert not book.offer(PAIR)
    assert not book.offer(second)
    other = PAIR.amended(identity(0), run="other", new_epoch=True)
    for fork in (other, other.amended(identity(0)), PAIR.amended(identity(0)).amended(identity(0))):
        with pytest.raises(PeerError, match="signed twice"):
            book.offer(fork)
    assert book.offer(third)
    assert RosterBook(tmp_path / "roster.json", PAIR.founder).current == third
    assert (third.version, third.epoch, third.previous) == (3, 1, second.hash), (
        "who comes without links begins no epoch"
    )


def at_once(*calls):
    """Call them together; what each returned, None where it was refused."""
    start = threading.Barrier(len(calls))

    def run(call):
        start.wait()
        with contextlib.suppress(PeerError):
            return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.parametrize("found", [False, True])
def test_of_two_inits_at_once_one_makes_the_key(found, tmp_path):
    """The other must not replace it: its id may be in an invitation's answer already."""
    for n in range(10):
        folder = tmp_path / str(n)
        made = at_once(*(partial(Home.create, folder, name, (), found) for name in "abc"))
        (one,) = (home for home in made if home is not None)
        there = Home.open(folder)
        assert (there.identity, there.name) == (one.identity, one.name)
        assert there.audit.findings() == []


def test_a_founder_signs_one_of_two_proposals_that_come_at_once(tmp_path):
    known = federation(2, [])
    one, two = (known.amended(identity(0), run=run) for run in ("one", "two"))
    for n in range(20):
        books = [ProposalBook(tmp_path / str(n) / "proposal.json") for _ in range(2)]
        (tmp_path / str(n)).mkdir()
        signed = at_once(
            lambda: books[0].sign(identity(0), one, known),  # noqa: B023
            lambda: books[1].sign(identity(0), two, known),  # noqa: B023
        )
        assert signed.count(None) == 1
        assert books[0].read() in signed


def test_of_a_book_of_invitations_nothing_is_lost_by_commands_at_once(tmp_path):
    """A lost mark would let an invitation be used again, a lost invitation would be good never."""
    path, roster = tmp_path / "invitations.json", federation(1, [])
    for n in range(10):
        open_one = InvitationBook(path).invite(identity(0), "", 1)
        requests = [join_request(identity(k), open_one, f"new-{k}", ()) for k in (1, 2)]
        takes = [
            partial(InvitationBook(path).accept, identity(0), roster, data) for data in requests
        ]
        made, *taken = at_once(partial(InvitationBook(path).invite, identity(0), "", 1), *takes)
        assert made is not None
        assert taken.count(None) == 1
        assert len(InvitationBook(path).open()) == n + 1


def test_two_commands_at_once_make_one_version(tmp_path):
    """Each has read the same roster; the second finds what the first wrote."""
    RosterBook(tmp_path / "roster.json", PAIR.founder).offer(PAIR)
    books = [RosterBook(tmp_path / "roster.json", PAIR.founder) for _ in range(8)]
    made = [PAIR.amended(identity(0), run=f"run {k}", new_epoch=True) for k in range(8)]
    taken = at_once(*(partial(*each) for each in zip([b.offer for b in books], made, strict=True)))
    assert taken.count(True) == 1
    assert RosterBook(tmp_path / "roster.json", PAIR.founder).current == made[taken.index(True)]


@pytest.mark.parametrize("word", ["run\x1b[1A\x1b[2K", "a\nb", "a\rb", "\x7f", "\x9b2J"])
def test_no_roster_moves_the_cursor_of_who_reads_it(word):
    """A proposal is read by people before they sign it."""
    made = replace(PAIR, run=word, signatures=()).signed(identity(0))
    with pytest.raises(PeerError):
        Roster.from_bytes(made.to_bytes(), PAIR.founder)
    with pytest.raises(PeerError, match="no proposal"):
        read_proposal(made.to_bytes())


def test_members_come_and_go():
    three = PAIR.with_member(
        identity(0), Member("peer-2", identity(2).certificate.decode(), ("host:1",))
    )
    three = three.with_links(
        identity(0), [Link(identity(2).id, identity(0).id, 0.5, 0.5), *PAIR.links]
    )
    assert three.row(identity(2).id) == 2
    assert three.sources(identity(0).id) == [identity(2).id]
    moved = three.with_member(
        identity(0), Member("peer-1", identity(1).certificate.decode(), ("new:2",))
    )
    assert (moved.member("peer-1").addresses, moved.row(identity(1).id), moved.epoch) == (
        ("new:2",),
        1,
        three.epoch,
    )
    gone = three.without_member(identity(0), "peer-2")
    assert not gone.has(identity(2).id)
    assert gone.epoch == three.epoch, "a run under way takes a removal up"
    assert gone.links == PAIR.links
    with pytest.raises(PeerError, match="founder"):
        three.without_member(identity(0), "peer-0")
    with pytest.raises(PeerError, match=r"Did you mean 'peer-1'"):
        PAIR.member("pier-1")


@pytest.mark.parametrize(
    "change",
    [
        {"members": (*PAIR.members, Member("peer-1", identity(2).certificate.decode()))},
        {"members": (*PAIR.members, Member("other", identity(1).certificate.decode()))},
        {"members": (*PAIR.members, Member("../x", identity(2).certificate.decode()))},
        {"members": (*PAIR.members, Member("x", identity(2).certificate.decode(), ("no-port",)))},
        {"members": (*PAIR.members, Member("x", "no certificate"))},
        {"links": (Link(identity(0).id, identity(5).id),)},
        {"links": (Link(identity(0).id, identity(0).id),)},
        {"links": (Link(identity(0).id, identity(1).id, float("nan")),)},
        {"links": (Link(identity(0).id, identity(1).id, -1.0),)},
    ],
)
def test_a_roster_that_makes_no_sense_cannot_be_made(change):
    with pytest.raises(PeerError):
        replace(PAIR, **change)


def test_addresses_are_host_and_port():
    assert parse_address("peer.example.org:7400") == ("peer.example.org", 7400)
    for bad in ("x", "x:", ":1", "x:0", "x:65536", "x:1e3", "x:٣"):
        with pytest.raises(PeerError, match="host:port"):
            parse_address(bad)


# -- invitations


@pytest.fixture
def book(tmp_path):
    return InvitationBook(tmp_path / "invitations.json")


FOUNDER = federation(1, [])


def test_an_invitation_works_once(book, tmp_path):
    invitation = book.invite(identity(0), "host:7000", 1)
    assert Invitation.read(invitation.token() + "\n") == invitation
    assert stat.S_IMODE((tmp_path / "invitations.json").stat().st_mode) == 0o600
    request = join_request(identity(1), invitation, "newcomer", ("there:7400",))
    roster = book.accept(identity(0), FOUNDER, request)
    assert roster.member("newcomer").id == identity(1).id
    assert roster.version == 2
    assert book.accept(identity(0), roster, request) is roster, "asking again is harmless"
    second = join_request(identity(2), invitation, "second", ())
    with pytest.raises(PeerError, match="used by"):
        book.accept(identity(0), roster, second)
    assert invitation.secret.hex() not in request.decode()


def test_an_invitation_whose_roster_came_to_nothing_is_good_for_the_same_key(book):
    """A kill, a full disk or another command may come between its use and the new roster."""
    invitation = book.invite(identity(0), "", 1)
    request = join_request(identity(1), invitation, "newcomer", ())
    lost = book.accept(identity(0), FOUNDER, request)
    other = FOUNDER.amended(identity(0), run="another command's")
    with pytest.raises(PeerError, match="used by"):
        book.accept(identity(0), other, join_request(identity(2), invitation, "thief", ()))
    taken = book.accept(identity(0), other, request)
    assert (lost.version, taken.version) == (2, 3)
    gone = taken.without_member(identity(0), "newcomer")
    for roster in (gone, gone.amended(identity(0)).amended(identity(0))):
        with pytest.raises(PeerError, match="used by"):  # it took place: who was removed stays out
            book.accept(identity(0), roster, request)


def test_a_book_of_before_is_read_and_what_was_used_stays_used(book, tmp_path):
    path = tmp_path / "invitations.json"
    invitation = book.invite(identity(0), "", 1)
    request = join_request(identity(1), invitation, "newcomer", ())
    content = json.loads(path.read_bytes())
    for entry in content.values():
        del entry["version"], entry["made"]
    path.write_text(json.dumps(content))
    assert book.open() == [invitation.key]
    content[invitation.key]["used_by"] = identity(1).id
    path.write_text(json.dumps(content))
    with pytest.raises(PeerError, match="used by"):
        book.accept(identity(0), FOUNDER, request)
    content[invitation.key]["version"] = "2"
    path.write_text(json.dumps(content))
    with pytest.raises(PeerError, match="spoilt"):
        book.open()


def test_invitations_expire(book):
    invitation = book.invite(identity(0), "", 1, now=1000.0)
    with pytest.raises(PeerError, match="expired"):
        join_request(identity(1), invitation, "newcomer", ())
    fresh = book.invite(identity(0), "", 1)
    request = join_request(identity(1), fresh, "newcomer", ())
    with pytest.raises(PeerError, match="expired"):
        book.accept(identity(0), FOUNDER, request, now=fresh.expires + 1)


def test_requests_cannot_be_forged(book):
    invitation = book.invite(identity(0), "", 1)
    request = json.loads(join_request(identity(1), invitation, "newcomer", ()))
    stolen = {**request["request"], "certificate": identity(2).certificate.decode()}
    guessed = json.loads(
        join_request(identity(1), replace(invitation, secret=b"x" * 16), "newcomer", ())
    )
    guessed["request"]["invitation"] = invitation.key
    for document, why in (
        ({**request, "request": {**request["request"], "name": "other"}}, "answer any invitation"),
        ({**request, "request": stolen}, "answer any invitation"),
        (guessed, "answer any invitation"),
        ({**request, "signature": ""}, "does not hold the key"),
        ({**request, "more": 1}, "no join request"),
        ({}, "no join request"),
    ):
        with pytest.raises(PeerError, match=why):
            book.accept(identity(0), FOUNDER, json.dumps(document).encode())
    for token in (
        "",
        "peerloom-invitation.",
        "peerloom-invitation.e30",
        "peerloom-invitation.WzEsMiwzLDRd",
    ):
        with pytest.raises(PeerError, match="no invitation"):
            Invitation.read(token)


@pytest.mark.parametrize(
    "change",
    [
        {"certificate": 5},
        {"certificate": "\ud800"},
        {"name": {"a": 1}},
        {"name": ["newcomer"]},
        {"addresses": [7400]},
        {"addresses": ["host:" + "9" * 5000]},
        {"founder": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_requests_of_any_form_are_refused_as_requests(change, book):
    """The secret is right, so that every field is looked at; a fault would end the join server."""
    invitation = book.invite(identity(0), "", 1)
    content = json.loads(join_request(identity(1), invitation, "newcomer", ()))["request"] | change
    signed = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    mac = hmac.new(invitation.secret, signed, "sha256").hexdigest()
    signature = base64.b64encode(identity(1).sign("join", signed)).decode()
    document = {"request": content, "mac": mac, "signature": signature}
    with pytest.raises(PeerError):
        book.accept(identity(0), FOUNDER, json.dumps(document).encode())


def test_a_token_that_nests_without_end_is_no_invitation():
    nested = base64.urlsafe_b64encode(b"[" * 1400).decode()
    with pytest.raises(PeerError, match="no invitation"):
        Invitation.read("peerloom-invitation." + nested)


def test_a_visitor_that_drips_does_not_keep_others_out(book, monkeypatch):
    monkeypatch.setattr("peerloom.transport.join_server._TIMEOUT", 0.5)
    server = JoinServer(identity(0), ("127.0.0.1", 0))
    where, stop, refused = ("127.0.0.1", server.port), threading.Event(), []

    def drip():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        frame = iter(encode(Kind.JOIN, {}, bytes(1000)))
        with (
            contextlib.suppress(OSError),
            socket.create_connection(where) as raw,
            context.wrap_socket(raw) as sock,
        ):
            while not stop.wait(0.1):
                sock.sendall(bytes([next(frame)]))

    threading.Thread(target=drip, daemon=True).start()
    begin = time.monotonic()
    assert server.serve(lambda request: FOUNDER, 1.5, refused.append) is None
    stop.set()
    server.close()
    assert len(refused) == 1
    assert time.monotonic() - begin < 3.0


def test_joining_over_the_network(book):
    desk = JoinServer(identity(0), ("127.0.0.1", 0))
    invitation = book.invite(identity(0), f"127.0.0.1:{desk.port}", 1)
    refused, accepted = [], []

    def serve():
        accepted.append(
            desk.serve(lambda data: book.accept(identity(0), FOUNDER, data), 20.0, refused.append)
        )

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(PeerError, match="refused the join request"):
        join_online(invitation, b"{}")
    with pytest.raises(PeerError, match="wrong_peer"):
        join_online(replace(invitation, founder=identity(3).id), b"{}")
    roster = join_online(invitation, join_request(identity(1), invitation, "newcomer", ()))
    thread.join()
    desk.close()
    assert accepted == [roster]
    assert roster.member("newcomer").id == identity(1).id
    assert len(refused) == 2
    with pytest.raises(PeerError, match="nobody_listens"):
        join_online(invitation, b"{}")


# -- home


def test_a_home_believes_its_first_founder_only(tmp_path):
    founder = Home.create(tmp_path / "a", "a", ("host:1",), found=True)
    other = Home.create(tmp_path / "b", "b", (), found=True)
    assert founder.founder == founder.identity.id
    assert founder.roster.version == 1
    with pytest.raises(PeerError, match="another federation"):
        founder.trust(other.roster)
    new = Home.create(tmp_path / "c", "c", (), found=False)
    with pytest.raises(PeerError, match="no roster yet"):
        _ = new.roster
    with pytest.raises(PeerError, match="not the founder"):
        _ = new.invitations
    with pytest.raises(PeerError, match="cannot name a member"):
        Home.create(tmp_path / "d", "Not A Name", (), found=False)
    assert not (tmp_path / "d").exists()
