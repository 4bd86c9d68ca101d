"""A roster whose time is over: nothing begins under it, and nothing that began ends by it."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from peerloom.core.events import Alarm, RosterChanged
from peerloom.errors import PeerError
from peerloom.peers.experiments import only_experiment
from peerloom.peers.federation import found_on_this_machine
from peerloom.peers.site import Site
from peerloom.peers.start import start_peer
from peerloom.transport import Home, Settings, join_request

pytestmark = pytest.mark.slow  # trains

FILE = """
rounds = 6
[graph]
name = "complete"
clients = 2
[problem]
name = "Quadratic"
A = [[[1.0]], [[1.0]]]
b = [[1.0], [2.0]]
[algorithm]
name = "DSpodFL"
lr = 0.1
"""
DAY = 86400
SITE = Site(settings=Settings(backoff=(0.02, 0.1)))


class Pair:
    """Two peers, and a clock that a test sets."""

    def __init__(self, root):
        file = root / "two.toml"
        file.write_text(FILE)
        self.exp = only_experiment(file)
        self.homes = found_on_this_machine(self.exp, root / "peers", file)
        self.end = self.homes[0].roster.expires
        self.now, self.events = 0.0, []

    def train(self, days, **changes):
        """Train with a clock that shows so many days after the roster's end; the rounds done."""
        self.now, self.events = self.end + days * DAY, []
        site = replace(SITE, clock=lambda: self.now, **changes)
        with ThreadPoolExecutor(2) as pool:
            ends = pool.map(
                lambda home: start_peer(home, self.exp, site, observers=[self.events.append]),
                self.homes,
            )
            return [end.t for end in ends]

    def heard(self, kind):
        return [event.text for event in self.events if isinstance(event, kind)]


@pytest.fixture
def pair(tmp_path):
    return Pair(tmp_path)


def test_no_run_begins_but_one_under_way_goes_on(pair):
    with pytest.raises(PeerError, match="A new run needs a roster whose time is not over"):
        pair.train(days=8)
    assert pair.train(days=6, pause=2) == [2, 2], "within the days of grace"
    assert pair.train(days=6, pause=4) == [4, 4]
    assert any("is good until" in text for text in pair.heard(RosterChanged))
    assert pair.train(days=1000, pause=5) == [5, 5], "it was begun, so it goes on"
    assert any("a run under way goes on" in text for text in pair.heard(Alarm))
    assert pair.train(days=-100_000) == [6, 6], "a clock that was set back does no harm"
    assert not pair.heard(Alarm)


def test_a_clock_that_jumps_while_peers_train_ends_nothing(pair):
    jumps = iter(range(10**9))
    site = replace(SITE, clock=lambda: pair.end + (-1) ** next(jumps) * 1e10)
    home = pair.homes[0]
    with pytest.raises(PeerError, match="A new run"):
        start_peer(home, pair.exp, replace(site, clock=lambda: pair.end + 1e10))
    with ThreadPoolExecutor(2) as pool:
        first = replace(SITE, clock=lambda: 0.0, pause=1)
        list(pool.map(lambda home: start_peer(home, pair.exp, first), pair.homes))
        ends = pool.map(lambda home: start_peer(home, pair.exp, site), pair.homes)
        assert [end.t for end in ends] == [6, 6]


def test_nobody_joins_and_a_renewed_roster_is_good_again(pair, tmp_path):
    founder, late = pair.homes[0], pair.end + 8 * DAY
    guest = Home.create(tmp_path / "guest", "guest", (), found=False)
    invitation = founder.invitations.invite(founder.identity, "", 1.0, now=late)
    request = join_request(guest.identity, invitation, "guest", ())
    with pytest.raises(PeerError, match="A newcomer needs a roster whose time is not over"):
        founder.invitations.accept(founder.identity, founder.roster, request, now=late)
    with pytest.raises(PeerError, match="Joining needs a roster whose time is not over"):
        guest.trust(founder.roster, now=late)
    assert not guest.founder
    renewed = founder.roster.amended(founder.identity, now=late)
    joined = founder.invitations.accept(founder.identity, renewed, request, now=late)
    assert guest.trust(joined, now=late).roster == joined
    assert joined.expires == int(late + 90 * DAY)
    assert founder.trust(founder.roster, now=late).roster.version == 2, (
        "members keep what they have"
    )
    assert time.time() < pair.end
