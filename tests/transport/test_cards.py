"""Cards: signed by their member, passed on by all, the newest kept; a partition shows as ages."""

import base64
import contextlib
import io
import itertools
import json
import time
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from peerloom.cli.peer_overview import describe_overview
from peerloom.peers.overview import members_of
from peerloom.transport.cards import LONGEST_CARD, Cards, entries
from peerloom.transport.frames import FrameError
from tests.federation import endpoint, federation, free_ports, identity, until

FACTS = {
    "round": 7, "rounds_per_second": 2.5, "status": "running", "version": "1", "loss": None,
    "audit": None,
}  # fmt: skip
FIVE = federation(5, [(k, (k + 1) % 5) for k in range(5)])


def cards_of(number, today=time.time):
    return Cards("r", time.monotonic, identity(number).sign, today)


def share(cards, number, **changes):
    said = {"member": identity(number).id, "incarnation": 1, "run": "r", "roster": 1, "links": []}
    cards.share({**FACTS, **said, **changes})


def ring(tmp_path, ports, **options):
    links = [(k, (k + 1) % 5) for k in range(5)] + [((k + 1) % 5, k) for k in range(5)]
    roster = federation(5, links, ports)
    return [endpoint(k, roster, tmp_path, ports[k], **options) for k in range(5)]


def test_every_peer_of_a_ring_sees_all_and_a_partition_shows_as_age(tmp_path):
    peers, counts = ring(tmp_path, free_ports(5)), itertools.count(1)
    for one in peers:
        one.start()
    try:
        for one in peers:
            one.share({**FACTS, "round": next(counts)})

        def rounds(one):
            return sorted(facts["round"] for facts, _ in one.cards())

        assert until(lambda: all(rounds(one) == [1, 2, 3, 4, 5] for one in peers), 8.0)
        # The first is cut off: the others hear of each other, and its card grows old.
        peers[0].close()
        gone, rest = peers[0].me, peers[1:]
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            for one in rest:
                one.share({**FACTS, "round": 9})
            time.sleep(0.1)
        for one in rest:
            assert until(lambda one=one: rounds(one) == [1, 9, 9, 9, 9])
            ages = {facts["member"]: age for facts, age in one.cards()}
            assert ages.pop(gone) >= 0.7
            assert max(ages.values()) < 8.0
            # On a busy machine a greeting may be lost; nothing was refused.
            assert not set(one.refusals()) - {"closed"}
    finally:
        for one in peers:
            one.close()


def body(*cards):
    return json.dumps(list(cards)).encode()


def signed(number, purpose="card", **changes):
    card = {
        **FACTS, "member": identity(number).id, "incarnation": 1, "run": "r", "roster": 1,
        "links": [], "n": 3, "at": 0.0, **changes,
    }  # fmt: skip
    text = json.dumps(card)
    return text, base64.b64encode(identity(number).sign(purpose, text.encode())).decode()


def test_forged_and_malformed_cards_are_refused():
    cards = cards_of(0)
    text, signature = signed(1)
    forged = {
        "another member's key": signed(2, member=identity(1).id),
        "a signature for another purpose": signed(1, "roster"),
        "a changed text": (text.replace('"round": 7', '"round": 8'), signature),
        "no signature": (text, ""),
        "half a signature": (text, signature[:-8]),
        "not base64": (text, "%%%"),
        "overlong": signed(1, status="x" * LONGEST_CARD),
        "no number": signed(1, round="7"),
        "infinite": (text.replace("2.5", "Infinity"), signature),
        "a huge number": signed(1, round=10**400),
        "a field too few": (text.replace('"audit": null, ', ""), signature),
        "links of another form": signed(1, links=[["a"]]),
        "beyond all floats": (text.replace("2.5", "1e999"), signature),
        "what a terminal obeys": signed(1, status="\x1b[2J"),
    }
    for card in forged.values():
        with pytest.raises(FrameError, match="card"):
            cards.take(entries(body(card)), FIVE)
    assert not cards.all(FIVE)
    cards.take(entries(body((text, signature))), FIVE)
    assert [card.facts["round"] for card, _ in cards.all(FIVE)] == [7]


def test_old_cards_and_those_of_strangers_are_read_past():
    cards = cards_of(0)
    for order in [(1, 3), (1, 2), (2, 1), (1, 9), (2, 1)]:
        cards.take(entries(body(signed(1, incarnation=order[0], n=order[1]))), FIVE)
    ((card, _),) = cards.all(FIVE)
    assert card.order == (2, 1)
    assert cards.version == 2
    cards.take(entries(body(signed(7))), FIVE)
    assert len(cards.all(FIVE)) == 1, "nobody of the roster"
    fewer = federation(1, [])
    assert not cards.all(fewer), "a member that goes is forgotten"


def test_a_card_of_an_earlier_run_does_not_hide_those_of_this_one():
    """Whoever kept it can show it again; its member has started the other run more often."""
    cards = cards_of(0)
    old = signed(1, run="before", incarnation=50, n=9000)
    assert cards.take(entries(body(old)), FIVE) == []
    assert not cards.all(FIVE)
    assert cards.take(entries(body(signed(1))), FIVE) == [(identity(1).id, (1, 3))]
    cards.take(entries(body(old)), FIVE)
    assert [card.facts["run"] for card, _ in cards.all(FIVE)] == ["r"]


def test_a_card_is_forgotten_after_a_day_and_no_clock_makes_it_young():
    now = [0.0]
    cards = Cards("r", lambda: now[0], today=lambda: 1000.0 + now[0])
    cards.take(entries(body(signed(1, at=1e9), signed(2, at=400.0))), FIVE)
    now[0] = 50.0
    ages = {card.facts["member"]: age for card, age in cards.all(FIVE)}
    assert ages == {identity(1).id: 50.0, identity(2).id: 650.0}
    now[0] = 86500.0
    assert not cards.all(FIVE)


def test_a_card_is_never_too_long_and_each_goes_once_over_a_link():
    cards, there = cards_of(0), {}
    share(cards, 0, links=[[f"peer{k:03}", "direct"] for k in range(200)])
    sent = cards.missing(there)
    ((text, _),) = entries(sent)
    assert 900 < len(text) <= LONGEST_CARD
    assert cards.missing(there) == b""
    share(cards, 0)
    assert cards.missing(there)
    assert cards.missing(there) == b""


@given(st.binary(max_size=300) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(
    lambda value: json.dumps(value).encode()
))  # fmt: skip
def test_any_body_gives_cards_or_a_frame_error(data):
    with contextlib.suppress(FrameError):
        cards_of(0).take(entries(data), FIVE)


def test_nothing_is_kept_of_cards_of_others_than_members():
    """A neighbour may invent as many as it likes."""
    cards = cards_of(0)
    invented = [signed(9, member=f"nobody-{number}") for number in range(64)]
    assert cards.take([*invented, signed(1), signed(9)], FIVE) == [(identity(1).id, (1, 3))]
    assert list(cards._known) == [identity(1).id]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
NAMES = ["n", "at", "incarnation", "run", "round", "rounds_per_second", "status", "links",
         "version", "roster", "loss", "audit"]  # fmt: skip


@given(st.sampled_from(NAMES), ANY)
@example("links", [{"a": "x", "b": "y"}])
@example("links", {"ab": ["x"]})
@example("at", -1.7e308)
@example("rounds_per_second", 1e308)
@example("run", "\x1b[2J")
def test_whatever_a_member_signs_is_refused_or_shown(name, value):
    """A card reaches every member: one that could not be shown would end the status of all."""
    cards = Cards("r", time.monotonic)
    try:
        cards.take([signed(1, **{name: value})], FIVE)
    except FrameError:
        return
    transport = SimpleNamespace(
        roster=FIVE, cards=lambda: [(card.facts, age) for card, age in cards.all(FIVE)]
    )
    members = json.loads(json.dumps(members_of(transport), allow_nan=False))
    console = Console(width=250, file=io.StringIO())
    console.print(describe_overview(members))
    shown = console.file.getvalue()
    assert "\x1b[2J" not in shown
    assert "peer-1" in shown
