"""Roster format 2: certificates in one form, founders who hand over, a log that shows forks."""

import datetime
import json
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom.errors import PeerError
from peerloom.transport import Home, Identity, Member, Relay, Roster, RosterForkError
from peerloom.transport.certificate import check_certificate, id_of
from peerloom.transport.documents import canonical, sealed
from peerloom.transport.founders import Head, Signature
from peerloom.transport.rosterform import LONGEST_LOG
from tests.federation import admitted, federation, identity

PAIR = federation(2, [(0, 1)])
DAY = 86400


def certificate(key=None, *, subject=None, issuer=None, signer=None, extensions=(), ski=None):
    """A certificate like ours, but for what is given."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    own = id_of(key.public_key())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject or own)])
    by = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer or subject or own)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    if ski is not False:
        named = ski or x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(named, critical=False)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    made = builder.sign(signer or key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


def older_certificate(key):
    """The form of rosters of format 1."""
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"peerloom {id_of(key.public_key())[:7]}")]
    )
    now = datetime.datetime.now(datetime.UTC)
    uses = dict.fromkeys(
        (
            "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
            "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
        ),
        False,
    )  # fmt: skip
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, **uses), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    return made.public_bytes(serialization.Encoding.PEM).decode()


# -- certificates


OTHER = ec.generate_private_key(ec.SECP256R1())
CA = (x509.BasicConstraints(ca=True, path_length=None), True)
NOTE = (
    x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"x" * 48_000),
    False,
)
FORGED = {
    "the Subject of another member": certificate(subject=identity(0).id),
    "another issuer": certificate(issuer=identity(0).id),
    "signed by another key": certificate(signer=OTHER),
    "a certificate authority": certificate(extensions=[CA]),
    "another curve": certificate(ec.generate_private_key(ec.SECP384R1())),
    "64 KB": certificate(extensions=[NOTE]),
    "another key identifier": certificate(ski=x509.SubjectKeyIdentifier(b"x" * 20)),
    "no key identifier": certificate(ski=False),
    "a name for hosts": certificate(
        extensions=[(x509.SubjectAlternativeName([x509.DNSName("a.example")]), False)]
    ),
    "the older form with the name of another": certificate(
        subject=f"peerloom {identity(0).id[:7]}"
    ),
    "two certificates": certificate() + certificate(),
    "words before it": "hello\n" + certificate(),
    "nothing": "",
}


WHY = {
    "another issuer": "its issuer is another",
    "64 KB": "characters",
    "the Subject of another member": "its Subject is not the id of its key",
    "a certificate authority": "other extensions",
    "another curve": "P-256",
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_certificate_is_refused_and_its_member_named(what):
    why = f"Member 'mallory' of the roster.*{WHY.get(what, '')}"
    with pytest.raises(PeerError, match=why):
        replace(PAIR, members=(*PAIR.members, Member("mallory", FORGED[what])))
    document = json.loads(PAIR.to_bytes())
    document["roster"]["members"][1]["certificate"] = FORGED[what]
    with pytest.raises(PeerError):
        Roster.from_bytes(json.dumps(document).encode(), PAIR.founder)
    with pytest.raises(PeerError, match="Relay 'r' of the roster"):
        replace(PAIR, relays=(Relay("r", FORGED[what], ("host:1",)),))


def test_two_members_never_share_a_subject(monkeypatch):
    """In the older form it has seven characters of the id, which a patient thief can match."""
    monkeypatch.setattr("peerloom.transport.rosterform.certificate_subject", lambda text: b"same")
    with pytest.raises(PeerError, match="one Subject"):
        replace(PAIR, run="again")


def test_our_own_certificates_and_those_of_before_are_accepted():
    check_certificate(certificate())
    check_certificate(identity(3).certificate.decode())
    check_certificate(older_certificate(OTHER))


def identity_of(folder, key, certificate):
    """A peer's key with this certificate."""
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "identity.key").touch(0o600)
    (folder / "identity.key").write_bytes(secret)
    (folder / "identity.crt").write_text(certificate)
    return Identity.load(folder)


def test_peers_with_certificates_of_both_forms_meet(tmp_path):
    old = identity_of(tmp_path, OTHER, older_certificate(OTHER))
    mixed = replace(PAIR, members=(*PAIR.members, Member("old", old.certificate.decode())))
    assert admitted(mixed, old)
    assert admitted(mixed, identity(1), by=old)
    assert not admitted(PAIR, old)


@settings(max_examples=200)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_of_a_certificate_passes(place, change):
    data = bytearray(identity(1).certificate)
    data[place % len(data)] ^= change
    with pytest.raises((PeerError, UnicodeDecodeError)):
        check_certificate(data.decode())


def test_a_stranger_s_certificates_are_not_looked_at(monkeypatch):
    """Reading them is the dearest part of reading a roster."""
    document = json.loads(PAIR.to_bytes())
    document["roster"]["members"] += [
        {"name": f"m{k}", "certificate": FORGED["64 KB"], "addresses": [], "was": ""}
        for k in range(20)
    ]
    looked = []
    monkeypatch.setattr("peerloom.transport.rosterform.check_certificate", looked.append)
    with pytest.raises(PeerError, match="signature"):
        Roster.from_bytes(json.dumps(document).encode(), PAIR.founder)
    assert not looked
    Roster.from_bytes(PAIR.to_bytes(), PAIR.founder)
    assert len(looked) == 2


# -- format 1


def of_format_1(roster, key, **changes):
    """The same roster as its founder signed it before there was format 2."""
    content = {
        "format": 1,
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
        **changes,
    }
    signature = key.sign("roster", canonical(content))
    return json.dumps({"roster": content, "signature": sealed(signature)}).encode()


def test_format_1_is_read_and_the_next_version_is_of_format_2():
    old = Roster.from_bytes(of_format_1(PAIR, identity(0)), PAIR.founder)
    assert (old.format, old.founders, old.threshold, old.expires) == (1, (PAIR.founder,), 1, 0)
    assert Roster.from_bytes(old.to_bytes(), PAIR.founder) == old, "it can be passed on"
    second = Roster.from_bytes(
        of_format_1(replace(PAIR, version=2, log=(old.hash,)), identity(0)), PAIR.founder
    )
    assert second.succeeds(old)
    new = second.amended(identity(0))
    assert (new.format, new.previous) == (2, second.hash)
    read = Roster.from_bytes(new.to_bytes(), PAIR.founder)
    assert read == new
    assert new.succeeds(second)
    assert new.succeeds(old), "versions of format 1 kept no log"
    back = Roster.from_bytes(
        of_format_1(replace(PAIR, version=9, log=("0" * 64,)), identity(0)), PAIR.founder
    )
    with pytest.raises(PeerError, match="older format"):
        back.succeeds(new)


def test_a_folder_with_a_roster_of_format_1_is_opened_and_goes_on(tmp_path):
    home = Home.create(tmp_path / "a", "a", (), found=True)
    file = home.folder / "roster.json"
    file.write_bytes(of_format_1(home.roster, home.identity))
    old = Home.open(home.folder).roster
    assert (old.format, old.founder) == (1, home.identity.id)
    assert home.trust(old.amended(home.identity)).roster.format == 2
    assert json.loads(file.read_bytes())["roster"]["format"] == 2


def test_a_forged_roster_of_format_1_is_refused():
    for key, changes in ((identity(1), {}), (identity(0), {"founder": identity(1).id})):
        with pytest.raises(PeerError):
            Roster.from_bytes(of_format_1(PAIR, key, **changes), PAIR.founder)
    data = of_format_1(PAIR, identity(0))
    with pytest.raises(PeerError, match="signature"):
        Roster.from_bytes(data.replace(b'"epoch": 0', b'"epoch": 1'), PAIR.founder)


def relay(number):
    certificate = identity(number).certificate.decode()
    return Relay(f"relay-{number}", certificate, ("relay.example:443", "[::1]:443"))


def test_every_field_is_kept_by_the_file():
    whole = PAIR.amended(
        identity(0),
        now=1000.0,
        relays=(relay(7),),
        speaks=7,
        run="r",
        spec="s",
        file="a" * 64,
        members=(PAIR.members[0], replace(PAIR.members[1], was=identity(5).id)),
    )
    read = Roster.from_bytes(whole.to_bytes(), PAIR.founder)
    assert read == whole
    assert (read.relays, read.speaks, read.expires) == ((relay(7),), 7, 1000 + 90 * DAY)
    assert (read.members[1].was, read.log) == (identity(5).id, (PAIR.hash,))


@pytest.mark.parametrize(
    "change",
    [
        {"relays": tuple(relay(k) for k in range(4))},
        {"relays": (relay(3), relay(3))},
        {"relays": (replace(relay(3), addresses=()),)},
        {"relays": (replace(relay(3), addresses=("no port",)),)},
        {"founders": (PAIR.founder, PAIR.founder)},
        {"founders": ("x",)},
        {"founders": tuple(identity(k).id for k in range(17))},
        {"threshold": 0},
        {"threshold": 2},
        {"log": ("0" * 64,)},
        {"version": 0},
        {"version": 2},
        {"members": (PAIR.members[0], replace(PAIR.members[1], was=identity(0).id))},
        {"members": (PAIR.members[0], replace(PAIR.members[1], was="x"))},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_fields_that_make_no_sense_are_refused(change):
    with pytest.raises(PeerError):
        replace(PAIR, **change)


# -- the log


def versions(count, roster=PAIR, **changes):
    """So many versions after a roster."""
    for _ in range(count):
        roster = roster.amended(identity(0), now=0.0, **changes)
    return roster


@pytest.mark.parametrize("back", [1, 2, 63, 64, 65, LONGEST_LOG - 1, LONGEST_LOG])
def test_a_fork_is_found_far_back(back):
    mine = PAIR.amended(identity(0), now=0.0, run="mine")
    other = PAIR.amended(identity(0), now=0.0, run="other")
    grown = versions(back, mine)
    assert grown.version - mine.version == back
    assert grown.succeeds(mine)
    with pytest.raises(RosterForkError, match="signed twice"):
        grown.succeeds(other)


def test_a_version_too_far_back_is_refused_with_the_way_out():
    beyond = versions(LONGEST_LOG + 1)
    between = versions(500)
    assert len(beyond.log) == LONGEST_LOG
    with pytest.raises(PeerError, match="take that first") as refusal:
        beyond.succeeds(PAIR)
    assert not isinstance(refusal.value, RosterForkError)
    assert between.succeeds(PAIR)
    assert beyond.succeeds(between)


def test_a_log_that_was_shortened_is_a_fork():
    third = versions(3)
    short = replace(third, log=third.log[-1:]).signed(identity(0))
    with pytest.raises(RosterForkError):
        short.succeeds(PAIR)


# -- founders


def handed_over(roster, founders, threshold, signers):
    """The next version, with these founders, signed by these."""
    ids = tuple(identity(k).id for k in founders)
    return amended(roster, signers, founders=ids, threshold=threshold)


def amended(roster, signers, **changes):
    """The next version, signed by these."""
    first, *more = signers
    roster = roster.amended(identity(first), now=0.0, **changes)
    for key in more:
        roster = roster.signed(identity(key))
    return roster


THREE = handed_over(PAIR, [0, 1, 2], 2, [0, 1])


def test_a_change_of_founders_needs_the_old_and_the_new():
    assert not THREE.lacks
    assert THREE.succeeds(PAIR)
    THREE.verify(PAIR.founder)
    only_old = handed_over(PAIR, [0, 1, 2], 2, [0])
    assert "1 of the 2" in only_old.lacks
    with pytest.raises(PeerError, match="roster sign"):
        only_old.succeeds(PAIR)
    with pytest.raises(PeerError, match="Only the founder"):
        handed_over(PAIR, [1, 2], 2, [3])
    only_new = handed_over(PAIR, [1, 2], 2, [1, 2])
    assert "0 of the 1" in only_new.lacks
    for wrong in (only_new, only_old):
        with pytest.raises(PeerError):
            wrong.succeeds(PAIR)
        with pytest.raises(PeerError):
            wrong.verify(PAIR.founder)


def test_two_of_three_go_on_without_the_first():
    next = amended(THREE, [1, 2], run="next")
    assert next.succeeds(THREE)
    next.verify(PAIR.founder)
    assert Roster.from_bytes(next.to_bytes(), PAIR.founder) == next
    without = handed_over(next, [1, 2], 1, [1, 2])
    left = amended(without, [2], members=PAIR.members[1:], links=())
    assert left.succeeds(next)
    assert left.succeeds(PAIR), "who was away all the time follows the changes"
    left.verify(PAIR.founder)
    left.verify(identity(2).id)
    assert left.founder == PAIR.founder, "the federation keeps its name"
    alone = amended(THREE, [0], run="alone")
    with pytest.raises(PeerError, match="1 of the 2"):
        alone.succeeds(THREE)


def test_a_key_that_is_no_longer_a_founders_signs_nothing():
    without = handed_over(THREE, [1, 2], 1, [1, 2])
    with pytest.raises(PeerError, match="Only the founder"):
        without.amended(identity(0)).amended(identity(0))
    content = replace(without, version=without.version + 1, log=(*without.log, without.hash))
    forged = replace(
        content, signatures=(Signature.of(identity(0), "roster", content.head.signed_bytes),)
    )
    with pytest.raises(PeerError, match="0 of the 1"):
        forged.succeeds(without)
    thief = replace(forged, founders=(identity(0).id,), changes=(), signatures=())
    thief = thief.signed(identity(0))
    thief.verify(identity(0).id)
    for known in (without, THREE):
        with pytest.raises(PeerError):
            thief.succeeds(known)


def test_signatures_are_counted_by_keys():
    alone = amended(THREE, [0], run="alone")
    doubled = replace(
        alone,
        signatures=(
            *alone.signatures,
            Signature.of(identity(0), "roster", alone.head.signed_bytes),
        ),
    )
    stranger = replace(
        alone,
        signatures=(
            *alone.signatures,
            Signature.of(identity(5), "roster", alone.head.signed_bytes),
        ),
    )
    wrong = replace(
        alone,
        signatures=(
            *alone.signatures,
            Signature(identity(1).certificate.decode(), alone.signatures[0].value),
        ),
    )
    for forged, why in ((doubled, "by one key"), (stranger, "1 of the 2"), (wrong, "is wrong")):
        with pytest.raises(PeerError, match=why):
            forged.verify(PAIR.founder)


def test_changes_cannot_be_left_out_moved_or_taken_from_another_federation():
    second = handed_over(THREE, [1, 2, 3], 2, [1, 2])
    last = amended(second, [2, 3], run="last")
    assert len(last.changes) == 2
    assert last.succeeds(PAIR)
    other = handed_over(federation(1, [], [1], expires=5), [0, 1, 2], 1, [0, 1])
    for changes in ((), last.changes[:1], last.changes[1:], last.changes[::-1], other.changes):
        with pytest.raises(PeerError):
            replace(last, changes=changes).succeeds(PAIR)
    with pytest.raises(PeerError):
        replace(last, changes=last.changes[1:]).verify(PAIR.founder)


@pytest.mark.parametrize("several", [False, True])
def test_nobody_who_passes_a_roster_on_puts_in_changes_of_founders(several):
    """They travel beside the signed content: one that nobody checks would freeze the federation."""
    member = identity(2)
    roster = federation(3, [(0, 1)])
    if several:
        both = (identity(0).id, identity(1).id)
        roster = roster.amended(identity(0), founders=both, threshold=2).signed(identity(1))
    for _ in range(3):
        roster = roster.amended(identity(0))
        roster = roster.signed(identity(1)) if several else roster
    assert not roster.lacks
    honest = json.loads(roster.to_bytes())
    unsigned = Head(roster.founder, 3, (member.id,), 1, "0" * 64)
    own = replace(unsigned, signatures=(Signature.of(member, "roster", unsigned.signed_bytes),))
    for forged in (unsigned, own):
        changes = [*honest["changes"], forged.document()]
        data = json.dumps({**honest, "changes": changes}).encode()
        with pytest.raises(PeerError, match="Version 3 of the roster bears 0 of the"):
            Roster.from_bytes(data, roster.founder)
        with pytest.raises(PeerError, match="Version 3 of the roster bears 0 of the"):
            replace(roster, changes=(*roster.changes, forged)).verify(roster.founder)
    assert Roster.from_bytes(json.dumps(honest).encode(), roster.founder) == roster


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_history_of_founders_can_be_followed_from_anywhere(data):
    """Whatever founders hand over to whomever: all versions before lead to the last one."""
    seen, councils = [PAIR], [([0], 1)]
    for _ in range(data.draw(st.integers(1, 5))):
        founders, threshold = councils[-1]
        if data.draw(st.booleans()):
            new = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True))
            limit = data.draw(st.integers(1, len(new)))
        else:
            new, limit = founders, threshold
        signers = [
            *founders[:threshold],
            *(k for k in new[:limit] if k not in founders[:threshold]),
        ]
        seen.append(handed_over(seen[-1], new, limit, signers))
        councils.append((new, limit))
        some = data.draw(st.sets(st.sampled_from(signers)))
        kept = tuple(s for s in seen[-1].signatures if s.id in {identity(k).id for k in some})
        part = replace(seen[-1], signatures=kept)
        if len(some & set(founders)) >= threshold and len(some & set(new)) >= limit:
            assert part.succeeds(seen[-2])
            assert not part.lacks
        else:
            assert part.lacks
            with pytest.raises(PeerError, match="bears"):
                part.succeeds(seen[-2])
    last = Roster.from_bytes(seen[-1].to_bytes(), PAIR.founder)
    for known in seen[:-1]:
        assert last.succeeds(known)


# -- time


def test_a_roster_expires_with_a_warning_before_and_days_of_grace():
    roster = PAIR.amended(identity(0), now=0.0)
    end = 90 * DAY
    assert roster.expires == end
    assert roster.warning(end - 15 * DAY) == ""
    assert "good until 1970-04-01" in roster.warning(end - 13 * DAY)
    assert not roster.expired(end + 6 * DAY)
    roster.check_time(end + 6 * DAY, "A run")
    assert roster.expired(end + 8 * DAY)
    assert "a run under way goes on" in roster.warning(end + 8 * DAY)
    with pytest.raises(PeerError, match="A run needs a roster whose time is not over"):
        roster.check_time(end + 8 * DAY, "A run")
    for now in (-1e12, 0.0, 1e12, 1e18):
        assert roster.expired(now) == (now > end)
        assert isinstance(roster.warning(now), str)
    assert not PAIR.expired(1e18), "rosters of format 1 did not expire"
    renewed = roster.amended(identity(0), now=end + 20 * DAY)
    assert renewed.succeeds(roster)
    assert not renewed.expired(end + 21 * DAY)
