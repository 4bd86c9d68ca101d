"""Documents of strangers: whatever their bytes are, they are refused in one way."""

import base64
import hmac
import json
import math
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom.errors import PeerError
from peerloom.transport import Invitation, InvitationBook, Relay, Roster, join_request
from peerloom.transport.documents import MALFORMED, canonical, parse_json, sealed
from peerloom.transport.members import parse_address
from peerloom.transport.proposals import read_proposal
from peerloom.transport.rekey import grant_rekey, rekey_request
from tests.federation import federation, identity

PAIR = federation(2, [(0, 1)])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["NaN", "A" * 52, "0" * 64, "host:1", 2**53, 10**400, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(document, path=()):
    """Every place of a document at which something else could stand."""
    yield path
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in inner:
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


def put(document, path, value):
    """The document with another value at a place."""
    if not path:
        return value
    copied = json.loads(json.dumps(document))
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copied


def dumped(value):
    return json.dumps(value).encode()


THREE = PAIR.amended(
    identity(0), founders=(identity(0).id, identity(1).id), threshold=2,
    relays=(Relay("r", identity(4).certificate.decode(), ("host:1",)),),
).signed(identity(1)).amended(identity(0)).signed(identity(1))  # fmt: skip
ROSTER = json.loads(THREE.to_bytes())
REKEY = json.loads(rekey_request(identity(1), identity(5), PAIR))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(places(ROSTER))), JSON)
def test_a_roster_with_anything_anywhere_is_refused(path, value):
    changed = put(ROSTER, path, value)
    if changed != ROSTER or json.dumps(changed) != json.dumps(ROSTER):
        try:
            read = Roster.from_bytes(dumped(changed), PAIR.founder)
        except PeerError:
            return
        assert read.canonical() == THREE.canonical(), "only numbers that are equal may pass"


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(places(REKEY))), JSON)
def test_a_request_for_a_key_with_anything_anywhere_is_refused(path, value):
    changed = put(REKEY, path, value)
    if changed != REKEY:
        with pytest.raises(PeerError):
            grant_rekey(identity(0), PAIR, dumped(changed))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | JSON.map(dumped))
def test_any_bytes_are_refused_everywhere(data):
    with pytest.raises(PeerError):
        Roster.from_bytes(data, PAIR.founder)
    with pytest.raises(PeerError):
        read_proposal(data)
    with pytest.raises(PeerError):
        grant_rekey(identity(0), PAIR, data)
    with pytest.raises(PeerError):
        Invitation.read("peerloom-invitation." + base64.urlsafe_b64encode(data).decode())
    with pytest.raises(PeerError):
        Invitation.read(data.decode("latin-1"))


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """An invitation with its book, and the request that answers it."""
    book = InvitationBook(tmp_path_factory.mktemp("book") / "invitations.json")
    invitation = book.invite(identity(0), "", 1)
    return book, invitation, json.loads(join_request(identity(1), invitation, "newcomer", ()))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_join_request_with_anything_anywhere_is_refused(answered, data):
    """The secret is right and the key signs, so that every field is looked at."""
    book, invitation, request = answered
    content = put(
        request["request"], data.draw(st.sampled_from(list(places(request["request"])))),
        data.draw(JSON.filter(lambda value: value not in ("newcomer", []))),
    )  # fmt: skip
    try:
        signed = canonical(content)
    except MALFORMED:
        return
    document = {
        "request": content,
        "mac": hmac.new(invitation.secret, signed, "sha256").hexdigest(),
        "signature": sealed(identity(1).sign("join", signed)),
    }
    roster = federation(1, [])
    try:
        joined = book.accept(identity(0), roster, dumped(document))
    except PeerError:
        return
    member = joined.member(identity(1).id)  # it changed what a newcomer may choose
    assert (member.name, list(member.addresses)) == (content["name"], content["addresses"])
    entries = json.loads(book._path.read_bytes())
    entries[invitation.key]["used_by"] = ""
    book._path.write_text(json.dumps(entries))


@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda data: data.decode("latin-1")))
def test_an_address_is_read_or_refused(text):
    for candidate in (text, f"{text}:7400", f"a.{text}.b:7400", f"[{text}]:7400"):
        try:
            host, port = parse_address(candidate)
        except PeerError:
            continue
        assert 0 < port < 65536
        assert host.isascii()
        host.encode("idna")


@pytest.mark.parametrize(
    "bad",
    [
        "a..b:1", f"{'a' * 64}:1", f"{'a' * 63}.{'b' * 64}:1", ".a:1", "a.:1", "ä.example:1",
        f"{'a.' * 127}a:1", "::1:7400", "[::1:7400", "[x]:1", "a b:1", "a\x00:1", "a:1\n", "a:+1",
    ],
)  # fmt: skip
def test_hosts_that_no_resolver_takes_are_refused(bad):
    with pytest.raises(PeerError, match="host:port"):
        parse_address(bad)


def test_hosts_that_resolvers_take_are_accepted():
    for good in (f"{'a' * 63}.example:1", "10.0.0.1:7400", "site_a:1", "[fe80::1%eth0]:1"):
        parse_address(good)


@pytest.mark.parametrize(
    "data",
    [b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b"-1e999", b"9007199254740992",
     b'{"a":1,"a":2}', b"1" + b"0" * 5000, b"\xff",
     b"\xef\xbb\xbf1", "1".encode("utf-16"), b"[" * 100_000],
)  # fmt: skip
def test_json_that_others_read_differently_is_refused(data):
    with pytest.raises(MALFORMED):
        parse_json(data)


@given(JSON)
def test_strict_json_reads_what_everybody_reads(value):
    def plain(found):
        if isinstance(found, (list, dict)):
            inner = found.values() if isinstance(found, dict) else found
            return all(map(plain, inner))
        if isinstance(found, float):
            return math.isfinite(found)
        return not isinstance(found, int) or abs(found) < 2**53

    if plain(value):
        assert parse_json(dumped(value)) == value
    else:
        with pytest.raises(MALFORMED):
            parse_json(dumped(value))


@given(st.text(string.printable, max_size=40))
def test_relays_travel_in_tokens(name):
    relay = Relay("north", identity(3).certificate.decode(), ("relay.example:443", "[::1]:443"))
    invitation = Invitation(PAIR.founder, "", b"s" * 16, 7, relay)
    assert Invitation.read(invitation.token()) == invitation
    for wrong in (Relay(name + "/", relay.certificate, relay.addresses),
                  Relay("north", name, relay.addresses),
                  Relay("north", relay.certificate, (name,))):  # fmt: skip
        with pytest.raises(PeerError, match="no invitation"):
            Invitation.read(Invitation(PAIR.founder, "", b"s" * 16, 7, wrong).token())
