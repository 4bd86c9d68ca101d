"""`peerloom peer roster` with several founders, new keys, relays: as people use it."""

import json
import shutil
import socket
from contextlib import closing
from dataclasses import replace

import pytest

from peerloom.cli import console
from peerloom.errors import PeerError
from peerloom.transport import Home, Invitation, Link, Member, Relay, Roster, spelled_id
from peerloom.transport.proposals import differences, read_proposal
from tests.command import printed_by
from tests.federation import federation, free_ports, identity


@pytest.fixture
def sites(tmp_path, monkeypatch, capsys):
    """Run a `peer` command at a site; what it printed, as an object where it is one."""

    def run(site, *words, code=0):
        (tmp_path / site).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / site)
        return printed_by(monkeypatch, capsys, "peer", *words, code=code)

    run.root = tmp_path
    run.home = lambda site: Home.open(tmp_path / site / "peer")
    return run


def found(run, *others):
    """A federation of the first site and these, joined by files."""
    run("a", "init", "a", "--found")
    for name in others:
        run(name, "init", name)
        join(run, name)


def join(run, name, founder="a"):
    token = run(founder, "invite").splitlines()[0]
    run(name, "join", token, "--request", "../request.json")
    run(founder, "roster", "add", "../request.json")
    give(run, founder, name, "--founder", Invitation.read(token).founder)


def give(run, source, target, *more):
    """Bring the roster of one site to another."""
    run(source, "roster", "save", "../roster.json")
    return run(target, "roster", "take", "../roster.json", *more, "--json")


def two_of_three(run):
    """Founders a, b and c, of whom two must sign."""
    found(run, "b", "c")
    give(run, "a", "b")
    words = ["--founder", "a", "--founder", "b", "--founder", "c", "--threshold", "2"]
    proposed = run("a", "roster", "propose", "../next.json", *words, "--json")
    assert "1 of the 2 signatures" in proposed["lacks"]
    assert run("a", "roster", "show", "--json")["version"] == 3, "not before it is signed"
    said = run("b", "roster", "sign", "../next.json")
    assert "2 of these founders sign: a, b, c" in said
    assert "It is complete" in said
    for site in "abc":
        taken = run(site, "roster", "take", "../next.json", "--json")
        assert (taken["version"], taken["threshold"], len(taken["founders"])) == (4, 2, 3)


def test_two_of_three_founders_go_on_when_one_is_lost(sites):
    two_of_three(sites)
    # a is gone, with its key; b and c remove it from the founders and then from the roster
    words = ["--founder", "b", "--founder", "c", "--threshold", "1"]
    sites("b", "roster", "propose", "../without.json", *words)
    sites("c", "roster", "sign", "../without.json")
    for site in "bc":
        sites(site, "roster", "take", "../without.json")
    left = sites("c", "roster", "remove", "a", "--json")
    assert [member["name"] for member in left["members"]] == ["b", "c"]
    assert give(sites, "c", "b")["version"] == 6
    # a newcomer knows one founder only, and not the first
    sites("d", "init", "d")
    join(sites, "d", founder="c")
    assert sites("d", "roster", "show", "--json")["members"][2]["name"] == "d"
    assert sites.home("d").founder == sites.home("b").founder, "the federation keeps its name"
    assert give(sites, "c", "b")["version"] == 7
    sites("a", "roster", "take", "../without.json")
    assert "Only the founder" in sites("a", "roster", "renew", code=5)


def test_with_a_threshold_every_change_is_a_proposal(sites):
    two_of_three(sites)
    refusal = sites("a", "invite", "--listen", "127.0.0.1:1", code=5)
    assert "joins by files" in refusal
    token = sites("a", "invite").splitlines()[0]
    sites("d", "init", "d")
    sites("d", "join", token, "--request", "../request.json")
    said = sites("a", "roster", "add", "../request.json")
    assert "It is a proposal: peer/proposal.json" in said
    again = sites("a", "roster", "remove", "c", code=5)
    assert "is a founder" in again
    refusal = sites("a", "roster", "renew", code=5)
    assert "has signed another proposal of version 5" in refusal
    rival = sites("b", "roster", "renew", "--json")
    assert "has signed another proposal" in sites(
        "b", "roster", "sign", "../a/peer/proposal.json", code=5
    ), "a founder signs one roster of a version"
    assert rival["version"] == 5
    sites("b", "roster", "withdraw")
    shown = sites("b", "roster", "sign", "../a/peer/proposal.json", "--show")
    assert "Not signed: version 5" in shown
    assert "1 of the 2" in shown
    assert "new member d" in sites("b", "roster", "sign", "../a/peer/proposal.json")
    signed = sites.root / "signed.json"
    signed.write_bytes((sites.root / "a/peer/proposal.json").read_bytes())
    for site in "abc":
        assert sites(site, "roster", "take", "../signed.json", "--json")["version"] == 5
        assert not (sites.root / site / "peer" / "proposal.json").exists()
    sites("d", "roster", "take", "../signed.json", "--founder", sites.home("a").identity.id)
    assert "no proposal" in sites("c", "roster", "withdraw", code=5)


def test_a_spare_key_is_a_second_founder_without_further_signatures(sites):
    found(sites, "b")
    sites("safe", "init", "safe")
    give(sites, "a", "safe", "--founder", sites.home("a").identity.id)
    spare = sites.home("safe").identity.id
    words = ["--founder", "a", "--founder", spare, "--threshold", "1", "--json"]
    assert sites("a", "roster", "propose", "../next.json", *words)["version"] == 3
    sites("safe", "roster", "take", "../next.json")
    # a's disk is gone
    assert sites("safe", "roster", "renew", "--days", "30", "--json")["version"] == 4
    assert give(sites, "safe", "b")["version"] == 4


def test_what_is_no_proposal_is_not_signed(sites):
    two_of_three(sites)
    sites("a", "roster", "renew", "--days", "5")
    proposal = read_proposal((sites.root / "a/peer/proposal.json").read_bytes())
    old = sites.root / "old.json"
    old.write_bytes(Roster.found(sites.home("b").identity, "b").to_bytes())
    assert "Take the present roster first" in sites("b", "roster", "sign", "../old.json", code=5)
    document = json.loads(proposal.to_bytes())
    document["roster"]["log"][-1] = "0" * 64
    document["signatures"] = []
    old.write_text(json.dumps(document))
    assert "signed twice" in sites("b", "roster", "sign", "../old.json", code=6)
    document["signatures"] = json.loads(proposal.to_bytes())["signatures"]
    old.write_text(json.dumps(document))
    assert "was changed on its way" in sites("b", "roster", "sign", "../old.json", code=5)
    old.write_bytes(b"{}")
    assert "no proposal" in sites("b", "roster", "sign", "../old.json", code=5)
    sites("d", "init", "d")
    assert "no roster yet" in sites("d", "roster", "sign", "../a/peer/proposal.json", code=5)
    assert "bears 1 of the 2" in sites("b", "roster", "take", "../a/peer/proposal.json", code=5), (
        "a proposal is no roster"
    )


def test_a_member_gets_a_new_key_and_keeps_its_row(sites):
    found(sites, "b", "c")
    before = sites.home("b").identity
    asked = sites("b", "rekey", "../rekey.json", "--json")
    assert asked["was"] == before.id
    assert sites("b", "rekey", "../rekey.json", "--json") == asked, "asking again asks for the same"
    granted = sites("a", "roster", "rekey", "../rekey.json", "--json")
    assert granted["members"][1] | {"addresses": []} == {
        "row": 1, "name": "b", "id": asked["id"], "was": before.id, "addresses": [],
    }  # fmt: skip
    assert sites.home("b").identity == before, "until it has the roster"
    give(sites, "a", "b")
    assert sites.home("b").identity.id == asked["id"]
    assert not (sites.root / "b/peer/next").exists()
    refusal = sites("a", "roster", "rekey", "../rekey.json", code=5)
    assert "is no member" in refusal, "a request works once"
    assert "is a founder" in sites("a", "rekey", "../own.json", code=5)


def test_relays_and_time_stand_in_the_roster(sites):
    found(sites)
    sites("relay", "init", "r")
    words = ["--certificate", "../relay/peer/identity.crt", "--address", "relay.example:443"]
    shown = sites("a", "roster", "relay", "north", *words, "--json")
    assert [(relay["name"], relay["addresses"]) for relay in shown["relays"]] == [
        ("north", ["relay.example:443"])
    ]
    assert "certificate and an address" in sites("a", "roster", "relay", "south", code=2)
    (sites.root / "bad.crt").write_bytes(b"\xff nonsense")
    bad = ["--certificate", "../bad.crt", *words[2:]]
    assert "Relay 'bad' of the roster" in sites("a", "roster", "relay", "bad", *bad, code=5)
    assert "Relays: north" in sites("a", "roster", "show")
    assert sites("a", "roster", "relay", "north", "--remove", "--json")["relays"] == []
    assert "no relay 'north'" in sites("a", "roster", "relay", "north", "--remove", code=2)
    assert sites("a", "roster", "renew", "--speaks", "6", "--json")["speaks"] == 6
    assert "cannot be signed" in sites("a", "roster", "renew", "--speaks", "5", code=5)
    assert "cannot be signed" in sites("a", "roster", "renew", "--speaks", "99", code=5)


def test_invite_listens_before_it_prints_the_token(sites, monkeypatch, capsys):
    found(sites)
    port = free_ports(1)[0]
    with closing(socket.create_server(("127.0.0.1", port))):
        said = sites("a", "invite", "--listen", f"127.0.0.1:{port}", code=5)
    assert "Cannot listen" in said
    assert "peerloom-invitation." not in said
    assert not (sites.root / "a/peer/invitations.json").exists(), "nobody was invited"


def test_addresses_of_ipv6_are_shown_whole(sites, monkeypatch):
    """In brackets, and with a letter at the beginning, they look like markup."""
    monkeypatch.setattr(console.out, "width", 200)  # set when the module is first read
    sites("a", "init", "a", "--found", "--address", "[fd00::1]:7400", "--address", "[::1]:7400")
    assert "[fd00::1]:7400, [::1]:7400" in sites("a", "roster", "show")


def test_a_kit_says_what_comes_next(sites):
    found(sites, "b")
    sites("a", "kit", "make", "../kit.zip")
    assert "peer roster show" in sites("b", "kit", "open", "../kit.zip")
    sites("c", "init", "c")
    a = sites.home("a").identity.id
    assert "peer join TOKEN" in sites("c", "kit", "open", "../kit.zip", "--founder", a)
    assert "not the founder" in sites("b", "kit", "make", "../other.zip", code=5)


def test_differences_name_everything_that_a_proposal_changes(sites):
    two_of_three(sites)
    home = sites.home("a")
    changed = home.roster.amended(
        home.identity, run="r", threshold=1, file="a" * 64, speaks=7, new_epoch=True, now=0.0
    )
    text = "\n".join(differences(changed, home.roster))
    for part in ("1 of these founders", "a" * 64, "version 7", "new epoch", "1970-04-01"):
        assert part in text


def test_of_two_commands_at_once_the_second_changes_nothing(sites, monkeypatch):
    found(sites, "b", "c")
    trust = Home.trust

    def after_another(home, roster):
        monkeypatch.setattr(Home, "trust", trust)
        sites("a", "roster", "remove", "c")
        return trust(home, roster)

    monkeypatch.setattr(Home, "trust", after_another)
    said = sites("a", "roster", "remove", "b", code=PeerError.exit_code)
    assert "give it again" in said
    members = sites("a", "roster", "show", "--json")["members"]
    assert [member["name"] for member in members] == ["a", "b"]
    assert "Nothing was changed, removed or cut off" in sites("a", "audit", "check")


def test_a_newcomer_asks_again_when_a_proposal_came_to_nothing(sites):
    two_of_three(sites)
    for name in "de":
        token = sites("a", "invite").splitlines()[0]
        sites(name, "init", name)
        sites(name, "join", token, "--request", f"../{name}.json")
    sites("a", "roster", "add", "../d.json")
    assert "signed another proposal" in sites("a", "roster", "add", "../e.json", code=5)
    assert "may sign another" in sites("a", "roster", "withdraw")
    sites("a", "roster", "add", "../e.json")
    sites("a", "roster", "withdraw")
    sites("a", "roster", "add", "../d.json")
    # but the invitation is still good for one key only
    sites("f", "init", "f")
    sites("f", "join", token, "--request", "../f.json")
    home = sites.home("a")
    with pytest.raises(PeerError, match="was used by"):
        home.invitations.accept(home.identity, home.roster, (sites.root / "f.json").read_bytes())


def test_a_founder_restored_from_a_backup_signs_no_proposal_and_uses_up_no_invitation(sites):
    two_of_three(sites)
    token = sites("a", "invite").splitlines()[0]
    sites("a", "roster", "save", "../old.json")
    sites("b", "backup", "../b.backup")
    sites("a", "backup", "../a.backup")
    sites("c", "roster", "renew")
    for site in "ab":
        sites(f"{site}2", "restore", f"../{site}.backup")
    refused = sites("b2", "roster", "sign", "../c/peer/proposal.json", code=5)
    assert "restored from a backup" in refused
    assert len(json.loads((sites.root / "c/peer/proposal.json").read_bytes())["signatures"]) == 1
    sites("d", "init", "d")
    sites("d", "join", token, "--request", "../d.json")
    assert "restored from a backup" in sites("a2", "roster", "add", "../d.json", code=5)
    assert sites.home("a2").invitations.open(), "it is still good"


def test_a_founder_restored_from_a_backup_signs_no_version_twice(sites):
    """What it signed before the disk was lost, others have: both proposals would be complete."""
    two_of_three(sites)
    sites("a", "backup", "../a.backup")
    sites("a", "roster", "renew", "--days", "30")
    lost = sites.root / "lost.json"
    (sites.root / "a/peer/proposal.json").rename(lost)
    shutil.rmtree(sites.root / "a/peer")
    sites("a", "restore", "../a.backup")
    give(sites, "b", "a")
    for words in (["renew"], ["link", "a", "b", "--a", "1"]):
        assert "may have signed a proposal of version 5" in sites("a", "roster", *words, code=5)
    sites("b", "roster", "renew", "--days", "60")
    another = "../b/peer/proposal.json"
    assert "may have signed a proposal" in sites("a", "roster", "sign", another, code=5)
    sites("a", "roster", "sign", "../lost.json")  # it bears the signature already
    sites("a", "roster", "withdraw")
    sites("a", "roster", "sign", another)
    for site in "ac":
        assert sites(site, "roster", "take", another, "--json")["version"] == 5
    sites("c", "roster", "renew")
    sites("a", "roster", "sign", "../c/peer/proposal.json")


def test_a_newer_roster_ends_the_doubt_after_a_backup(sites):
    two_of_three(sites)
    sites("a", "backup", "../a.backup")
    shutil.rmtree(sites.root / "a/peer")
    sites("a", "restore", "../a.backup")
    give(sites, "b", "a")
    sites("b", "roster", "renew")
    sites("c", "roster", "sign", "../b/peer/proposal.json")
    sites("a", "roster", "take", "../b/peer/proposal.json")
    sites("a", "roster", "renew")


def test_only_a_roster_that_is_taken_makes_a_restored_folder_trusted(sites):
    two_of_three(sites)
    older = sites.root / "older.json"
    sites("a", "roster", "save", "../older.json")
    sites("a", "roster", "renew")
    sites("b", "roster", "sign", "../a/peer/proposal.json")
    for site in "ba":
        sites(site, "roster", "take", "../a/peer/proposal.json")
    sites("a", "backup", "../a.backup")
    sites("a2", "restore", "../a.backup")
    assert "older than the one here" in sites("a2", "roster", "take", "../older.json")
    assert sites.home("a2").unasked
    spoilt = json.loads(older.read_bytes())
    spoilt["roster"]["version"] = 9
    older.write_text(json.dumps(spoilt))
    sites("a2", "roster", "take", "../older.json", code=5)
    assert sites.home("a2").unasked
    sites("b", "roster", "save", "../new.json")
    sites("a2", "roster", "take", "../new.json")
    assert not sites.home("a2").unasked


@pytest.mark.parametrize("days", ["inf", "1e12", "4e3", "0", "-1", "nan"])
def test_no_period_makes_a_roster_that_cannot_be_read_again(sites, days):
    found(sites)
    sites("a", "roster", "renew", "--days", days, code=2)
    sites("a", "invite", "--hours", days.replace("4e3", "1e5"), code=2)
    assert sites("a", "roster", "show", "--json")["version"] == 1
    home = sites.home("a")
    with pytest.raises(PeerError, match="beyond 2"):
        home.trust(home.roster.amended(home.identity, days=1e12))
    assert Home.open(home.folder).roster.version == 1


def test_who_signs_sees_whatever_a_proposal_changes(sites):
    two_of_three(sites)
    home, b = sites.home("a"), sites.home("b")
    known = home.roster
    one, two, three = known.members

    def lines(**changes):
        return " / ".join(differences(known.amended(home.identity, **changes), known))

    assert "another order: a, c, b" in lines(members=(one, three, two))
    assert "b is called bob" in lines(members=(one, replace(two, name="bob"), three))
    assert "another run: other" in lines(run="other")
    thief = Member("b2", identity(5).certificate.decode(), was=two.id)
    assert f"b is called b2 / b2 has a new key: {thief.id}" in lines(members=(one, thief, three))
    assert "without c / the members' rows" in lines(members=(two, one))
    # A key with the same first group is found in hours: whoever is no member has a whole id.
    spare = identity(6)
    assert f"founders sign: a, {spelled_id(spare.id)}" in lines(founders=(one.id, spare.id))
    relay = Relay("relay", spare.certificate.decode(), ("127.0.0.1:1",))
    assert f"relay {spelled_id(spare.id)}" in lines(relays=(relay,))
    ids = [member.id for member in known.members]
    ring = [Link(ids[k], ids[(k + 1) % 3], 0.5) for k in range(3)]
    linked = known.with_links(home.identity, ring)
    heavier = [replace(ring[0], a=0.9), ring[1], Link(ids[0], ids[2], 0.5)]
    told = " / ".join(differences(linked.with_links(home.identity, heavier), linked))
    assert "3 links instead of 3" in told
    for part in ("a to b of weights 0.9, 0", "new a to c", "without c to a"):
        assert part in told
    assert "b to c" not in told
    rekeyed = replace(two, certificate=identity(5).certificate.decode(), was=two.id)
    same = [
        replace(
            link,
            **{end: rekeyed.id for end in ("source", "target") if getattr(link, end) == two.id},
        )
        for link in ring
    ]
    told = differences(
        linked.amended(home.identity, members=(one, rekeyed, three), links=tuple(same)), linked
    )
    assert "3 links instead of 3, or other weights: the same but for new keys" in " ".join(told)
    everyone = federation(9, [(k, m) for k in range(9) for m in range(9) if k != m])
    assert "and 48 more" in " ".join(differences(everyone.with_links(identity(0), ()), everyone))
    told = known.amended(home.identity)
    other = replace(told, log=("0" * 64, *told.log[1:]), signatures=())
    with pytest.raises(PeerError, match="another history"):
        b.proposals.sign(b.identity, other.signed(home.identity), known)
    short = replace(told, log=told.log[1:], signatures=())
    with pytest.raises(PeerError, match="another history"):
        b.proposals.sign(b.identity, short.signed(home.identity), known)


def test_what_founders_sign_is_in_their_audit_log(sites):
    two_of_three(sites)
    sites("a", "roster", "renew")
    sites("c", "roster", "sign", "../a/peer/proposal.json")
    sites("a", "roster", "withdraw")
    for site, said in (("a", [4, 5, None]), ("b", [4]), ("c", [5])):
        log = sites.home(site).audit
        lines = [line for line in log.lines() if line["what"] == "proposal"]
        assert [line["about"].get("version") for line in lines] == said
        assert all("sig" in line for line in lines)
        assert log.findings() == []


def test_words_that_name_nobody_are_told_before_anything_is_made(sites):
    two_of_three(sites)
    sites("d", "init", "d")
    words = ("a", "roster", "propose", "../p.json", "--founder")
    assert "'bb' is no member" in sites(*words, "bb", code=5)
    assert "check character" in sites(*words, "A" * 55 + "B", code=5)
    assert "is a founder" in sites("c", "rekey", "../rekey.json", code=5)
    assert not (sites.root / "c" / "peer" / "next").exists()
    assert not (sites.root / "p.json").exists()
