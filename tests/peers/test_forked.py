"""What the processes of a federation share."""

import gc

import pytest

from peerloom.peers.processes import context


def frozen(pipe):
    pipe.send(gc.get_freeze_count())


@pytest.mark.slow  # loads everything in a process of its own
def test_what_peers_are_forked_with_is_not_looked_at_by_their_collector():
    here, there = context().Pipe()
    process = context().Process(target=frozen, args=(there,))
    process.start()
    assert here.recv() > 100_000
    process.join()
