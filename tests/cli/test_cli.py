"""The command line as a user meets it: real processes, exit codes, JSON, interruption."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

from peerloom.cli import main
from peerloom.runs import RunFolder
from tests.command import peerloom

FILE = """
title = "Small"
rounds = 30
seeds = [1, 2]
[graph]
name = "ring"
clients = 4
[schedule]
name = "Bernoulli"
nodes = 0.5
links = 0.5
[problem]
name = "Classification"
model = "svm"
batch = 4
[[algorithms]]
name = "DSpodFL"
lr = 0.1
[[algorithms]]
name = "DGD"
lr = 0.1
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "small.toml").write_text(FILE)
    return tmp_path


@pytest.mark.slow
def test_run_keeps_every_run_and_writes_one_report(place):
    done = peerloom("run", "small.toml", "--out", "out", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "DSpodFL" in done.stdout
    assert "Report: out/report.html" in done.stderr
    assert "━" not in done.stderr, "a progress bar was drawn although nobody watches"
    names = sorted(path.name for path in (place / "out").iterdir())
    assert names == [
        "DGD-seed1",
        "DGD-seed2",
        "DSpodFL-seed1",
        "DSpodFL-seed2",
        "experiment.toml",
        "report.html",
    ]
    assert "<html" in (place / "out" / "report.html").read_text()


@pytest.mark.slow
def test_the_built_in_example_in_a_tiny_form(place):
    done = peerloom("run", "--set", "rounds=20", "--seed", "1", "--out", "out", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["runs"]) == 5


@pytest.mark.slow
def test_json_is_one_document_and_nothing_else(place):
    done = peerloom(
        "run", "small.toml", "--out", "out", "--seed", "7", "--set", "rounds=4", "--json", cwd=place
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["report"] == "out/report.html"
    assert sorted(document["runs"]) == ["out/DGD-seed7", "out/DSpodFL-seed7"]
    table = RunFolder(place / "out" / "DGD-seed7").read().metrics
    assert table["round"].max() == 4


@pytest.mark.slow
def test_own_code_is_found_in_the_working_directory_or_where_path_says(place):
    (place / "code").mkdir()
    (place / "code" / "own_model.py").write_text(
        "from torch import nn\ndef net():\n    return nn.Linear(64, 10)\n"
    )
    # As the command `peerloom` is: Python itself adds no folder.
    installed = {"PYTHONSAFEPATH": "1"}
    words = [str(place / "small.toml"), "--set", "problem.model=own_model:net", "--set", "rounds=1"]
    for before, cwd in ((["--path", "code"], place), ([], place / "code")):
        done = peerloom(
            *before, "run", *words, "--seed", "1", "--out", "own", cwd=cwd, more=installed
        )
        assert done.returncode == 0, done.stderr
        grid = ["--grid", "problem.batch=4,8", "--jobs", "2"]
        swept = peerloom(*before, "sweep", *words, *grid, "--out", "swept", cwd=cwd, more=installed)
        assert swept.returncode == 0, swept.stderr
    done = peerloom("run", *words, "--out", "own", cwd=place, more=installed)
    assert done.returncode == 2
    assert "'own_model:net' cannot be imported" in done.stderr
    (place / "networkx.py").write_text(
        "raise AssertionError('a file here was taken for an installed module')"
    )
    assert peerloom("list", "rates", cwd=place, more=installed).returncode == 0


@pytest.mark.slow
def test_a_kept_config_repeats_the_run(place):
    peerloom("run", "small.toml", "--out", "out", cwd=place)
    again = peerloom("run", "out/DSpodFL-seed2/config.toml", "--out", "again", cwd=place)
    assert again.returncode == 0, again.stderr
    first, second = (place / "out" / "DSpodFL-seed2", place / "again" / "DSpodFL-seed2")
    one, two = (RunFolder(folder).read().metrics.drop("seconds") for folder in (first, second))
    assert one.equals(two)
    assert (first / "config.toml").read_text() == (second / "config.toml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_comparison_is_resumed_to_the_same_numbers(place, number):
    words = ["run", "small.toml", "--set", "rounds=3000", "--set", "evaluate.every=500"]
    command = [sys.executable, "-m", "peerloom", *words, "--out", "cut"]
    child = subprocess.Popen(
        command, cwd=place, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + 60
    while (
        not (place / "cut" / "DSpodFL-seed1" / "run.json").exists() and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    time.sleep(0.3)
    child.send_signal(number)
    _, said = child.communicate(timeout=180)
    assert child.returncode == 130, said
    assert "peerloom run --resume cut" in said
    statuses = [
        json.loads(path.read_text())["status"] for path in (place / "cut").glob("*/run.json")
    ]
    assert "interrupted" in statuses
    rest = peerloom("run", "--resume", "cut", cwd=place)
    assert rest.returncode == 0, rest.stderr
    whole = peerloom(*words, "--out", "whole", cwd=place)
    assert whole.returncode == 0, whole.stderr
    for folder in (place / "whole").glob("*-seed*"):
        one, two = (RunFolder(place / top / folder.name).read().metrics for top in ("whole", "cut"))
        assert one.drop("seconds").equals(two.drop("seconds")), folder.name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "none.toml"], 2, "There is no file none.toml"),
        (["run", "small.toml", "--set", "graph.clients=x"], 2, "graph.clients: 'x' is not allowed"),
        (["run", "small.toml", "--set", "graph.clients"], 2, "write a.b=value"),
        (["run", "small.toml", "--out", "."], 2, "exists and is not empty"),
        (["run", "small.toml", "--resume", "out"], 2, "give no file"),
        (["run", "small.toml", "--device", "cuda:9"], 2, "cannot be used here"),
        (["run", "--resume", "nowhere"], 4, "holds no run"),
        (["report", "nowhere"], 4, "holds no run"),
        (
            ["run", "small.toml", "--set", "problem.data={name='cifar10', path='no'}"],
            4,
            "peerloom data get cifar10 (170.1 MB)",
        ),
        (
            ["reproduce", "dspodfl", "fig2b", "--tiny", "--out", "small.toml"],
            2,
            "small.toml/curves: Not a directory.",
        ),
        (
            ["reproduce", "--summary", ".", "--out", "small.toml/x.md"],
            4,
            "There is no outcome.json",
        ),
        (["list", "nothing"], 2, "nothing"),
        (["fly"], 2, "No such command"),
    ],
)
def test_mistakes_have_an_exit_code_and_a_sentence(place, words, code, said):
    done = peerloom(*words, cwd=place)
    assert done.returncode == code, done.stderr
    assert said in re.sub(r"\s+", " ", done.stderr)
    assert "Traceback" not in done.stderr


def test_an_interruption_ends_with_a_sentence(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("peerloom.papers.reproduce.list_command", interrupted)
    monkeypatch.setattr("sys.argv", ["peerloom", "reproduce"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert "Interrupted." in capsys.readouterr().err


@pytest.mark.slow
def test_divergence_is_exit_code_3_and_spares_the_others(place):
    A, b = [[[1.0]]] * 4, [[1.0]] * 4
    steep = ["--set", f"problem={{name='Quadratic', A={A}, b={b}}}"]
    steep += ["--set", "algorithms.DGD.lr=1e30"]
    done = peerloom("run", "small.toml", *steep, "--out", "out", cwd=place)
    assert done.returncode == 3, done.stderr
    assert re.search(
        r"DGD, seed 1: DGD diverged: in round \d+, row 0 is no longer finite", done.stderr
    )
    assert (
        json.loads((place / "out" / "DSpodFL-seed2" / "run.json").read_text())["status"] == "done"
    )


@pytest.mark.slow
def test_a_report_is_made_of_the_folders_that_are_named(place):
    peerloom("run", "small.toml", "--out", "out", cwd=place)
    done = peerloom(
        "report", "out/DSpodFL-seed1", "out/DGD-seed1", "-o", "both.html", "--json", cwd=place
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["runs"]) == 2
    assert (place / "both.html").exists()


@pytest.mark.slow
def test_list_names_every_part_and_doctor_checks_the_installation(place):
    every = json.loads(peerloom("list", "--json", cwd=place).stdout)
    assert "DSpodFL" in every["algorithms"]
    entry = next(
        e
        for e in json.loads(peerloom("list", "algorithms", "--json", cwd=place).stdout)
        if e["name"] == "DFedAvg"
    )
    assert entry["arguments"] == {
        "lr": "required", "D": None, "rounding": "ceil", "sgd_while_aggregating": False,
        "period": "D+1",
    }  # fmt: skip
    for kind in ("models", "laws"):
        shown = peerloom("list", kind, cwd=place)
        assert shown.returncode == 0, shown.stderr
        for name in every[kind]:
            assert name in shown.stdout
        assert kind != "models" or "268,362" in shown.stdout
    doctor = peerloom("doctor", "--json", cwd=place)
    assert doctor.returncode == 0, doctor.stdout
    assert {"torch", "numpy", "processors"} <= {
        fact["what"] for fact in json.loads(doctor.stdout)["facts"]
    }


def test_version_and_help(place):
    import peerloom as pl

    assert peerloom("--version", cwd=place).stdout.strip() == f"peerloom {pl.__version__}"
    for command in ("run", "list", "report", "doctor", "bench", "data"):
        shown = peerloom(command, "--help", cwd=place)
        assert shown.returncode == 0
        assert "Usage" in shown.stdout


@pytest.mark.parametrize("words", [[], ["--free"], ["--async"]])
def test_free_and_async_are_one_flag(words, monkeypatch, tmp_path):
    pytest.importorskip("cryptography")
    given = []
    monkeypatch.setattr("peerloom.cli.up.up_command", lambda *args: given.append(args[-2]))
    monkeypatch.setattr(
        "peerloom.peers.start.serve", lambda _, file, site, **more: given.append(site.free) or 0
    )
    for command in (["up"], ["peer", "start", "file.toml", "--folder", str(tmp_path)]):
        monkeypatch.setattr(sys, "argv", ["peerloom", *command, *words])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
    assert given == [bool(words)] * 2
