"""What a problem measures besides loss and accuracy, wherever a run is shown, by its name."""

import io

import numpy as np
import pytest
from rich.console import Console

import peerloom as pl
from peerloom import measures
from peerloom.cli.peer_status import _lines
from peerloom.cli.up import _table
from peerloom.core import ConfigError, Evaluation
from peerloom.core.events import Evaluated, RoundDone, Started
from peerloom.peers.log import EventLog
from peerloom.peers.metrics import exposition
from peerloom.reports.page import write_report
from peerloom.reports.plots import report_pictures
from peerloom.reports.summary import summary
from peerloom.reports.terminal import render
from peerloom.runs import RunFolder
from peerloom.sweeps.readings import words_of
from tests import tasks
from tests.builders import experiment, quadratic
from tests.status_samples import facts


def printed(what):
    out = io.StringIO()
    Console(file=out, width=200).print(what)
    return out.getvalue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    found = []
    for rule in (pl.rules.DSpodFL(lr=0.1), pl.rules.DGD(lr=0.1)):
        folder = tmp_path_factory.mktemp("run")
        pl.simulate(tasks.run(tasks.noisy(), rule), out=folder)
        found.append(RunFolder(folder).read())
    return found


def test_tables_and_pictures_have_it(runs):
    told = summary(runs)
    for run, final in zip(runs, told.final, strict=True):
        for column in ("mean_f1", "average_f1", "mean_size"):
            assert final.figures[column].median == run.metrics[column][-1]
    heads = printed(render(told)).splitlines()
    assert any("f1" in line and "size" in line for line in heads)
    assert {"own-f1-delay", "own-f1-round"} <= {one.name for one in report_pictures(runs)}


def test_a_page_shows_it_and_says_what_it_means(runs, tmp_path):
    write_report(runs, tmp_path / "report.html", "two rules")
    page = (tmp_path / "report.html").read_text()
    assert "f1 of own models, mean" in page
    assert "f1, averaged model" in page
    assert measures.meaning("average_f1") in page


def test_a_run_is_made_again_from_its_folder(runs):
    """Functions that can be imported are named; the rest of a task is plain."""
    again = RunFolder(runs[0].path).experiment()
    result = pl.simulate(again)
    assert result.metrics["mean_f1"].tolist() == runs[0].metrics["mean_f1"].tolist()
    assert runs[0].config["problem"]["model"] == "tests.tasks:dropping"


def test_sweeps_have_words_for_it():
    assert words_of("mean_f1") == "f1"
    assert words_of("average_f1") == "f1 of the averaged model"
    assert words_of("gradients") == "gradients"


def test_peers_show_it():
    assert 'peerloom_metric{name="f1"} 0.6' in exposition(facts())
    lines = []
    log = EventLog(lines.append, clock=iter(range(0, 1000, 50)).__next__)
    for event in (
        Started(0),
        Evaluated(0, {"round": 0, "loss": 0.5, "f1": 0.75}),
        RoundDone(1, 1.0),
    ):
        log.observe(event)
    log._rounds = 10
    log.observe(RoundDone(2, 1.0))
    assert ", loss 0.5, f1 0.75, " in lines[-1]


def test_commands_show_it():
    status = facts() | {
        "name": "a",
        "run": "r",
        "status": "running",
        "alive": False,
        "updated": 0.0,
    }
    status |= {"rounds_per_second": 2.0, "seconds": {"compute": 1.0, "wait": 0.0, "waiting": 0.0}}
    status["checkpoint"] = {"round": 1}
    status["last"] |= {"round": 1}
    assert "f1 0.6 at round 1" in _lines(status)[0]
    shown = printed(_table("up", [status, status | {"last": {}}]))
    assert "f1" in shown
    assert "0.6" in shown


def test_a_name_that_is_a_column_already_is_refused(monkeypatch):
    exp = experiment(pl.graphs.ring(3), problem=quadratic(3))
    local = type(exp.problem.bind(pl.runtime.build_port(exp).place, pl.core.Draws(0)))
    found = Evaluation(np.zeros(4), None, {"loss": np.zeros(4)})
    monkeypatch.setattr(local, "evaluate", lambda self, x: found)
    with pytest.raises(ConfigError, match="'mean_loss' is another column"):
        pl.simulate(exp)
