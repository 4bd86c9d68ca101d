"""Cards without end, of one member or of many: no honest peer is cut off for passing them on."""

import base64
import json
import time

import pytest

from peerloom.transport import Settings, cards
from peerloom.transport.cards import LONGEST_CARD, Cards, entries
from peerloom.transport.frames import FrameError
from peerloom.transport.links import LinkTable
from peerloom.transport.schemas import LARGEST_BODY, Kind
from tests.doubles.memory import MemoryNetwork
from tests.federation import RUN, federation, identity

FACTS = {
    "round": 7, "rounds_per_second": 2.5, "status": "running", "version": "1", "loss": None,
    "audit": None, "incarnation": 1, "run": RUN.run_id, "roster": 1, "links": [],
}  # fmt: skip


def signed(number, n, **changes):
    text = json.dumps({**FACTS, "member": identity(number).id, "n": n, "at": 0.0, **changes})
    return text, base64.b64encode(identity(number).sign("card", text.encode())).decode()


def both_ways(*pairs):
    return [pair for a, b in pairs for pair in ((a, b), (b, a))]


def bring(table: LinkTable, card):
    """As another neighbour might have brought it."""
    table.cards.take([card], table.newest)
    for talk in table.greetings.all():
        table.wake(talk.peer)


@pytest.fixture
def verified(monkeypatch):
    """How many signatures of cards were verified."""
    found, real = [0], cards.certificate_verifies

    def counted(*args):
        found[0] += 1
        return real(*args)

    monkeypatch.setattr(cards, "certificate_verifies", counted)
    return found


@pytest.mark.parametrize(
    ("members", "talkers", "every", "seconds"),
    [
        pytest.param(5, 1, 0.05, 60, id="one without end"),
        pytest.param(170, 166, 10.0, 100, id="many honest ones", marks=pytest.mark.slow),
        pytest.param(40, 36, 0.5, 30, id="all without end", marks=pytest.mark.slow),
    ],
)
def test_no_flow_of_cards_makes_honest_peers_cut_each_other_off(
    verified, members, talkers, every, seconds
):
    """They come in at two peers in turns, and go over a link between two others."""
    roster = federation(members, both_ways((0, 2), (1, 2), (2, 3)))
    network = MemoryNetwork(roster, RUN, 1, settings=Settings())
    peers = [network.endpoint(identity(number).id) for number in range(4)]
    for one in peers:
        one.start()
    network.pass_time(1.0)
    tables = [network.drivers[one.me].table for one in peers]
    bucket = tables[3].greetings.budget(peers[2].me)._buckets["cards"]
    bucket._level /= 2  # whatever was before
    least = 1.0
    for n in range(int(seconds / every)):
        for number in range(4, 4 + talkers):
            bring(tables[n % 2], signed(number, n))
            network.pass_time(every / talkers)
        least = min(least, bucket._level / bucket._burst)
    network.pass_time(5.0)
    for one in peers:
        assert not one.refusals()
        assert all(link.up and not link.reconnects for link in one.links())
    assert least > 0.2
    ages = [card.facts["n"] for card in tables[3].cards._known.values()]
    assert len(ages) == talkers
    assert min(ages) >= n - 10 / every, "what is shown is not old"
    assert verified[0] <= 4 * talkers * (4 + (seconds + 10) / 4)


def test_a_line_that_breaks_every_second_is_no_flood_of_cards():
    """Over each new connection all cards go once more."""
    roster = federation(100, both_ways((0, 1)))
    network = MemoryNetwork(roster, RUN, 1, settings=Settings())
    a, b = (network.endpoint(identity(number).id) for number in range(2))
    a.start(), b.start()
    table = network.drivers[a.me].table
    for number in range(100):
        bring(table, signed(number, 1))
    for _ in range(60):
        network.pass_time(1.0)
        assert len(network.drivers[b.me].table.cards._known) == 100
        for line in list(network.drivers[a.me].lines):
            line.break_("closed")
    assert not a.refusals() | b.refusals()


def test_cards_cross_a_federation_in_a_second_for_each_link():
    """A line of eight; each makes a card every ten seconds, at its own time."""
    count = 8
    roster = federation(count, both_ways(*((k, k + 1) for k in range(count - 1))))
    network = MemoryNetwork(roster, RUN, 1, settings=Settings())
    peers = [network.endpoint(identity(number).id) for number in range(count)]
    for number, one in enumerate(peers):
        one.start()
        table = network.drivers[one.me].table
        table.cards = Cards(RUN.run_id, table.clock, identity(number).sign, today=table.clock)
    said = {key: FACTS[key] for key in FACTS.keys() - {"incarnation", "run", "roster", "links"}}
    for second in range(60):
        for number, one in enumerate(peers):
            if second % 10 == number:
                one.share(said)
        network.pass_time(1.0)
        if second >= 10 + count:
            for one in peers:
                ages = [age for _, age in one.cards()]
                assert len(ages) == count
                assert max(ages) < 10 + 1.2 * (count - 1)


def test_a_member_uses_up_its_own_pace_and_nobody_else_s():
    now = [0.0]
    one, two = signed(1, 1), signed(2, 1)
    book = Cards(RUN.run_id, lambda: now[0])
    roster = federation(3, [])
    for n in range(2, 100):
        book.take([signed(1, n)], roster)
    for _ in range(20):
        with pytest.raises(FrameError):
            book.take([(two[0], one[1])], roster)
    book.take([two], roster)
    shown = {card.facts["member"]: card.facts["n"] for card, _ in book.all(roster)}
    assert shown == {identity(1).id: 5, identity(2).id: 1}
    now[0] = 4.0
    book.take([signed(1, 100), signed(1, 101)], roster)
    assert {card.facts["n"] for card, _ in book.all(roster)} == {100, 1}


def test_own_cards_are_made_no_faster_than_others_take_them():
    book = Cards(RUN.run_id, lambda: 0.0, identity(0).sign)
    for _ in range(50):
        book.share({**FACTS, "member": identity(0).id})
    assert book.version == 4


@pytest.mark.parametrize("longest", [LARGEST_BODY[Kind.CARDS], 20_000])
def test_a_frame_of_the_longest_cards_is_never_too_long(monkeypatch, longest):
    """Every quote and backslash of a card is doubled in a frame."""
    monkeypatch.setattr(cards, "LARGEST_BODY", {Kind.CARDS: longest})
    roster, book, there = federation(70, []), Cards(RUN.run_id, time.monotonic), {}
    for number in range(70):
        room = LONGEST_CARD - len(signed(number, 1, status="")[0])
        book.take([signed(number, 1, status='"' * (room // 2))], roster)
    bodies = list(iter(lambda: book.missing(there), b""))
    assert max(map(len, bodies)) <= longest
    assert min(map(len, bodies[:-1])) > 0.8 * longest, "together, as far as they fit"
    assert sum(len(entries(body)) for body in bodies) == 70


@pytest.mark.parametrize(
    "body",
    [b"[" + b" " * 100_000 + b"]", json.dumps([["{}", "A" * 129]]).encode()],
    ids=["blanks", "a long signature"],
)
def test_nothing_but_cards_comes_in_a_frame_of_cards(body):
    """A budget counts cards: what costs more than its cards is refused."""
    with pytest.raises(FrameError, match="card"):
        entries(body)
