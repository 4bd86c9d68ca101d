"""`peerloom peer` as people use it: three sites, by files and over the network, real processes."""

import json
import subprocess
import sys

import pytest

from tests.command import printed_by
from tests.federation import free_ports


@pytest.fixture
def peerloom(monkeypatch, capsys):
    """Run a `peer` command in this process, in a folder; what it printed."""

    def run(*words, cwd, code=0):
        monkeypatch.chdir(cwd)
        return printed_by(monkeypatch, capsys, "peer", *words, code=code)

    return run


FILE = """
rounds = 3
[graph]
name = "ring"
clients = 3
[problem]
name = "Quadratic"
A = [[[1.0]], [[1.0]], [[1.0]]]
b = [[1.0], [2.0], [3.0]]
[[algorithms]]
name = "DSpodFL"
lr = 0.1
"""


@pytest.mark.slow
def test_three_sites_meet(tmp_path, peerloom):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    a, b, c = (tmp_path / name for name in ("a", "b", "c"))
    port = free_ports(1)[0]
    founder = peerloom(
        "init", "plant-a", "--found", "--address", "plant-a.example:7400", "--json", cwd=a
    )
    peerloom("init", "plant-b", "--address", "plant-b.example:7400", cwd=b)
    peerloom("init", "plant-c", cwd=c)

    # by files
    text = peerloom("invite", cwd=a)
    token = text.splitlines()[0]
    assert token.startswith("peerloom-invitation.")
    assert len(token) > 150, "the token is one line, however narrow the window"
    peerloom("join", token, "--request", "../request.json", cwd=b)
    assert peerloom("roster", "add", "../request.json", "--json", cwd=a)["version"] == 2
    peerloom("roster", "save", "../roster.json", cwd=a)
    assert "--founder" in peerloom("roster", "take", "../roster.json", cwd=b, code=5)
    assert (
        peerloom(
            "roster", "take", "../roster.json", "--founder", founder["spelled"], "--json", cwd=b
        )["version"]
        == 2
    )

    # over the network
    words = f"-m peerloom peer invite --listen 127.0.0.1:{port} --wait 30 --json"
    waiting = subprocess.Popen(
        [sys.executable, *words.split()],
        cwd=a,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    token = waiting.stderr.readline().strip()
    assert "Waiting" in waiting.stderr.readline()
    joined = peerloom("join", token, "--json", cwd=c)
    answer, _ = waiting.communicate(timeout=180)
    assert json.loads(answer)["member"] == "plant-c"
    assert (joined["joined"], joined["version"], joined["members"]) == (True, 3, 3)

    # links from an experiment, a kit for the rest
    (a / "three.toml").write_text(FILE)
    shown = peerloom("roster", "graph", "three.toml", "--json", cwd=a)
    assert len(shown["links"]) == 6
    assert shown["links"][0]["a"] == pytest.approx(1 / 3)
    peerloom("kit", "make", "../kit.zip", "--experiment", "three.toml", cwd=a)
    opened = peerloom("kit", "open", "../kit.zip", "--json", cwd=c)
    assert opened["version"] == 4
    assert (c / "peer" / "experiment.toml").read_text() == FILE
    assert "plant-b" in peerloom("roster", "show", cwd=c)

    # leaving
    assert peerloom("roster", "remove", "plant-b", "--json", cwd=a)["epoch"] == shown["epoch"], (
        "a run under way takes it up"
    )
    assert "Only the founder" in peerloom("roster", "remove", "plant-b", cwd=c, code=5)
    words = "roster link plant-a plant-c --a 0.5 --b 0.5 --both --json"
    one = peerloom(*words.split(), cwd=a)
    assert len(one["links"]) == 2
    assert one["epoch"] == shown["epoch"] + 1
    fewer = peerloom("roster", "link", "plant-a", "plant-c", "--remove", "--json", cwd=a)
    assert fewer["links"] == [link for link in one["links"] if link["from"] == "plant-c"]
    assert fewer["epoch"] == one["epoch"]
    for folder in (a, b, c):
        for path in folder.rglob("*"):
            if path.is_file() and path.name != "identity.key":
                assert b"PRIVATE KEY" not in path.read_bytes(), path


def test_errors_say_what_to_do(tmp_path, peerloom):
    assert "peer init" in peerloom("roster", "show", cwd=tmp_path, code=5)
    peerloom("init", "alone", cwd=tmp_path)
    assert "already has an identity" in peerloom("init", "alone", cwd=tmp_path, code=5)
    assert "Copy the whole line" in peerloom("join", "nonsense", cwd=tmp_path, code=5)
    assert "not the founder" in peerloom("invite", cwd=tmp_path, code=5)
    assert "no roster yet" in peerloom("kit", "make", "x.zip", cwd=tmp_path, code=5)


def test_start_hands_its_limits_to_the_links(peerloom, monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(
        "peerloom.peers.start.serve", lambda folder, file, site, **rest: given.append(site) or 0
    )
    peerloom(
        "start", "file.toml", "--largest-norm", "50", "--wait", "7", "--dead", "3", cwd=tmp_path
    )
    (site,) = given
    assert (site.largest_norm, site.settings.wait, site.settings.dead) == (50.0, 7.0, 3.0)
