"""Rosters that change while peers run: one joins, one is removed, a fork, one comes back."""

from __future__ import annotations

import hashlib
import signal
import time

from peerloom.config import spec_hash
from peerloom.peers.status import read_status
from peerloom.transport import Home, Link, Member, Roster

from ..ends import free_ports, until
from ..figures import Figure, Stage, at_most, exactly
from ..peers import Peers, experiment

__all__ = ["changed"]

_GONE = 2


def changed(stage: Stage) -> list[Figure]:
    """Four train; a fifth joins; the third is removed, tries to return, is in the next run."""
    exp = experiment(rounds=10**6, rule="DSpodFL")
    with Peers(exp, stage.folder / "first", "--dead", "3") as peers:
        stage.say("starting four peers")
        peers.start_all()
        peers.reach(20)
        founder, key = peers.homes[0], peers.homes[0].identity
        guest = Home.create(
            stage.folder / "guest", "guest", (f"127.0.0.1:{free_ports(1)[0]}",), found=False
        )
        joined = founder.roster.with_member(key, _member(guest))
        stage.say("a fifth joins")
        at = time.time()
        founder.trust(joined)
        spread = until(
            lambda: all(_version(peers, row) == joined.version for row in range(4)), 30.0
        )
        spreading = time.time() - at
        stage.say("the third is removed")
        left = joined.without_member(key, peers.homes[_GONE].name)
        at = time.time()
        founder.trust(left)
        cut = max(peers.heard(row, "down", about=_GONE, since=at) for row in (1, 3)) - at
        stage.say("a roster is signed twice")
        fork = joined.without_member(key, peers.homes[1].name)
        # Otherwise the peer may overwrite the fork with the true roster.
        until(lambda: peers.homes[3].roster.version == left.version, 30.0)
        (peers.homes[3].folder / "roster.json").write_bytes(fork.to_bytes())
        refused = until(lambda: bool(_status(peers, 3)["refusals"].get("roster_fork")), 30.0)
        kept = until(lambda: {_version(peers, row) for row in (0, 1, 3)} == {left.version}, 5.0)
        codes = [peers.code(_GONE, 30)]
        peers.start(_GONE)
        codes.append(peers.code(_GONE, 60))
        stage.say("the others train on, then all are stopped")
        time.sleep(2.0 if stage.quick else 20.0)
        for row in (0, 1, 3):
            peers.signal(row, signal.SIGTERM)
        peers.finish(60, but=_GONE)
        complaints = len(peers.complaints())
    again = _again(stage, peers, left.without_member(key, guest.name))
    return [
        exactly("a roster with a newcomer reaches all that run", "yes" if spread else "no", "yes"),
        at_most("and takes", spreading, 5.0, "s"),
        at_most("links of a removed member are closed after", cut, 3.0, "s"),
        exactly(
            "exit codes of the removed one, and of its return", f"{codes[0]}, {codes[1]}", "6, 6"
        ),
        exactly(
            "a second roster of the same version",
            "refused" if refused and kept else "taken",
            "refused",
        ),
        exactly("lost, doubled or reordered, by the histories", complaints, 0),
        *again,
    ]


def _again(stage: Stage, before: Peers, roster: Roster) -> list[Figure]:
    """The next run: a new epoch, in which the one that was removed is the last row."""
    homes = [home for row, home in enumerate(before.homes) if row != _GONE] + [before.homes[_GONE]]
    peers = Peers(experiment(rounds=100, rule="SpodGT"), stage.folder / "second", homes=homes)
    key = homes[0].identity
    roster = roster.with_member(key, _member(before.homes[_GONE]))
    ids = [home.identity.id for home in homes]
    part = peers.exp.graph.peers
    links = tuple(
        Link(ids[source], ids[target], float(a), float(b))
        for source, target, a, b in zip(part.src, part.dst, part.a, part.b, strict=True)
    )
    file = hashlib.sha256(peers.file.read_bytes()).hexdigest()
    roster = roster.amended(key, links=links, spec=spec_hash(peers.exp), file=file, new_epoch=True)
    with peers:
        stage.say("the next run, with the one that was removed")
        for home in homes:
            # One of them holds the fork.
            (home.folder / "roster.json").unlink()
            home.trust(roster)
        peers.start_all()
        peers.finish(120)
        return [
            exactly("in the next epoch, lost, doubled or reordered", len(peers.complaints()), 0),
            exactly(
                "in the next epoch, numbers that differ from the simulator's",
                peers.different_numbers(),
                0,
            ),
        ]


def _member(home: Home) -> Member:
    return Member(home.name, home.identity.certificate.decode(), home.addresses)


def _status(peers: Peers, row: int) -> dict[str, dict[str, int]]:
    return read_status(peers.folder(row))


def _version(peers: Peers, row: int) -> int:
    return _status(peers, row)["roster"]["version"]
