"""A member's new key: asked for by both keys, and of the two exactly one is ever admitted."""

import base64
import contextlib
import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom.errors import PeerError
from peerloom.transport import Home, Member
from peerloom.transport.audit import AuditLog
from peerloom.transport.documents import canonical
from peerloom.transport.files import StateFolder
from peerloom.transport.founders import Signature
from peerloom.transport.rekey import grant_rekey, rekey_request
from tests.federation import admitted, federation, identity

PAIR = federation(3, [(0, 1), (1, 2), (2, 0)])


def test_exactly_one_of_two_keys_is_admitted():
    old, new = identity(1), identity(11)
    assert (admitted(PAIR, old), admitted(PAIR, new)) == (True, False)
    granted = grant_rekey(identity(0), PAIR, rekey_request(old, new, PAIR))
    assert (admitted(granted, old), admitted(granted, new)) == (False, True)
    assert granted.succeeds(PAIR)
    member = granted.member("peer-1")
    assert (member.id, member.was, granted.row(new.id)) == (new.id, old.id, 1)
    assert granted.epoch == PAIR.epoch + 1, "for the next run"
    assert granted.sources(new.id) == [identity(0).id]
    assert granted.targets(new.id) == [identity(2).id]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 8)), max_size=8))
def test_over_any_history_each_member_has_one_key(history):
    """Requests for any new keys, also used ones: granted or refused, one key stays."""
    roster, keys = PAIR, {1: 1, 2: 2}
    for member, new in history:
        request = rekey_request(identity(keys[member]), identity(new), roster)
        try:
            roster = grant_rekey(identity(0), roster, request)
            keys[member] = new
        except PeerError:
            assert roster.has(identity(new).id) or identity(new).id in {
                other.was for other in roster.members if other.name != f"peer-{member}"
            } or new == keys[member]  # fmt: skip
        for number in range(1, 9):
            assert roster.has(identity(number).id) == (number in keys.values())
        assert [roster.row(identity(keys[k]).id) for k in (1, 2)] == [1, 2]


def test_requests_cannot_be_forged_or_used_again():
    old, new, thief = identity(1), identity(11), identity(12)
    request = json.loads(rekey_request(old, new, PAIR))

    def signed(content, *keys):
        found = [Signature.of(key, "rekey", canonical(content)).document() for key in keys]
        return {"rekey": content, "signatures": found}

    content = request["rekey"]
    stolen = {**content, "certificate": thief.certificate.decode()}
    founder = {**content, "was": identity(0).id}
    other = {**content, "federation": thief.id}
    for document, why in (
        (signed(content, old), "not signed by"),
        (signed(content, new), "not signed by"),
        (signed(content, old, thief), "not signed by"),
        (signed(stolen, thief), "not signed by"),
        (signed(stolen, new, thief), "not signed by"),
        ({**request, "rekey": stolen}, "not signed by"),
        (signed(other, old, new), "another federation"),
        (signed({**content, "roster": "0" * 64}, old, new), "does not follow"),
        (signed(founder, identity(0), new), "is a founder"),
        (signed({**content, "was": thief.id}, thief, new), "is no member"),
        ({**request, "more": 1}, "no request"),
        ({}, "no request"),
    ):
        with pytest.raises(PeerError, match=why):
            grant_rekey(identity(0), PAIR, json.dumps(document).encode())
    data = json.dumps(request).encode()
    granted = grant_rekey(identity(0), PAIR, data)
    with pytest.raises(PeerError, match="is no member"):
        grant_rekey(identity(0), granted, data)
    with pytest.raises(PeerError, match="Only the founder"):
        grant_rekey(identity(2), PAIR, data)


def test_a_crash_between_key_and_certificate_is_made_good(tmp_path):
    founder = Home.create(tmp_path / "a", "a", (), found=True)
    home = Home.create(tmp_path / "b", "b", (), found=False)
    joined = founder.roster.with_member(
        founder.identity, Member("b", home.identity.certificate.decode())
    )
    home = home.trust(joined)
    new = home.next_identity()
    assert home.next_identity() == new
    granted = grant_rekey(founder.identity, joined, rekey_request(home.identity, new, joined))
    (home.folder / "next" / "identity.key").replace(home.folder / "identity.key")  # and it dies
    assert Home.open(home.folder).identity.id == new.id
    assert not (home.folder / "next").exists()
    assert Home.open(home.folder).trust(granted).identity.id == new.id
    torn = Home.open(home.folder)
    (torn.folder / "next").mkdir()
    (torn.folder / "next" / "identity.key").write_bytes(b"half")  # it died while it made the key
    assert torn.trust(granted).identity.id == new.id
    assert torn.next_identity().id != new.id


def test_rosters_are_kept_whatever_else_is_spoilt(tmp_path):
    home = Home.create(tmp_path / "a", "a", (), found=True)
    home.next_identity()
    (home.folder / "next" / "identity.crt").write_bytes(b"spoilt")
    (home.folder / "proposal.json").write_bytes(b"{}")
    newer = home.roster.amended(home.identity)
    assert home.trust(newer).roster == newer
    with pytest.raises(PeerError, match=r"proposal\.json is spoilt.*roster withdraw"):
        home.proposals.keep(newer)
    with pytest.raises(PeerError):
        home.next_identity()
    home.proposals.withdraw()
    home.proposals.keep(newer)


def test_any_bytes_are_no_request():
    for data in (b"", b"\xff", b"[" * 50_000, b"null", bytes(70_000), base64.b64encode(b"x")):
        with pytest.raises(PeerError, match="no request for a new key"):
            grant_rekey(identity(0), PAIR, data)


def asked(tmp_path):
    """A founder, a member that asked for a new key, that key, and the roster that grants it."""
    founder = Home.create(tmp_path / "a", "a", (), found=True)
    home = Home.create(tmp_path / "b", "b", (), found=False)
    joined = founder.roster.with_member(
        founder.identity, Member("b", home.identity.certificate.decode())
    )
    home = home.trust(joined)
    new = home.next_identity()
    return home, new, grant_rekey(
        founder.identity, joined, rekey_request(home.identity, new, joined)
    )  # fmt: skip


def test_a_run_keeps_the_key_with_which_it_began(tmp_path):
    home, new, granted = asked(tmp_path)
    old, state = home.identity.id, StateFolder(home.state / "run")
    home.keep(granted)
    assert home.roster.has(new.id), "the roster is kept at once"
    assert Home.open(home.folder).identity.id == old
    home.audit.note("end", run="run", how="done")
    (state.folder / "began.json").write_text("{}")
    state.close()
    assert Home.open(home.folder).identity.id == old, "stopped, it may go on"
    assert home.unfinished_runs() == [state.folder]
    (state.folder / "status.json").write_text('{"status": "done"}')
    renewed = Home.open(home.folder)
    assert renewed.identity.id == new.id
    renewed.audit.note("start", run="next")
    assert renewed.audit.findings() == []
    assert not (home.folder / "next").exists()


def test_commands_at_once_change_the_key_once_and_leave_the_log_whole(tmp_path):
    """A line of the old key after the change, or a second change, would look like a forgery."""
    for n in range(10):
        home, new, granted = asked(tmp_path / str(n))
        (home.folder / "roster.json").write_bytes(granted.to_bytes())

        def command(home=home):
            with contextlib.suppress(PeerError):  # it may come between key and certificate
                found = Home.open(home.folder)
                return found.audit.note("export", file="model"), home.audit.note("late")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: command(), range(8)))
        assert Home.open(home.folder).identity.id == new.id
        assert Home.open(home.folder).audit.findings() == []


def test_a_full_disk_leaves_the_old_key_until_the_change_can_be_noted(tmp_path, monkeypatch):
    home, new, granted = asked(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "audit.jsonl")

    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "_append", full)
        assert home.trust(granted).identity.id == home.identity.id
    renewed = Home.open(home.folder)
    assert renewed.identity.id == new.id
    renewed.audit.note("start", run="next")
    assert renewed.audit.findings() == []


def test_a_certificate_of_another_key_never_takes_the_place_of_the_own(tmp_path):
    home, new, granted = asked(tmp_path)
    (home.folder / "next" / "identity.key").unlink()  # lost, or not restored
    assert Home.open(home.folder).identity.id == home.identity.id
    assert home.trust(granted).identity.id == home.identity.id
    assert home.next_identity().id != new.id
    assert Home.open(home.folder).identity.id == home.identity.id


def test_a_roster_is_kept_where_folders_lie_in_place_of_files(tmp_path):
    home = Home.create(tmp_path / "a", "a", (), found=True)
    (home.folder / "proposal.json").mkdir()
    (home.folder / "next" / "identity.crt").mkdir(parents=True)
    (home.folder / "next" / "identity.key").mkdir()
    assert home.trust(home.roster.amended(home.identity)).roster.version == 2
