"""Many runs at once: same bits as in turn, a killed process goes on, a stop loses nothing."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import polars
import pytest
import tomli_w

from peerloom.cli.sweep import grid_points, sweep_command
from peerloom.config import comparison_from
from peerloom.core import ConfigError, DivergedError
from peerloom.peers.federation import Federation
from peerloom.runs import RunFolder, folder_name, simulate
from peerloom.runs.pool import Job, run_jobs
from tests.command import run_here

pytestmark = pytest.mark.slow  # starts processes, or runs for long


def table(rounds, seeds=(1, 2)):
    return {
        "rounds": rounds,
        "seeds": list(seeds),
        "graph": {"name": "ring", "clients": 5},
        "problem": {"name": "Classification", "model": "softmax", "data": "digits", "batch": 8},
        "evaluate": {"every": max(1, rounds // 4)},
        "algorithms": [{"name": "DSpodFL", "lr": 0.05}, {"name": "DSGT", "lr": 0.05}],
    }


def jobs_of(given, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.toml").write_text(tomli_w.dumps(given))
    experiments = comparison_from(given).experiments
    return [
        Job(folder / "experiment.toml", k, folder / folder_name(exp))
        for k, exp in enumerate(experiments)
    ]


def without_time(folder):
    return RunFolder(folder).read().metrics.drop("seconds")


def test_runs_at_once_are_those_one_after_another(tmp_path):
    given = table(40)
    events = []
    jobs = jobs_of(given, tmp_path / "pool")
    run_jobs(jobs, 2, tell=lambda k, event: events.append((k, event)), stop=lambda: False)
    assert sorted(k for k, event in events if event.get("status") == "done") == [0, 1, 2, 3]
    for exp, job in zip(comparison_from(given).experiments, jobs, strict=True):
        simulate(exp, out=tmp_path / "alone")
        assert without_time(job.folder).equals(without_time(tmp_path / "alone"))
        assert RunFolder(job.folder).info()["status"] == "done"


def _child_of(pid):
    """The process ids of a process's children, as Linux lists them."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found through /proc")
def test_a_killed_process_is_started_again_and_goes_on(tmp_path):
    given = table(15_000, seeds=[1]) | {"algorithms": [{"name": "DSpodFL", "lr": 0.05}]}
    killed, events = [], []

    def tell(k, event):
        events.append(event)
        if event.get("round", 0) > 100 and not killed:
            (worker,) = [
                pid
                for pid in _child_of(os.getpid())
                if b"pool_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            (child,) = _child_of(worker)
            killed.append(child)
            os.kill(child, signal.SIGKILL)

    (job,) = jobs_of(given, tmp_path)
    run_jobs([job], 1, tell=tell, stop=lambda: False)
    assert killed
    assert [event["status"] for event in events if "status" in event] == ["again", "done"]
    simulate(comparison_from(given).experiments[0], out=tmp_path / "alone")
    assert without_time(job.folder).equals(without_time(tmp_path / "alone"))


def test_a_stop_saves_what_is_on_its_way_and_the_next_call_goes_on(tmp_path):
    given = table(15_000, seeds=[1]) | {"algorithms": [{"name": "DSpodFL", "lr": 0.05}]}
    (job,) = jobs_of(given, tmp_path)
    rounds = []
    run_jobs(
        [job],
        2,
        tell=lambda k, event: rounds.append(event.get("round", 0)),
        stop=lambda: max(rounds, default=0) > 50,
    )
    info = RunFolder(job.folder).info()
    assert (info["status"], 50 < info["rounds"] < 15_000) == ("interrupted", True)
    run_jobs([job], 2, tell=lambda k, event: None, stop=lambda: False)
    assert RunFolder(job.folder).info()["status"] == "done"
    simulate(comparison_from(given).experiments[0], out=tmp_path / "alone")
    assert without_time(job.folder).equals(without_time(tmp_path / "alone"))


def test_what_fails_is_told_and_the_others_go_on(tmp_path):
    given = table(20, seeds=[1])
    jobs = jobs_of(given, tmp_path)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(tomli_w.dumps(given | {"rounds": "many"}))
    events = []
    run_jobs(
        [Job(wrong, 0, tmp_path / "x"), *jobs],
        1,
        tell=lambda k, event: events.append((k, event)),
        stop=lambda: False,
    )
    told = {k: event for k, event in events if "status" in event}
    assert told[0]["status"] == "failed"
    assert "rounds: 'many' is not allowed" in told[0]["message"]
    assert [told[k]["status"] for k in (1, 2)] == ["done", "done"]


def test_a_grid_is_every_combination():
    assert list(grid_points(["a.lr=1,2", "b.lr=[1, 2],3"])) == [
        "a.lr=1 b.lr=[1, 2]",
        "a.lr=1 b.lr=3",
        "a.lr=2 b.lr=[1, 2]",
        "a.lr=2 b.lr=3",
    ]
    for wrong in ([], ["a"], ["a=1,1"], ["a=1,,2"], ["a=1", "a=2"]):
        with pytest.raises(ConfigError, match="--grid"):
            grid_points(wrong)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_sweep_runs_every_point_and_goes_on(jobs, tmp_path, capsys):
    file, out = tmp_path / "mine.toml", tmp_path / "out"
    file.write_text(tomli_w.dumps(table(10, seeds=[1])))
    for _ in range(2):
        sweep_command(file, ["problem.batch=4,8"], ["rounds=12"], jobs, out, ["csv"], as_json=False)
    shown = capsys.readouterr().out
    assert "batch=4" in shown
    assert "batch=8" in shown
    assert RunFolder(out / "batch=8" / "DSGT-seed1").read().config["problem"]["batch"] == 8
    assert RunFolder(out / "batch=4" / "DSGT-seed1").info()["rounds"] == 12
    assert (out / "batch=4" / "report.html").exists()
    page = (out / "sweep.html").read_text()
    assert '<a href="batch%3D8/report.html">batch=8</a>' in page
    ended = polars.read_csv(out / "pictures" / "accuracy-at-the-end.csv").filter(label="DSGT")
    runs = [RunFolder(out / f"batch={k}" / "DSGT-seed1").read() for k in (4, 8)]
    assert ended["x"].to_list() == [4, 8]
    assert ended["value"].to_list() == [run.metrics["mean_accuracy"][-1] for run in runs]
    for name in ("accuracy at the end", "accuracy, against delay"):
        assert page.count(f'aria-label="mine: {name}"') == 2  # wide, narrow
    before = time.time()
    assert before > (out / "batch=4" / "DSGT-seed1" / "run.json").stat().st_mtime


def test_a_sweep_says_who_diverged_and_checks_all_points_first(tmp_path, capsys):
    file, out = tmp_path / "mine.toml", tmp_path / "out"
    steep = {"name": "Quadratic", "A": [[[1.0]]] * 3, "b": [[1.0]] * 3}
    given = {
        "rounds": 20,
        "graph": {"name": "ring", "clients": 3},
        "problem": steep,
        "evaluate": {"every": 1},
    }
    file.write_text(tomli_w.dumps(given | {"algorithms": [{"name": "DGD", "lr": 0.1}]}))
    with pytest.raises(ConfigError, match="lr"):
        sweep_command(file, ["algorithms.DGD.lr=0.1,abc"], [], 1, out, [], as_json=False)
    assert not out.exists()
    with pytest.raises(DivergedError):
        sweep_command(file, ["algorithms.DGD.lr=0.1,1e30"], [], 1, out, [], as_json=False)
    assert "diverged" in capsys.readouterr().out
    assert '<td class="">diverged</td>' in (out / "sweep.html").read_text()


def test_every_run_computes_where_it_is_told_to(tmp_path, monkeypatch, capsys):
    """On a device that computes nothing, all say so: runs at once, peers, and commands first."""
    words = "Device 'meta' cannot be used here"
    jobs, heard = jobs_of(table(3), tmp_path / "pool"), []
    jobs = [replace(job, device="meta") for job in jobs]
    run_jobs(jobs, 2, tell=lambda number, event: heard.append(event), stop=lambda: False)
    assert heard
    assert all(event["status"] == "failed" and words in event["message"] for event in heard)
    (exp, *_) = comparison_from(table(3)).experiments
    federation = Federation(exp, tmp_path / "peers", device="meta")
    federation.start(0)
    federation._running[0].join(60)
    assert federation.exit_code(0) == ConfigError.exit_code
    assert words in federation.said(0)
    file = tmp_path / "file.toml"
    file.write_text(tomli_w.dumps(table(3)))
    monkeypatch.chdir(tmp_path)
    for command in (["run"], ["up"], ["sweep", "--grid", "seed=1,2"]):
        code, _, said = run_here(
            monkeypatch, capsys, command[0], file, *command[1:], "--device", "meta"
        )
        assert (code, words in said) == (ConfigError.exit_code, True), (command, said)
    rehearsal = ("up", file, "--as", "north", "--device", "cuda")
    code, _, said = run_here(monkeypatch, capsys, *rehearsal)
    assert (code, "computes on the CPU" in said) == (ConfigError.exit_code, True)
