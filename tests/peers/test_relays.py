"""Sites without a port, as administrators run them: joining and training through a relay."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from chaos.ends import free_ports, until
from chaos.peers import Peers, experiment
from peerloom.peers.federation import found_on_this_machine
from peerloom.peers.metrics import exposition
from peerloom.peers.relay_process import RelayProcess
from peerloom.peers.status import read_status
from peerloom.runs import RunFolder
from peerloom.transport import Home, Invitation
from tests.laws.test_base_install import RELAY, installed_alone

pytestmark = pytest.mark.slow


def peerloom(*words, cwd, check=True):
    done = subprocess.run(
        [sys.executable, "-m", "peerloom", *map(str, words)],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=180,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done


def test_peers_without_a_port_train_to_the_simulators_bits_while_the_relay_is_killed(tmp_path):
    exp = experiment(rounds=3000, clients=2, features=40)
    run = RunFolder.create(tmp_path / "made", exp)
    homes = found_on_this_machine(run.experiment(), tmp_path / "peers", run.config, ["", ""])
    with RelayProcess(tmp_path / "relay", homes[0].identity.id) as relay:
        roster = homes[0].roster.amended(homes[0].identity, relays=(relay.entry,))
        homes = [home.trust(roster) for home in homes]
        assert not any(home.addresses for home in homes)
        with Peers(exp, tmp_path, homes=homes) as peers:
            peers.start_all()
            peers.reach(40)
            links = read_status(peers.folder(0))["links"]
            assert {link["way"] for link in links} == {"relay:relay"}
            assert 'peerloom_link_way{peer="row-1",dir="in",way="relay:relay"} 1' in exposition(
                read_status(peers.folder(0))
            )
            relay.kill()
            assert until(lambda: peers.heard(0, "down", 1, 0.0) < float("inf"), 20)
            stood = peers.round(0)
            assert stood < 3000
            relay.start()
            peers.finish(90)
            assert peers.different_numbers() == 0
            assert peers.complaints() == []
            said = [event["text"] for event in peers.log(0)]
            assert "sending to row-1 through relay relay" in said
            assert any(text.startswith("relay relay is not reached") for text in said)
        assert relay.stop() == 0
        status = relay.status()
        assert status["status"] == "stopped"
        assert status["bytes_total"] > 0
        lines = relay.log().splitlines()
        assert all(re.match(r"20\d\d-\d\d-\d\dT[\d:.]+Z relay \w+: ", line) for line in lines), (
            lines
        )


def test_a_site_that_only_dials_ends_when_it_is_removed(tmp_path):
    """Its process runs while it is removed, or is down, and the relay is a new process then."""
    exp = experiment(rounds=100_000, rule="DSpodFL", features=4)
    run = RunFolder.create(tmp_path / "made", exp)
    homes = found_on_this_machine(run.experiment(), tmp_path / "peers", run.config, [""] * 4)
    with RelayProcess(tmp_path / "relay", homes[0].identity.id) as relay:
        roster = homes[0].roster.amended(homes[0].identity, relays=(relay.entry,))
        homes = [home.trust(roster) for home in homes]
        with Peers(exp, tmp_path, homes=homes) as peers:
            peers.start_all()
            peers.reach(5)
            peers.kill(2)
            founder = homes[0]
            for row in (1, 2):
                left = founder.roster.without_member(founder.identity, f"row-{row}")
                founder, version = founder.trust(left), left.version
                assert until(lambda: relay.status()["roster_version"] == version, 60)  # noqa: B023
            assert peers.process(1).wait(180) == 6
            relay.kill()
            relay.start()
            peers.start(2)
            assert peers.process(2).wait(180) == 6
            for row in (1, 2):
                said = [event["text"] for event in peers.log(row)]
                assert any("The founder removed this peer" in text for text in said), said


def invite(cwd, *words):
    """A founder that waits for a newcomer, and the token that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "peerloom", "peer", "invite", "--folder", "a", *words],
        cwd=cwd, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    token = process.stderr.readline().strip()
    assert token.startswith("peerloom-invitation."), token + process.stderr.read()
    return process, token


@pytest.mark.parametrize("wrapped", [[], ["--wrapped"]])
def test_a_newcomer_joins_through_a_relay_and_only_with_its_invitation(tmp_path, wrapped):
    for name, more in (("a", ["--found"]), ("b", []), ("c", [])):
        peerloom("peer", "init", name, "--folder", name, *more, cwd=tmp_path)
    founder = Home.open(tmp_path / "a").identity.id
    with RelayProcess(tmp_path / "relay", founder) as relay:
        named = ["--certificate", "relay/identity.crt", "--address", *relay.entry.addresses]
        peerloom("peer", "roster", "relay", "relay", *named, "--folder", "a", cwd=tmp_path)
        host, token = invite(tmp_path, "--relay", "relay", *wrapped)
        try:
            given = Invitation.read(token)
            assert given.relay == relay.entry
            false = replace(given, secret=bytes(16)).token()
            done = peerloom("peer", "join", false, "--folder", "c", cwd=tmp_path, check=False)
            assert done.returncode == 5
            assert "through relay relay was not reached" in done.stderr
            peerloom("peer", "join", token, "--folder", "b", *wrapped, cwd=tmp_path)
            said, errors = host.communicate(timeout=180)
            assert host.returncode == 0, errors
            assert "b is a member now" in said
        finally:
            host.kill()
            host.communicate()
        roster = Home.open(tmp_path / "b").roster
        assert [member.name for member in roster.members] == ["a", "b"]
        assert not any(member.addresses for member in roster.members)
        assert until(lambda: relay.status()["roster_version"] == roster.version, 10), "brought"
        done = peerloom("peer", "join", token, "--folder", "c", cwd=tmp_path, check=False)
        assert done.returncode == 5, "nobody waits any more"
        relay.stop()
        words = ["peer", "invite", "--relay", "relay", "--folder", "a"]
        done = peerloom(*words, cwd=tmp_path, check=False)
        assert done.returncode == 5
        assert "is not reached" in done.stderr
        assert "peerloom-invitation" not in done.stdout + done.stderr
    done = peerloom(*words[:3], "rely", *words[4:], cwd=tmp_path, check=False)
    assert "Did you mean 'relay'" in done.stderr


def test_a_relay_runs_without_torch_and_ends_cleanly(tmp_path):
    """In a process that can import what deploy/relay-requirements.txt lists, and nothing else."""
    (tmp_path / "packages").mkdir()
    whole = installed_alone(tmp_path / "packages", RELAY)
    assert not (whole / "torch").exists()
    peerloom("peer", "init", "a", "--found", "--folder", "a", cwd=tmp_path)
    founder = Home.open(tmp_path / "a").identity.id
    (port,) = free_ports(1)
    code = f"import sys; sys.path.append({str(whole)!r})\nfrom peerloom.cli import main; main()"
    words = ["relay", "--listen", f"127.0.0.1:{port}", "--folder", "relay", "--founder", founder]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, *words], cwd=tmp_path, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert until((tmp_path / "relay" / "status.json").exists, 30)
        process.terminate()
        _, said = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert "relay end: 0 members here" in said
    assert (tmp_path / "relay" / "identity.key").stat().st_mode & 0o077 == 0
