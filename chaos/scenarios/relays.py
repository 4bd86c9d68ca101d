"""Peers that can only dial out: a relay that dies, two of them, a removal, and many on one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

from peerloom.errors import ExcludedError
from peerloom.peers.relay_process import RelayProcess
from peerloom.transport import Endpoint, Relay, Roster, Settings
from peerloom.transport.outbound import WayError

from ..at_relay import AtRelay, ended
from ..ends import QUICK, endpoint, federation, holds, identity, parcel, until
from ..figures import Figure, Stage, at_most, exactly, told
from ..peers import Peers, experiment

__all__ = ["relayed", "removed"]

_WAITING = Settings(heartbeat=0.2, dead=3.0, wait=60.0)


def relayed(stage: Stage) -> list[Figure]:
    """Relays die while peers without a port talk through them."""
    figures = _trained(stage)
    for name in ("back", "second", "removed", "many"):
        (stage.folder / name).mkdir()
    stage.say("a relay dies and comes back")
    figures += _back(stage)
    stage.say("a second relay takes over")
    figures += _second(stage)
    stage.say("a member is removed")
    figures += removed(replace(stage, folder=stage.folder / "removed"))
    stage.say("many peers on one relay")
    figures += _many(stage)
    return figures


def _trained(stage: Stage) -> list[Figure]:
    """Two peers without a port; their relay is killed in the middle of the run."""
    exp = experiment(rounds=1500 if stage.quick else 4000, clients=2, features=40)
    with Peers(exp, stage.folder, "--dead", "3", listening=False) as peers:
        founder = peers.homes[0]
        with RelayProcess(stage.folder / "relay", founder.identity.id) as relay:
            roster = founder.roster.amended(founder.identity, relays=(relay.entry,))
            peers.homes = [home.trust(roster) for home in peers.homes]
            peers.start_all()
            peers.reach(40)
            relay.kill()
            time.sleep(1.0)
            relay.start()
            peers.finish(240)
            return [
                exactly("lost, doubled or reordered", len(peers.complaints()), 0),
                exactly("numbers that differ from the simulator's", peers.different_numbers(), 0),
            ]


@contextlib.contextmanager
def _pair(stage: Stage, name: str, *relays: Relay) -> Iterator[tuple[Endpoint, Endpoint]]:
    """Two ends without a port in this process."""
    roster = federation(2, [(0, 1), (1, 0)], ["", ""], relays=relays)
    folder = stage.folder / name
    with (
        endpoint(0, roster, folder, settings=_WAITING, listen=None) as a,
        endpoint(1, roster, folder, settings=_WAITING, listen=None) as b,
    ):
        _pass(a, b, 1)
        yield a, b


def _pass(a: Endpoint, b: Endpoint, round: int) -> float:
    """Send a parcel, and return when it arrived."""
    a.send(b.me, parcel(round))
    if not holds(b.take(a.me, round, 0, 30.0), round):
        raise RuntimeError(f"round {round} did not arrive")
    return time.time()


def _back(stage: Stage) -> list[Figure]:
    spent = []
    with (
        RelayProcess(stage.folder / "back" / "relay", identity(0).id) as relay,
        _pair(stage, "back", relay.entry) as (a, b),
    ):
        for turn in range(2 if stage.quick else 5):
            relay.kill()
            time.sleep(0.5)
            began = relay.start()
            spent.append(_pass(a, b, 2 + turn) - began)
    return [
        at_most("first parcel after a relay is back, the slowest", max(spent), 1.0, "s"),
        told("the quickest", min(spent), "s"),
    ]


def _second(stage: Stage) -> list[Figure]:
    spent = []
    folder = stage.folder / "second"
    with (
        RelayProcess(folder / "one", identity(0).id, "one") as one,
        RelayProcess(folder / "two", identity(0).id, "two") as two,
        _pair(stage, "second", one.entry, two.entry) as (a, b),
    ):
        for turn in range(2 if stage.quick else 4):
            until(lambda: _all_at(one) and _all_at(two), 20.0)
            way = next(link.way for link in a.links())
            used = one if way == "relay:one" else two
            died = used.kill()
            spent.append(_pass(a, b, 2 + turn) - died)
            used.start()
    return [
        at_most("through the other relay after one was killed, the slowest", max(spent), 0.2, "s"),
        told("the quickest", min(spent), "s"),
    ]


def _all_at(relay: RelayProcess) -> bool:
    return {"peer-0", "peer-1"} <= set(relay.status()["present"])


def removed(stage: Stage) -> list[Figure]:
    """Members are removed by a roster that only the relay can act on; then one that is a peer.

    Times begin when the relay uses the roster, as its log has it.
    """
    count = 3 if stage.quick else 6
    peer = count + 1
    streams, heard = list[float](), list[float]()
    # All have a link with the last member but one, which takes calls, and with the last, which
    # is nowhere. No link joins them with the founder: what ends their streams is the relay alone.
    callee, absent = peer + 1, peer + 2
    pairs = [(k, other) for k in range(1, peer + 1) for other in (callee, absent)]
    with RelayProcess(stage.folder / "relay", identity(0).id) as relay:
        roster = federation(absent + 1, pairs, [""] * (absent + 1), relays=(relay.entry,))
        with (
            AtRelay(identity(0), roster, relay.entry) as founder,
            AtRelay(identity(callee), roster, relay.entry) as called,
        ):
            for number in range(1, count + 1):
                with AtRelay(identity(number), roster, relay.entry) as member:
                    _reached(founder, called, member)
                    stream = member.dial(identity(callee).id)
                    until(lambda: len(called.calls) == number, 10.0)  # noqa: B023
                    roster = roster.without_member(identity(0), f"peer-{number}")
                    with ThreadPoolExecutor() as pool:
                        last = pool.submit(_last_answer, member, identity(absent).id)
                        ends = [
                            pool.submit(ended, each, 10.0) for each in (stream, called.calls[-1])
                        ]
                        time.sleep(0.1)  # meanwhile requests are answered
                        founder.newest = roster
                        founder.client.follow()
                        gone, answered = max(end.result() for end in ends), last.result()
                    used = _used(relay, identity(number).id)
                    streams.append(max(0.0, gone - used))
                    heard.append(max(0.0, answered - used))
                    stream.close()
            with endpoint(peer, roster, stage.folder, settings=QUICK, listen=None) as removed:
                until(lambda: f"peer-{peer}" in relay.status()["present"], 20.0)
                founder.newest = roster.without_member(identity(0), f"peer-{peer}")
                founder.client.follow()
                knows, now = until(lambda: _halted(removed), 10.0), time.time()
                halted = now - _used(relay, removed.me) if knows else float("inf")
            stay = ["peer-0", f"peer-{callee}"]
            stays_out = until(lambda: relay.status()["present"] == stay, 15.0)
    return [
        at_most("a removed member's streams end at the relay after", max(streams), 0.1, "s"),
        at_most("and what it asks is answered for", max(heard), 0.1, "s"),
        told(f"the quickest of {count} ends", min(streams), "s"),
        told("a peer that is removed has halted after", halted, "s"),
        exactly("removed members at the relay afterwards", "none" if stays_out else "some", "none"),
    ]


def _reached(*members: AtRelay) -> None:
    for member in members:
        if not member.client.reached(time.monotonic() + 20.0):
            raise RuntimeError("a member did not reach the relay")


def _used(relay: RelayProcess, gone: str) -> float:
    """When the relay began to use the roster without this member."""
    for line in relay.log().splitlines():
        if f"relay removed: {gone[:7]} " in line:
            return datetime.fromisoformat(line.split()[0]).timestamp()
    raise RuntimeError(f"the relay says nothing of the removal of {gone[:7]}")


def _last_answer(member: AtRelay, absent: str) -> float:
    """Ask to be joined with somebody who is not there until that is not answered any more."""
    last, end = 0.0, time.monotonic() + 10.0
    while time.monotonic() < end:
        try:
            member.dial(absent).close()
        except WayError as refusal:
            if refusal.why != "absent":
                return last
        last = time.time()
        time.sleep(0.01)
    return float("inf")


def _halted(post: Endpoint) -> bool:
    try:
        post.raise_if_stopped()
    except ExcludedError:
        return True
    return False


def _many(stage: Stage) -> list[Figure]:
    """A ring whose members have no port, all on one relay."""
    count = 16 if stage.quick else 64
    folder = stage.folder / "many"
    ring = [(k, (k + step) % count) for k in range(count) for step in (1, count - 1)]
    settings = Settings(heartbeat=5.0, dead=30.0, wait=60.0)
    with RelayProcess(folder / "relay", identity(0).id) as relay, contextlib.ExitStack() as stack:
        roster: Roster = federation(count, ring, [""] * count, relays=(relay.entry,))
        before, begin = relay.resident_bytes(), time.time()
        ends = [
            stack.enter_context(endpoint(k, roster, folder, settings=settings, listen=None))
            for k in range(count)
        ]
        up = until(lambda: all(link.up for end in ends for link in end.links()), 120.0, every=0.1)
        spent, right = time.time() - begin, 0
        for end in ends:
            for peer in roster.targets(end.me):
                end.send(peer, parcel(1))
        for end in ends:
            right += sum(holds(end.take(peer, 1, 0, 60.0), 1) for peer in roster.sources(end.me))
        memory = (relay.resident_bytes() - before) / count
    return [
        exactly(f"{count} peers on one relay: links that are up", int(up), 1),
        exactly("parcels of one round that arrived", right, len(ring)),
        told("all links were up after", spent, "s"),
        told("the relay's memory, each peer", memory / 1e6, "MB"),
    ]
