"""More seeds: folders that grow, points that need them, what ends it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from peerloom.cli.points import check_same_or_new
from peerloom.config import read_file
from peerloom.core import ConfigError
from peerloom.papers import until_decided
from peerloom.papers.cli import reproduce
from peerloom.papers.recipes import RECIPES, Form
from peerloom.papers.recipes.checks import Check, Part
from peerloom.papers.recipes.intervals import LOOKS
from peerloom.papers.reproduce import reproduce_command
from peerloom.papers.until_decided import Budget, seconds_of_a_seed
from peerloom.runs import Run, Table
from peerloom.sweeps import Reading

pytestmark = pytest.mark.filterwarnings("ignore::peerloom.errors.Caution")

SHORT = ("problem.data=digits", "problem.model=svm", "until_delay=4.0", "rounds=10")
END = Reading("mean_accuracy")


def small(*checks):
    """A figure of two points whose runs take a moment."""
    own = RECIPES["dspodfl"]["fig3d"]
    table = own.table | {"algorithms": own.table["algorithms"][:1]}
    return replace(own, table=table, checks=checks, points={p: own.points[p] for p in ("0.5", "1")})


def held(name, point, seeds, answer):
    """A claim about one point that is open below so many seeds."""

    def parts(found):
        values = list(found.values(point, "DSpodFL", END).values())
        sign = {"holds": 1.0, "does not hold": -1.0, "open": 0.0}[answer]
        noise = [(-1.0) ** k for k in range(len(values))]
        return [
            Part(
                point,
                tuple(sign or x for x in noise) if len(values) >= seeds else tuple(noise),
                "above",
                0.0,
            )
        ]

    return Check(name, name, name, parts)


@pytest.fixture
def figure(monkeypatch, tmp_path, capsys):
    """Reproduces the small figure with these claims; returns what came of it."""

    def reproduce(*checks, budget=None, form=None):
        monkeypatch.setitem(RECIPES["dspodfl"], "fig3d", small(*checks))
        given = form or Form(settings=SHORT)
        reproduce_command("dspodfl", "fig3d", given, 1, tmp_path / "out", [], True, budget)
        return json.loads(capsys.readouterr().out)

    reproduce.seeds = lambda: {
        place.name: len(list(place.glob("*/run.json")))
        for place in sorted((tmp_path / "out").iterdir())
        if place.is_dir()
    }
    reproduce.out = tmp_path / "out"
    return reproduce


def test_a_folder_may_get_more_seeds_and_nothing_else(figure):
    figure(form=Form(seeds=1, settings=SHORT))
    assert figure.seeds() == {"a-0.5": 1, "a-1": 1}
    first = figure.out / "a-1/DSpodFL-seed42/run.json"
    before = first.stat().st_mtime_ns
    figure(form=Form(seeds=3, settings=SHORT))
    assert figure.seeds() == {"a-0.5": 3, "a-1": 3}
    assert first.stat().st_mtime_ns == before, "what was run stays"
    with pytest.raises(ConfigError, match=r"\[42, 43, 44\] there and \[42, 43\] here"):
        figure(form=Form(seeds=2, settings=SHORT))
    for other in ("problem.batch=4", "seeds=[42, 44, 43]", "seeds=[43, 44, 45, 46]"):
        with pytest.raises(ConfigError, match="other se"):
            figure(form=Form(settings=(*SHORT, other)))
    table = read_file(figure.out / "a-1/experiment.toml")
    check_same_or_new(figure.out / "a-1", table | {"seeds": [*table["seeds"], 7]})
    figure(form=Form(seeds=5, points=["1"], settings=SHORT))
    assert figure.seeds() == {"a-0.5": 3, "a-1": 5}, "points may differ in their number of seeds"


def test_seeds_are_added_where_a_claim_is_open(figure):
    claims = (held("early", "0.5", 0, "holds"), held("late", "1", 15, "does not hold"))
    document = figure(*claims, budget=Budget())
    assert figure.seeds() == {"a-0.5": LOOKS[0], "a-1": 15}
    assert [v["answer"] for v in document["verdicts"]] == ["holds", "does not hold"]
    assert "every claim that more seeds can decide was" in document["why"]
    assert document["command"].split("--set")[0].endswith("fig3d --until-decided ")


def test_no_more_seeds_than_asked_for_are_added(figure):
    document = figure(held("never", "1", 0, "open"), budget=Budget(seeds=12))
    assert figure.seeds() == {"a-0.5": LOOKS[0], "a-1": 12}
    assert document["verdicts"][0]["answer"] == "not decided here"
    assert "there were 12, the most that were asked for" in document["why"]


class Clock:
    """A clock by which every run takes ten seconds, when it was made and when it is read."""

    def __init__(self, monkeypatch):
        self.now, real = 0.0, until_decided.run_points

        def run_points(tables, *given, **named):
            runs, failures = real(tables, *given, **named)
            made = {run.path for some in runs.values() for run in some}
            self.now += 10.0 * len(made - self.known)
            self.known |= made
            return runs, failures

        self.known = set()
        monkeypatch.setattr(until_decided, "run_points", run_points)
        monkeypatch.setattr(until_decided, "seconds_of_a_seed", lambda runs: 10.0)
        monkeypatch.setattr(until_decided, "monotonic", lambda: self.now)


def test_a_budget_ends_it_and_the_same_command_goes_on(figure, monkeypatch):
    never = held("never", "1", 0, "open")
    clock = Clock(monkeypatch)
    document = figure(never, budget=Budget(minutes=1.0))
    # two seeds to know how long they take, four within the rest
    assert figure.seeds() == {"a-0.5": 1, "a-1": 5}
    assert clock.now == 60
    assert "1 minutes were spent" in document["why"]
    assert "--until-decided --budget 1" in document["command"]
    figure(never, budget=Budget(minutes=1.0))
    assert figure.seeds() == {"a-0.5": 1, "a-1": 11}
    assert clock.now == 120, "this command's minutes"
    figure(never, budget=Budget(seeds=12))
    assert figure.seeds() == {"a-0.5": LOOKS[0], "a-1": 12}


def test_it_goes_on_after_a_kill(figure, monkeypatch):
    """Killed within a look: what is on disk counts, and the numbers come out the same."""
    claim = held("late", "1", 15, "does not hold")
    real, calls = until_decided.run_points, []

    def killed(*given, **named):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*given, **named)

    monkeypatch.setattr(until_decided, "run_points", killed)
    with pytest.raises(KeyboardInterrupt):
        figure(claim, budget=Budget())
    assert figure.seeds() == {"a-0.5": LOOKS[0], "a-1": LOOKS[0]}
    document = figure(claim, budget=Budget())
    assert figure.seeds() == {"a-0.5": LOOKS[0], "a-1": 15}
    assert document["verdicts"][0]["answer"] == "does not hold"


def test_the_time_of_a_seed_is_the_sum_over_its_algorithms():
    def run(label, seed, seconds):
        times = {"started": "2026-01-01T00:00:00+00:00"}
        times["updated"] = f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}+00:00"
        info = {"label": label, "seed": seed, "status": "done"} | times
        return Run(Path(label), info, {}, {}, Table({"round": [0]}))

    runs = [run("a", 1, 10), run("a", 2, 12), run("a", 3, 3000), run("b", 1, 100)]
    assert seconds_of_a_seed(runs) == 112, "one that was interrupted for long does not count"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": 3.0}, "Give both, or neither"),
        ({"until_decided": True, "tiny": True}, "decides nothing"),
        ({"until_decided": True, "estimate": True}, "runs nothing"),
        ({"until_decided": True, "set_": ["seeds=[1]"]}, "which ones"),
    ],
)
def test_what_has_no_effect_is_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        reproduce("dspodfl", "fig2b", **given)
