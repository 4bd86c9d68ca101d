"""The verdict on a run, from what its peers left on their disks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from peerloom.config import spec_hash
from peerloom.core import Checkpoint, Draws
from peerloom.peers.decisions import Decision
from peerloom.peers.folder import PeerFolder
from peerloom.peers.replay import DecisionsWire
from peerloom.runtime import Guard, Session, Snapshot, build_port, iterate
from peerloom.transport import read_history
from tests.doubles.checker import COPY, check_histories

from .cluster import Cluster

__all__ = ["judge"]

_MASS = 1e-12
_MOST = 20  # complaints of either sort that are told


@torch.no_grad()
def judge(cluster: Cluster) -> list[str]:
    """Everything that is wrong with a run whose processes have ended."""
    return [*_links(cluster)[:_MOST], *_numbers(cluster)[:_MOST]]


def _links(cluster: Cluster) -> list[str]:
    ids = [home.identity.id for home in cluster.peers.homes]
    histories = {}
    for path in sorted(cluster.folder.glob("history-*.jsonl")):
        row, _, copy = path.stem.removeprefix("history-").partition("-")
        histories[ids[int(row)] + (COPY + copy if copy else "")] = read_history(path)
    links = {
        version: frozenset((link.source, link.target) for link in roster.links)
        for version, roster in cluster.rosters.items()
    }
    names = {id: home.name for id, home in zip(ids, cluster.peers.homes, strict=True)}
    return [_named(line, names) for line in check_histories(histories, links)]


def _named(line: str, names: dict[str, str]) -> str:
    for id, name in names.items():
        line = line.replace(id, name)
    return line


def _numbers(cluster: Cluster) -> list[str]:
    points = dict[int, Checkpoint]()
    for row in cluster.rows:
        point = cluster.peers.checkpoint(row)
        if point is None:
            return [f"row {row} has no checkpoint"]
        points[row] = point
    if cluster.plan.case.mode != "nobody":
        return _bits(cluster, points)
    if not all(np.isfinite(point.state["x"]).all() for point in points.values()):
        return ["a model is no longer finite"]
    if cluster.plan.case.rule != "SpodGT":
        return []
    defect = cluster.peers.mass_defect(list(points.values()))
    return [f"mass is off by {defect:.1e} of the first gradients"] if defect > _MASS else []


def _bits(cluster: Cluster, points: dict[int, Checkpoint]) -> list[str]:
    """Compare every row's state with that of the simulator, or of the replay, after its round."""
    found, left = list[str](), dict(points)
    for snapshot in _undisturbed(cluster):
        for row in [row for row, point in left.items() if point.t == snapshot.t]:
            for name, mine in left.pop(row).state.items():
                wanted = getattr(snapshot.state, name)[row].numpy()
                if wrong := int(np.count_nonzero(mine[0] != wanted)):
                    found.append(
                        f"row {row}: {wrong} of {wanted.size} numbers of {name} after round "
                        f"{snapshot.t} differ from the replay's"
                    )
        if not left:
            break
    return found


def _undisturbed(cluster: Cluster) -> Iterator[Snapshot]:
    """The same run in one process: with the decisions of the peers, if there are any."""
    exp = cluster.peers.exp
    made = {
        row: _decisions(cluster.peers.folder(row), spec_hash(exp))
        for row in range(cluster.plan.peers)
    }
    if not any(made.values()):
        return iterate(exp, path="links")
    wire = DecisionsWire(made, exp.message, Draws(exp.seed), exp.algorithm.needs.keeps_mean)
    port = build_port(exp, mixer="links", wire=wire)
    return iter(Session(exp, port, guard=Guard(every=1, replay=False)))


def _decisions(folder: Path, spec: str) -> list[Decision]:
    return PeerFolder(folder, spec).journal().every()
