"""One process of a federation in the tests: runs its row of several experiments, one after the other."""

from pathlib import Path

from peerloom.peers.start import Site, only_experiment, start_peer
from peerloom.transport import Home, Settings


def run_jobs(jobs):
    """Jobs are pairs: an experiment file, and the folder of the peer that is to run its row of it."""
    for file, folder in jobs:
        start_peer(
            Home.open(Path(folder)),
            only_experiment(Path(file)),
            Site(settings=Settings(backoff=(0.02, 0.2))),
        )
