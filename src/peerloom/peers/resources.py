"""Resources of peers and links: measured before the first round, and agreed on by all.

Every peer times its own gradients, and messages of the model's size to its neighbours. The seconds
go into a table with one entry per client and link, which peers pass on until no table has a gap.
Each entry is filled by one peer only and is 0 until then, so the elementwise maximum merges two
tables whatever their order, repetition or loss. In the end all peers hold the same table, hence the
same probabilities and the same coins.

Speeds are relative to the fastest peer. Nobody knows the absolute times when the file is written: a
reference that is too short would make everyone act seldom, one that is too long would hide who is
slow.
"""

from __future__ import annotations

import itertools
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
from ..transport.json_files import NUMBER, Each, read_json
from .floats import float_channel, from_body, to_body
from .wire_plan import WirePlan

__all__ = [
    "FILE",
    "check_measurable",
    "describe_resources",
    "measure_resources",
    "probe_channels",
    "read_seconds",
    "restore_resources",
]

FILE = "measured.json"  # in the folder of a peer's run
TABLE, PROBE = 60_000, 60_001  # channels; those of rows count from 0
TIMES = 5  # measurements, of which the median counts: one that was disturbed does no harm
_LOOK = 0.5  # seconds between two looks at links that are down
_LEAST = 1e-9  # seconds, since 0 stands for "not known yet"

Floats = NDArray[np.float64]


def probe_channels(exp: Experiment, plan: WirePlan) -> dict[int, Channel]:
    """Return the channels for measuring: tables, and bodies as long as the longest of a round."""
    if not exp.measures:
        return {}
    largest = max(channel.longest for channel in plan.channels.values())
    table = float_channel("float64", [_entries(exp.graph)], mix_index=-1)
    return {TABLE: table, PROBE: Channel(largest, None, "probe", mix_index=-1)}


@torch.no_grad()
def measure_resources(
    exp: Experiment,
    row: int,
    transport: Transport,
    folder: Path,
    plan: WirePlan,
    device: str = "cpu",
) -> Experiment:
    """Return the experiment with the resources that all peers have measured.

    A peer writes its own times to its folder before it sends them, and reads them back when it
    starts again: it never tells two different things.
    """
    file, own = folder / FILE, _own_entries(exp.graph, row)
    table = read_seconds(file, exp.graph) if file.exists() else np.zeros(_entries(exp.graph))
    if not table[own].all():
        table[own] = _time_row(exp, row, transport, probe_channels(exp, plan)[PROBE], device)
        _write(file, exp.graph, table)
    agreed = _agree(transport, table)
    if not table.all():
        _write(file, exp.graph, agreed)
    return _with_seconds(exp, agreed)


def restore_resources(exp: Experiment, folder: Path) -> Experiment:
    """Return the experiment as the peer of this run folder ran it: with measured resources."""
    return _with_seconds(exp, read_seconds(folder / FILE, exp.graph)) if exp.measures else exp


def describe_resources(exp: Experiment, row: int) -> str:
    """Say how often a row computes and its links fire, for people."""
    resources = exp.able.bind(exp.graph, Draws(exp.seed))
    sends = [
        probability
        for name, links in exp.graph.layers.items()
        for probability in resources.link_probability(1, name)[links.src == row]
    ]
    links = (
        f"its links to send in {min(sends):.0%} to {max(sends):.0%}"
        if sends
        else "it has no links to send over"
    )
    if row >= exp.graph.clients:
        return f"measured: {links} of the rounds"
    computes = f"row {row} is able to compute in {resources.node_probability(1)[row]:.0%}"
    return f"measured: {computes} of the rounds, {links}"


def check_measurable(exp: Experiment) -> None:
    """Refuse to measure on a graph that is not strongly connected: tables would keep gaps."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(exp.graph.rows))
    for links in exp.graph.layers.values():
        graph.add_edges_from(zip(links.src.tolist(), links.dst.tolist(), strict=True))
    if exp.measures and not nx.is_strongly_connected(graph):
        raise ConfigError(
            f"On graph '{exp.graph.name}' some never hear, not even over others, how able everyone "
            "is, so resources cannot be measured. Use a strongly connected graph, or give "
            "probabilities, as in Bernoulli."
        )


def read_seconds(file: Path, network: Network) -> Floats:
    """Read the table of a run folder; 0 where nothing is known yet.

    Clients come first, then the links layer by layer, in the network's order.
    """
    form = {"gradient": Each(NUMBER), "message": dict.fromkeys(network.layers, Each(NUMBER))}
    found = read_json(file, form)
    messages = [found["message"][name] for name in network.layers]
    seconds = np.array([*found["gradient"], *itertools.chain(*messages)], np.float64)
    if len(seconds) != _entries(network) or not (seconds >= 0).all():
        raise PeerError(
            f"{file} does not hold seconds of {_entries(network)} peers and links. Remove it at "
            "every peer: the run then measures anew."
        )
    return seconds


def _write(file: Path, network: Network, seconds: Floats) -> None:
    gradient, message = _split(network, seconds)
    document = {
        "gradient": gradient.tolist(),
        "message": {name: values.tolist() for name, values in message.items()},
    }
    write_whole(file, json.dumps(document, indent=1).encode())


def _with_seconds(exp: Experiment, seconds: Floats) -> Experiment:
    return exp.measured(from_seconds(exp.graph, *_split(exp.graph, seconds)))


def _time_row(
    exp: Experiment, row: int, transport: Transport, probe: Channel, device: str
) -> list[float]:
    """Time what `_own_entries` lists: a client's gradient, then a message over each link out."""
    seconds = [_time_gradient(exp, row, device)] if row < exp.graph.clients else []
    peers = [member.id for member in transport.roster.members]
    for links in exp.graph.layers.values():
        receivers = links.dst[links.src == row]
        seconds += [_time_message(transport, peers[receiver], probe) for receiver in receivers]
    return seconds


def _time_gradient(exp: Experiment, row: int, device: str) -> float:
    any_resources = exp.measured(Bernoulli(0.5, 0.5))  # only the port's problem is used
    port = build_port(any_resources, np.array([row]), gradients=device)
    x = exp.start([row])
    batch = iter(range(1 + TIMES))
    return _median_seconds(lambda: port.problem.grad(x, np.zeros(1, np.int64), 0, next(batch)))


def _time_message(transport: Transport, peer: str, probe: Channel) -> float:
    """Time a message from handing it over to its acknowledgement."""
    body = np.zeros(probe.longest, np.uint8)
    body.flags.writeable = False

    def send() -> None:
        receipt = transport.send(peer, Parcel(PROBE, 0, 0, body), mode="latest")
        while not transport.settle([receipt], _LOOK):
            _check_links(transport)

    return _median_seconds(send)


def _median_seconds(action: Callable[[], object]) -> float:
    """Time an action; the first call does not count, as it opens links and warms up caches."""
    action()
    found = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        action()
        found.append(time.perf_counter() - begin)
    return max(statistics.median(found), _LEAST)


def _agree(transport: Transport, table: Floats) -> Floats:
    """Exchange tables with the neighbours until this one has no gap.

    A table is sent whenever it changed, and once at the start even if it is complete: a neighbour
    that starts again may not have it.
    """
    roster, me = transport.roster, transport.me
    sources, targets = roster.sources(me), roster.targets(me)
    told, seen = np.empty(0), 0
    while True:
        for peer in sources:
            if (parcel := transport.newest(peer, TABLE)) is not None:
                table = np.maximum(table, from_body(parcel.body, "float64"))
        if not np.array_equal(table, told):
            for peer in targets:
                transport.send(peer, Parcel(TABLE, 0, 0, to_body(table)), mode="latest")
            told = table
        if table.all():
            return table
        _check_links(transport)
        seen = transport.wait_for_arrivals(seen, _LOOK)


def _check_links(transport: Transport) -> None:
    """Give up when a neighbour has been away for longer than the transport waits."""
    for link in transport.links():
        if not link.up and link.since >= transport.wait:
            raise PeerError(
                f"{link.name} is down, and how able it is must be measured before the first round. "
                "Nothing is lost: start it, then this peer again."
            )


def _entries(network: Network) -> int:
    return network.clients + sum(len(links) for links in network.layers.values())


def _own_entries(network: Network, row: int) -> NDArray[np.int64]:
    """Return the indices that a row fills: its gradient, and the links that leave it."""
    owner = np.concatenate([network.workers, *(links.src for links in network.layers.values())])
    return np.flatnonzero(owner == row)


def _split(network: Network, seconds: Floats) -> tuple[Floats, dict[str, Floats]]:
    """Split a table into seconds of clients, and of links by layer."""
    ends = np.cumsum([network.clients, *(len(links) for links in network.layers.values())])
    gradient, *messages = np.split(seconds, ends[:-1])
    return gradient, dict(zip(network.layers, messages, strict=True))
