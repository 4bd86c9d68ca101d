"""Peers as users meet them: the command line, metrics, logs, and every usual mistake."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from safetensors import safe_open

import peerloom as pl
from peerloom.cli import main
from peerloom.code import loading_code_by
from peerloom.config import spec_hash
from peerloom.errors import ConfigError
from peerloom.peers.experiments import only_experiment, run_folder
from peerloom.peers.export import export_peer
from peerloom.peers.federation import found_on_this_machine
from peerloom.peers.metrics import METRICS, exposition
from peerloom.peers.site_code import SiteCode
from peerloom.peers.status import read_status
from peerloom.problems.own import fill
from peerloom.runtime import prepare_process
from peerloom.transport import Home, Identity, Member, Roster
from tests import status_samples as sample
from tests.federation import free_ports
from tests.memory_runs import wait_for

pytestmark = pytest.mark.slow  # starts processes, or runs for long

NET = """
import torch

def network():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
"""
FILE = """
rounds = {rounds}
dtype = "float64"
[graph]
name = "complete"
clients = 2
[problem]
name = "Classification"
model = "sites_net:network"
batch = 4
data = {{ name = "own", features = 3, classes = 2 }}
[algorithm]
name = "DSpodFL"
lr = 0.05
"""


class Sites:
    """Two sites in one folder, with a network and samples; their processes are always ended."""

    def __init__(self, root, rounds=100_000):
        self.root, self.file, self.processes = root, root / "two.toml", []
        self.file.write_text(FILE.format(rounds=rounds))
        (root / "sites_net.py").write_text(NET)
        rng = np.random.default_rng(5)
        for name in ("row-0", "row-1"):
            x = rng.normal(size=(20, 3))
            np.savez(
                root / f"{name}.npz",
                x=x,
                y=(x.sum(axis=1) > 0).astype(int),
                test_x=x,
                test_y=(x[:, 0] > 0).astype(int),
            )
        self.exp = only_experiment(self.file)
        self.homes = found_on_this_machine(self.exp, root / "peers", self.file)
        for home in self.homes:
            (home.folder / "code").mkdir()
            (home.folder / "code" / "sites_net.py").write_text(NET)
            SiteCode(home.folder).allow("sites_net:network")
        self.env = os.environ | {"OMP_NUM_THREADS": "1"}

    def sign(self, file, *rows):
        """The founder signs another file, and these sites hear of it."""
        founder = self.homes[0]
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        roster = max((home.roster for home in self.homes), key=lambda roster: roster.version)
        roster = roster.amended(founder.identity, file=digest)
        for row in rows:
            self.homes[row].trust(roster)

    def start(self, row, *words, file=None, data=True, log=None):
        name = f"row-{row}"
        samples = ["--data", f"{name}.npz"] if data else []
        file_of_log = (self.root / f"{name}.log").open("a")
        command = [sys.executable, "-m", "peerloom", "peer", "start", str(file or self.file)]
        command += ["--folder", f"peers/{name}", *samples, *words]
        to = file_of_log if log is None else log
        process = subprocess.Popen(command, cwd=self.root, env=self.env, stdout=to, stderr=to)
        file_of_log.close()
        self.processes.append(process)
        return process

    def said(self, row):
        return (self.root / f"row-{row}.log").read_text()

    def status(self, row, exp=None):
        return read_status(run_folder(self.homes[row], exp or self.exp))

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def sites(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # where the network's module is found
    made = []

    def make(**how):
        made.append(Sites(tmp_path, **how))
        return made[-1]

    yield make
    for each in made:
        each.end()
    sys.modules.pop("sites_net", None)


def page_at(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
            assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return page.read().decode()
    except urllib.error.URLError:
        return ""


def parsed(page):
    """Every sample of a page, by name and labels; anything that is not of the format fails."""
    found, kinds = {}, {}
    for line in page.splitlines():
        if line.startswith("# "):
            word, name, rest = re.fullmatch(r"# (HELP|TYPE) (\w+) (.+)", line).groups()
            if word == "TYPE":
                kinds[name] = rest
            continue
        name, labels, value = re.fullmatch(r'(\w+)(\{(?:\w+="[^"\\]*",?)+\})? (\S+)', line).groups()
        assert name in kinds
        assert (kinds[name] == "counter") == name.endswith("_total")
        found[name, labels or ""] = float(value)
    return found


# -- that it works


def test_two_sites_with_own_module_and_samples_give_the_simulators_models(sites):
    """With own module, own samples, metrics and JSON logs, models are those of a simulation."""
    two = sites(rounds=150)
    ports = free_ports(2)
    started = [
        two.start(row, "--log-json", "--metrics", f"127.0.0.1:{ports[row]}") for row in (0, 1)
    ]
    for process in started:
        assert process.wait(180) == 0, two.said(0) + two.said(1)
    mine = []
    for name in ("row-0", "row-1"):
        with np.load(two.root / f"{name}.npz") as file:
            mine.append(
                fill(
                    two.exp.problem.data,
                    pl.problems.Dataset.of(file["x"], file["y"], file["test_x"], file["test_y"]),
                )
            )
    together = pl.problems.Dataset.of(
        np.concatenate([data.x for data in mine]),
        np.concatenate([data.y for data in mine]),
        owners=np.repeat([0, 1], 20),
    )
    problem = replace(two.exp.problem, data=together, partition=pl.problems.Natural())
    result = pl.simulate(replace(two.exp, problem=problem), path="links")
    for row, data in enumerate(mine):
        folder = run_folder(two.homes[row], two.exp)
        judged = safetensors.numpy.load_file(folder / "judged" / "150.safetensors")
        assert np.array_equal(judged["x"], result.x[row].numpy())
        module = two.exp.problem.module(0).double()
        torch.nn.utils.vector_to_parameters(result.x[row], module.parameters())
        hits = module(torch.from_numpy(data.test_x).double()).argmax(dim=1).numpy() == data.test_y
        assert two.status(row)["last"]["accuracy"] == pytest.approx(hits.mean()), (
            "judged on its own test samples"
        )
        check_export(two, row, module.state_dict())
        lines = [json.loads(line) for line in two.said(row).splitlines()]
        where = {"round", "run", "incarnation", "way"}
        assert {"at", "peer", "kind", "about", "text"} | where == set(lines[0])
        assert {line["kind"] for line in lines} >= {"up", "end"}
        assert {line["about"] for line in lines if line["kind"] == "up"} == {f"row-{1 - row}"}
    check_started_once_more(two)


def check_started_once_more(two):
    """A run that all have finished: it says so, opens no link and leaves everything as it is."""
    before = two.status(0)
    assert before["complete"]
    said = len(two.said(0))
    assert two.start(0, "--log-file", "peer.log").wait(180) == 0
    assert "row-0 end: round 150, done before, here and at every neighbour" in two.said(0)[said:]
    assert (two.root / "peer.log").read_text() == two.said(0)[said:]
    assert two.status(0) == before
    folder = run_folder(two.homes[0], two.exp)
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps(status | {"complete": False}))
    again = two.start(0)
    wait_for(lambda: two.status(0)["incarnation"] == before["incarnation"] + 1)  # serves neighbours
    again.terminate()
    assert again.wait(180) in (0, 130)


def check_export(two, row, wanted):
    """The peer's model as a file: the module's names, the very numbers, and what it is."""
    file = two.root / f"out-{row}" / "model.safetensors"
    exp, about = export_peer(two.homes[row], file)
    assert exp.name == two.exp.name
    with safe_open(file, "pt") as opened:
        assert opened.metadata() == about
        assert {name: opened.get_tensor(name).tolist() for name in opened.keys()} == {  # noqa: SIM118
            name: tensor.tolist() for name, tensor in wanted.items()
        }
    assert (about["round"], about["rounds"], about["model"]) == ("150", "150", f"peer row-{row}")
    assert about["experiment"] == spec_hash(two.exp)
    with pytest.raises(ConfigError, match="no run 'x'"):
        export_peer(two.homes[row], file, "x")


def test_metrics_of_a_running_peer_are_well_formed_and_move(sites):
    two = sites()
    (port,) = free_ports(1)
    copy = two.root / "peer.prom"
    process = two.start(
        0, "--metrics", f"127.0.0.1:{port}", "--metrics-file", str(copy), "--share", "status"
    )
    alone = wait_for(lambda: page_at(port))
    assert parsed(alone)["peerloom_link_up", '{peer="row-1",dir="out"}'] == 0
    assert wait_for(lambda: parsed(page_at(port))["peerloom_waiting_seconds", ""] > 0.2)
    assert copy.stat().st_mode & 0o777 == 0o644
    page, file = (
        {key for key in parsed(text) if "_member_" not in key[0] and "_reconnects_" not in key[0]}
        for text in (alone, copy.read_text())
    )
    assert page == file, "the same text, but for cards and attempts to dial, which come later"
    two.start(1, "--share", "loss")
    if hasattr(os, "SCHED_BATCH"):
        assert os.sched_getscheduler(process.pid) == os.SCHED_BATCH
    first = wait_for(
        lambda: (found := parsed(page_at(port)))["peerloom_iteration", ""] > 20 and found
    )
    other = ("peerloom_member_age_seconds", '{member="row-1"}')
    wait_for(lambda: other in parsed(page_at(port)))
    later = wait_for(
        lambda: (found := parsed(page_at(port)))["peerloom_iteration", ""] > 60 and found
    )
    assert later[other] < 60
    assert first["peerloom_link_up", '{peer="row-1",dir="in"}'] == 1
    assert {name.removeprefix("peerloom_") for name, _ in later} >= set(METRICS) - {
        "refusals_total",
        "disk_budget_bytes",  # without a budget
        "metric",  # of a problem that has none of its own
    }
    counters = [key for key in first if key[0].endswith("_total")]
    assert all(later[key] >= first[key] for key in counters)
    out = '{peer="row-1",dir="out",result="acked"}'
    more = later["peerloom_bytes_total", out] - later["peerloom_frames_total", out] * 26 * 8
    assert more >= 0
    assert more % (3 * 8) == 0, (
        "rows of 26 numbers, and now and then a sketch with deviation, weight and version"
    )
    assert later["peerloom_ledger_imbalance", ""] == 0
    assert 0 < later["peerloom_rtt_seconds", '{peer="row-1",dir="out"}'] < 5
    assert later["peerloom_staleness_iterations", '{peer="row-1",dir="in"}'] <= 1
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/anything", timeout=5)

    # the same in words, and a clean end
    status = cli(two, "status", "--folder", "peers/row-0")
    assert re.search(r"running, round \d+ of 100000", status)
    assert "row-1" in status

    def overview():
        found = json.loads(cli(two, "overview", "--json", "--folder", "peers/row-0"))
        return found if found[1]["age"] is not None else None

    first, second = wait_for(overview)  # the status file is a little older than the page
    assert (first["member"], second["member"]) == ("row-0", "row-1")
    assert first["status"] == "running"
    assert second["age"] < 60
    assert first["loss"] is None, "which it did not share"
    assert re.fullmatch(r"\d+ \S+", second["audit"]), "so that neighbours know where its log is"
    assert "row-1" in cli(two, "overview", "--folder", "peers/row-0")
    cli(two, "stop", "--folder", "peers/row-0")
    assert process.wait(180) == 0
    assert "stopped; the same command goes on from here" in two.said(0)
    assert two.status(0)["checkpoint"]["round"] == two.status(0)["round"] > 60


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="this system schedules in one way")
@pytest.mark.parametrize(
    ("chosen", "kept"), [("SCHED_OTHER", "SCHED_BATCH"), ("SCHED_IDLE", "SCHED_IDLE")]
)
def test_a_peer_asks_not_to_be_interrupted_unless_told_otherwise(chosen, kept):
    found = []

    def work():
        os.sched_setscheduler(0, getattr(os, chosen), os.sched_param(0))
        prepare_process(batch=True, keep_memory=False)
        found.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=work)  # the setting is one of each thread
    thread.start()
    thread.join()
    assert found == [getattr(os, kept)]


def cli(sites, *words, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "peerloom", "peer", *words], cwd=sites.root,
        env=sites.env | {"COLUMNS": "200"}, check=False, capture_output=True, text=True,
        timeout=180,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_words_of_a_neighbour_never_become_metric_labels():
    out = sample.facts()["links"][0] | {
        "frames": {"sent": 2, "refused_norm": 1, "refused_evil": 1, "refused_worse": 2},
        "reconnects": {"x": 1},
    }
    said = {"by_peer_wrong_run": 1, "by_peer_nonsense": 4, "norm": 1}
    found = parsed(exposition(sample.facts(links=[out], refusals=said, last={})))
    of = '{peer="b",dir="out",result='
    assert found["peerloom_frames_total", of + '"refused_other"}'] == 3
    assert found["peerloom_frames_total", of + '"refused_norm"}'] == 1
    assert found["peerloom_refusals_total", '{why="other"}'] == 4
    assert found["peerloom_refusals_total", '{why="by_peer_wrong_run"}'] == 1
    assert found["peerloom_reconnects_total", '{peer="b",dir="out",why="other"}'] == 1
    assert ("peerloom_loss", "") not in found


@pytest.mark.parametrize("behind", ["a full disk", "a closed pipe"])
def test_a_peer_whose_lines_nobody_takes_goes_on(sites, behind):
    """They go to a file on a full disk, or to a program that has ended."""
    two = sites(rounds=200)
    two.start(1)
    to = os.open("/dev/full", os.O_WRONLY)
    if behind == "a closed pipe":
        os.close(to)
        read, to = os.pipe()
        os.close(read)
    process = two.start(0, log=to)
    os.close(to)
    assert process.wait(180) == 0
    assert two.status(0)["status"] == "done"


# -- mistakes


def test_a_second_process_and_another_file_are_refused(sites):
    """A second process of a peer ends with code 5; another file is refused at both ends."""
    two = sites()
    assert two.start(0, "--device", "cuda:99").wait(180) == 2
    assert "Device 'cuda:99' cannot be used here" in two.said(0)
    assert "Traceback" not in two.said(0)
    two.start(0)
    wait_for(lambda: (run_folder(two.homes[0], two.exp) / "status.json").exists())
    other = two.root / "other.toml"
    other.write_text(two.file.read_text().replace("lr = 0.05", "lr = 0.06"))
    two.sign(other, 1)
    two.start(1, file=other)
    twice = two.start(0, "--listen", f"127.0.0.1:{free_ports(1)[0]}")
    assert twice.wait(180) == 5
    assert "in use by another process of this peer" in two.said(0)
    reserve = two.homes[0].folder / "reserve.bin"
    assert reserve.exists(), "the room for a roster is still that of the one that runs"
    with loading_code_by(SiteCode(two.homes[0].folder)):
        exp = only_experiment(other)
    wait_for(lambda: "row-1 refuses this peer: wrong_run (the two run different" in two.said(0), 20)
    wait_for(
        lambda: (
            "refused row-1: wrong_run" in two.said(0) and "refused row-0: wrong_run" in two.said(1)
        ),
        20,
    )
    wait_for(lambda: two.status(1, exp)["refusals"].get("by_peer_wrong_run", 0) > 0)
    told = cli(two, "status", "--folder", "peers/row-1")
    assert "neighbours refused this peer" in told
    assert "the two run different experiment files" in told
    # row 0's port is taken by row 0: another experiment of the same peer cannot listen there
    two.sign(other, 0)
    assert two.start(0, file=other).wait(180) == 5
    assert "Cannot listen on 127.0.0.1" in two.said(0)


@pytest.fixture
def refused(sites, capfd, monkeypatch):
    """Start a peer that must fail, in this process, and see what it says."""
    two = sites()

    def run(row, *words, code, file=None, data=True):
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        samples = ["--data", f"row-{row}.npz"] if data else []
        argv = ["peerloom", "peer", "start", str(file or two.file), "--folder", f"peers/row-{row}"]
        argv += [*samples, *words]
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as done:
            main()
        for number, handler in before.items():
            signal.signal(number, handler)
        said = capfd.readouterr().err
        assert done.value.code == code, said
        return said

    run.sites = two
    return run


def test_mistakes_at_the_start_are_named(refused):
    two = refused.sites
    assert "Give this site's: --data" in refused(0, code=2, data=False)
    assert "There is no file nothing.csv" in refused(0, "--data", "nothing.csv", code=4, data=False)
    np.savez(two.root / "wide.npz", x=np.ones((4, 5)), y=np.array([0, 1, 0, 1]))
    assert "samples of shape [3]" in refused(0, "--data", "wide.npz", code=4, data=False)
    assert "plain text, so they are served on this machine only" in refused(
        0, "--metrics", "0.0.0.0:9464", code=2
    )
    assert "is no address" in refused(0, "--metrics", "9464", code=5)
    key = Path("peers/row-0/identity.key")
    key.chmod(0o640)
    assert "may be read by others (mode 0640)" in refused(0, code=5)
    key.chmod(0o600)
    assert "is missing" in refused(7, code=5)
    Home.create(Path("peers/row-9"), "row-9", ("127.0.0.1:7400",), found=False)
    assert "no roster yet" in refused(9, code=5)
    assert "There is no file" in refused(0, code=2, file=two.root / "none.toml")
    twice = two.root / "twice.toml"
    twice.write_text("seeds = [1, 2]\n" + two.file.read_text())
    two.sign(twice, 0)
    assert "holds 2 runs" in refused(0, code=2, file=twice)


def test_a_roster_that_does_not_fit_is_refused(refused):
    two, home = refused.sites, refused.sites.homes[0]
    three = two.root / "three.toml"
    three.write_text(two.file.read_text().replace("clients = 2", "clients = 3"))
    two.sign(three, 0)
    assert "3 rows, but the roster 2 members" in refused(0, code=2, file=three)
    two.sign(two.file, 0)
    signed = home.roster.amended(home.identity, spec="0" * 64)
    home.trust(signed)
    assert "The founder signed experiment 000000000000" in refused(0, code=2)
    home.trust(signed.amended(home.identity, spec="", links=()))
    assert "links of the roster are not those of the experiment" in refused(0, code=2)
    stranger = Identity.create(two.root / "stranger")
    forged = Roster(stranger.id, 1, 0, (Member("x", stranger.certificate.decode()),)).signed(
        stranger
    )
    (home.folder / "roster.json").write_bytes(forged.to_bytes())
    assert "not by" in refused(0, code=5)
