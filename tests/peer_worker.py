"""One process of a federation: runs its row of several experiments in turn."""

from pathlib import Path

from peerloom.peers.experiments import only_experiment
from peerloom.peers.site import Site
from peerloom.peers.start import start_peer
from peerloom.transport import Home, Settings


def run_jobs(jobs):
    """Run this peer's row of every job, a pair of experiment file and peer folder."""
    for file, folder in jobs:
        start_peer(
            Home.open(Path(folder)),
            only_experiment(Path(file)),
            # Every evaluation is collected afterwards.
            Site(settings=Settings(backoff=(0.02, 0.2)), judged=None),
        )
