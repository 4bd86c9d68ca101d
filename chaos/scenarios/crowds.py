"""Many peers on one machine: time until all links are up, speed of rounds, cost of a peer."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

from peerloom.config import comparison_from
from peerloom.experiment import Experiment
from peerloom.peers.federation import Federation
from peerloom.peers.processes import context

from ..ends import until
from ..figures import Figure, Stage, at_least, at_most, exactly, told

__all__ = ["crowd", "crowd_experiment"]

_EVERY = 80  # rounds between two evaluations: each costs as much as two or three rounds


def crowd(stage: Stage) -> list[Figure]:
    """Every peer hears four others in every round, 40 KB each."""
    peers, rounds = (12, 300) if stage.quick else (64, 3 * _EVERY)
    federation = Federation(crowd_experiment(peers, rounds), stage.folder / "run")
    with federation.no_orphans():
        _warm_up()
        begin = time.monotonic()
        for row in range(peers):
            federation.start(row)
        stage.say("waiting for every link")
        if not until(lambda: _up(federation) == 2 * 4 * peers, 180.0, every=0.2):
            raise RuntimeError(f"only {_up(federation)} of {8 * peers} ends of links are up")
        up = time.monotonic() - begin
        stage.say("training")
        if not until(lambda: _slowest(federation) > 2 * _EVERY, 180.0, every=1.0):
            raise RuntimeError(
                f"the slowest has not passed round {2 * _EVERY}, it is in {_slowest(federation)}"
            )
        # Only now: to look through the memory of so many processes keeps a processor busy.
        memory = [_private(stand["pid"]) for stand in federation.status()]
        federation.wait()
    sent, acked, applied = _account(federation)
    return [
        at_most(f"{4 * peers} links of {peers} peers are up after", up, 15.0, "s"),
        at_least("rounds per second at 40 KB", _rate(federation), 10.0),
        at_most(
            "memory of a peer beside what all share (Python, PyTorch)",
            max(memory) / 1024,
            64.0,
            "MB",
        ),
        told("parcels in all", sent),
        exactly("sent = acknowledged = applied", f"{acked}, {applied}", f"{sent}, {sent}"),
    ]


def crowd_experiment(peers: int, rounds: int) -> Experiment:
    """A linear model of 10,010 float32 numbers on a random graph of degree four."""
    text = f"""
        rounds = {rounds}
        seed = 1
        dtype = "float32"
        graph = {{ name = "regular", clients = {peers}, degree = 4 }}
        algorithms = [{{ name = "DGD", lr = 0.001 }}]
        evaluate = {{ every = {_EVERY} }}
        [problem]
        name = "Classification"
        data = {{ name = "blobs", samples = {peers * 20}, features = 1000, classes = 10 }}
    """
    (found,) = comparison_from(tomllib.loads(text)).experiments
    return found


def _warm_up() -> None:
    """Load PyTorch where all processes are forked from: links are what is measured."""
    process = context().Process(target=time.sleep, args=(0,))
    process.start()
    process.join()


def _rate(federation: Federation) -> float:
    """Rounds per second between the first two evaluations, by the slowest peer's clock."""
    spent = []
    for keep in federation.peer_folders():
        at = {line["round"]: line["seconds"] for line in keep.measurements()}
        spent.append(float(at[2 * _EVERY] - at[_EVERY]))
    return _EVERY / max(spent)


def _slowest(federation: Federation) -> int:
    return min(int(stand["round"]) for stand in federation.status())


def _up(federation: Federation) -> int:
    """Ends of links that are up, as the peers tell."""
    return sum(link["up"] for stand in federation.status() for link in stand["links"])


def _account(federation: Federation) -> tuple[int, int, int]:
    """Parcels sent, acknowledged and applied by all peers, announced silences included."""
    counts = dict.fromkeys(("sent", "acked", "applied"), 0)
    for stand in federation.status():
        for link in stand["links"]:
            for what in counts:
                counts[what] += link["frames"].get(what, 0)
    return counts["sent"], counts["acked"], counts["applied"]


def _private(pid: int) -> int:
    """Kilobytes that a process shares with nobody; none if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
