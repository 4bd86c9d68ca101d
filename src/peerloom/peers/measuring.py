"""How able peers and links are, measured before the first round, and agreed on by all.

Every peer times its own gradients and messages of the model's size to its neighbours. What it found
goes into a table with a place for every client and link, which neighbours hand on to each other
until nobody's has a gap. A place is filled by one peer only, so the greater of two tables' numbers
is the known one, and it does not matter which table comes when, how often, or not at all because a
newer one did. In the end all hold the same table, hence the same probabilities and the same coins.

All is relative to the fastest: what a gradient takes at the others' sites nobody knows when the
file is written, and with a reference in it that is too short everyone would seldom act, with one
that is too long nobody would seem slow.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from ..core import Draws, Network
from ..errors import ConfigError, PeerError
from ..experiment import Experiment
from ..runtime import build_port
from ..schedules import Bernoulli, from_seconds
from ..transport import Channel, Parcel, Transport
from ..transport.files import write_whole
from .floats import float_channel, from_body, to_body
from .wire_plan import WirePlan

__all__ = ["FILE", "check_measured", "in_words", "known", "measure", "probes", "seconds_in"]

FILE = "measured.json"  # in the folder of a peer's run
TABLE, PROBE = 60_000, 60_001  # channels; those of rows count from 0
TIMES = 5  # of which the median is taken: one that was disturbed does not count
_LOOK = 0.5  # seconds between two looks at links that are down
_LEAST = 1e-9  # seconds; 0 stands for what is not known yet

Floats = NDArray[np.float64]


def probes(exp: Experiment, plan: WirePlan) -> dict[int, Channel]:
    """What travels while peers measure: tables, and vectors as large as the largest of a round."""
    if not exp.measures:
        return {}
    largest = max(channel.longest for channel in plan.channels.values())
    table = float_channel("float64", [_places(exp.graph)], mix_index=-1)
    return {TABLE: table, PROBE: Channel(largest, None, "probe", mix_index=-1)}


@torch.no_grad()
def measure(exp: Experiment, row: int, post: Transport, folder: Path, plan: WirePlan) -> Experiment:
    """The experiment with what all have measured. A peer that starts again finds what it measured in its folder.

    What it found itself is written down before anyone hears of it, so that it never says two
    different things.
    """
    file = folder / FILE
    mine = seconds_in(file, exp.graph) if file.exists() else np.zeros(_places(exp.graph))
    if not mine[_own(exp.graph, row)].all():
        mine[_own(exp.graph, row)] = _measured(exp, row, post, probes(exp, plan)[PROBE])
        _write(file, exp.graph, mine)
    every = _agreed(post, mine)
    if not mine.all():
        _write(file, exp.graph, every)
    return exp.measured(from_seconds(exp.graph, *_apart(exp.graph, every)))


def known(exp: Experiment, folder: Path) -> Experiment:
    """The experiment as the peer whose run lies in this folder ran it: with what was measured, if anything was."""
    if not exp.measures:
        return exp
    return exp.measured(
        from_seconds(exp.graph, *_apart(exp.graph, seconds_in(folder / FILE, exp.graph)))
    )


def in_words(exp: Experiment, row: int) -> str:
    """How able a row turned out to be, for people."""
    able = exp.able.bind(exp.graph, Draws(exp.seed))
    sends = [
        b
        for name, links in exp.graph.layers.items()
        for b in able.link_probability(1, name)[links.src == row]
    ]
    links = (
        f"its links to send in {min(sends):.0%} to {max(sends):.0%}"
        if sends
        else "it has no links to send over"
    )
    if row >= exp.graph.clients:
        return f"measured: {links} of the rounds"
    return f"measured: row {row} is able to compute in {able.node_probability(1)[row]:.0%} of the rounds, {links}"


def check_measured(exp: Experiment) -> None:
    """Refuse to measure where not everyone can hear, over others, what everyone else found."""
    every: nx.DiGraph[int] = nx.DiGraph()
    every.add_nodes_from(range(exp.graph.rows))
    for links in exp.graph.layers.values():
        every.add_edges_from(zip(links.src.tolist(), links.dst.tolist(), strict=True))
    if exp.measures and not nx.is_strongly_connected(every):
        raise ConfigError(
            f"On graph '{exp.graph.name}' some never hear, not even over others, how able everyone "
            "is, so resources cannot be measured. Use a strongly connected graph, or give "
            "probabilities, as in Bernoulli."
        )


def seconds_in(file: Path, network: Network) -> Floats:
    """The table of a folder: clients, then links by layer, in the network's order; 0 where nothing is known yet."""
    found = json.loads(file.read_text(encoding="utf-8"))
    return np.array(
        [*found["gradient"], *(each for name in network.layers for each in found["message"][name])],
        np.float64,
    )


def _write(file: Path, network: Network, seconds: Floats) -> None:
    gradient, message = _apart(network, seconds)
    told = {
        "gradient": gradient.tolist(),
        "message": {name: values.tolist() for name, values in message.items()},
    }
    write_whole(file, json.dumps(told, indent=1).encode())


def _measured(exp: Experiment, row: int, post: Transport, probe: Channel) -> list[float]:
    """Seconds per gradient, if the row has any, and per message of every link that leaves it, in the order of `_own`."""
    found = [_gradient(exp, row)] if row < exp.graph.clients else []
    peers = [member.id for member in post.roster.members]
    for links in exp.graph.layers.values():
        found += [_message(post, peers[to], probe) for to in links.dst[links.src == row]]
    return found


def _gradient(exp: Experiment, row: int) -> float:
    able = exp.measured(Bernoulli(0.5, 0.5))  # only the problem is used
    port = build_port(able, np.array([row]))
    x = exp.start([row]).to(port.place.dtype)
    batch = iter(range(1 + TIMES))
    return _timed(lambda: port.problem.grad(x, np.zeros(1, np.int64), 0, next(batch)))


def _message(post: Transport, peer: str, probe: Channel) -> float:
    """From handing a vector over until the neighbour has said that it has it."""
    body = np.zeros(probe.longest, np.uint8)
    body.flags.writeable = False

    def send() -> None:
        receipt = post.send(peer, Parcel(PROBE, 0, 0, body), mode="latest")
        while not post.settle([receipt], _LOOK):
            _still_there(post)

    return _timed(send)


def _timed(act: Callable[[], object]) -> float:
    """The median of some times; the first does not count: it opens links, and warms up what computes."""
    act()
    found = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        act()
        found.append(time.perf_counter() - begin)
    return max(statistics.median(found), _LEAST)


def _agreed(post: Transport, table: Floats) -> Floats:
    """The table without gaps. Whoever learns something tells it; also one who knew all, as others may not yet."""
    sources, targets = post.roster.sources(post.me), post.roster.targets(post.me)
    said, seen = np.empty(0), 0
    while True:
        for peer in sources:
            if (parcel := post.newest(peer, TABLE)) is not None:
                table = np.maximum(table, from_body(parcel.body, "float64"))
        if not np.array_equal(table, said):
            for peer in targets:
                post.send(peer, Parcel(TABLE, 0, 0, to_body(table)), mode="latest")
            said = table
        if table.all():
            return table
        _still_there(post)
        seen = post.wait_for_arrivals(seen, _LOOK)


def _still_there(post: Transport) -> None:
    for link in post.links():
        if not link.up and link.since >= post.wait:
            raise PeerError(
                f"{link.name} is down, and how able it is must be measured before the first round. "
                "Nothing is lost: start it, then this peer again."
            )


def _places(network: Network) -> int:
    return network.clients + sum(len(links) for links in network.layers.values())


def _own(network: Network, row: int) -> NDArray[np.int64]:
    """The places that a row fills: its gradients, and the links that leave it."""
    owner = np.concatenate([network.workers, *(links.src for links in network.layers.values())])
    return np.flatnonzero(owner == row)


def _apart(network: Network, seconds: Floats) -> tuple[Floats, dict[str, Floats]]:
    """Of clients, and of links by layer."""
    ends = np.cumsum([network.clients, *(len(links) for links in network.layers.values())])
    gradient, *messages = np.split(seconds, ends[:-1])
    return gradient, dict(zip(network.layers, messages, strict=True))
