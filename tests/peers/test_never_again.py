"""Processes that may never go on end with exit code 6, so that nothing starts them again."""

import shutil

import pytest

from chaos.ends import until
from chaos.peers import experiment
from peerloom.peers.federation import Federation, free_ports
from peerloom.peers.processes import start_row
from peerloom.peers.site import Site

pytestmark = pytest.mark.slow  # starts processes


@pytest.fixture
def trio(tmp_path, small_threads):
    """Three peers that train on, each a neighbour of the others."""
    exp = experiment(10**6, "DSpodFL", clients=3, features=4)
    federation = Federation(exp, tmp_path / "run")
    with federation.no_orphans():
        for row in range(3):
            federation.start(row)
        assert until(lambda: beyond(federation, 5), 60.0)
        yield federation


def beyond(federation, round):
    """Whether all have told of a later round."""
    found = federation.status()
    return len(found) == 3 and all(status["round"] > round for status in found)


def test_a_copied_folder_ends_for_good_while_the_true_peer_goes_on(trio, tmp_path):
    copy, log = tmp_path / "copy", tmp_path / "log.txt"
    shutil.copytree(trio.homes[1].folder, copy, ignore=shutil.ignore_patterns("*.draft"))
    site = Site(listen=f"127.0.0.1:{free_ports(1)[0]}")
    process = start_row(trio.folder.config, copy, log, site)
    try:
        process.join(60.0)
        assert process.exitcode == 6, log.read_text()
    finally:
        process.kill()
    assert "identity_conflict" in log.read_text()
    now = max(status["round"] for status in trio.status())
    assert until(lambda: beyond(trio, now + 10), 30.0), "the true one was not disturbed"
    assert trio.exit_code(1) is None


def test_who_holds_a_fork_of_the_roster_ends_for_good(trio):
    founder, forked = trio.homes[0], trio.homes[1]
    true, fork = (founder.roster.amended(founder.identity, days=days) for days in (100, 200))
    trio.kill(1)
    (forked.folder / "roster.json").write_bytes(fork.to_bytes())
    founder.trust(true)
    assert until(lambda: trio.homes[2].roster.version == true.version, 30.0)
    trio.start(1)
    assert until(lambda: trio.exit_code(1) is not None, 60.0)
    assert trio.exit_code(1) == 6, trio.said(1)
    assert "roster_fork" in trio.said(1)
    assert [trio.exit_code(row) for row in (0, 2)] == [None, None]
