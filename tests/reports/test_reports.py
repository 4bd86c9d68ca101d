"""Reports: tables against plain loops, and a page that is whole, safe and self-contained."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import math
import re
import statistics
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from rich.console import Console

import peerloom
from peerloom import graphs, laws, problems
from peerloom.core.events import each_round
from peerloom.measures import METRICS, TRAINING
from peerloom.reports import render, summary, write_report
from peerloom.reports.curves import curve
from peerloom.reports.export import export
from peerloom.reports.groups import ACCURACY, grouped
from peerloom.reports.network import graph_panel
from peerloom.reports.picture import Picture
from peerloom.reports.plots import client_panel, report_pictures
from peerloom.reports.provenance import about
from peerloom.reports.sheet import draw
from peerloom.rules import DGD, DSpodFL
from peerloom.runs import RunFolder, Table
from peerloom.schedules import Bernoulli
from tests.builders import quadratic

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>"
SECTIONS = (
    "against delay, bytes and rounds",
    "Consensus",
    "The graph",
    "Delay to reach a target",
    "at equal delay",
    "Final figures",
    "Who is left behind",
    "Configuration and sources",
)


def run_in(folder, problem, algorithm, seed, rounds=30, label="", stop_after=None, **options):
    graph = graphs.geometric(4, radius=0.8, seed=seed)
    options = {"schedule": Bernoulli(laws.Uniform(0.2, 1.0), laws.Uniform(0.2, 1.0)), **options}
    exp = peerloom.Experiment(
        graph, problem, algorithm, rounds=rounds, seed=seed, label=label, **options
    )
    seen = []
    stop = None if stop_after is None else lambda: len(seen) > stop_after
    path = folder / f"{exp.name.replace('/', '_')}-{algorithm.lr}-{seed}"
    peerloom.simulate(exp, out=path, observers=[each_round(seen.append)], stop=stop)
    return RunFolder(path).read()


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Two algorithms, two seeds, digits."""
    folder, problem = (
        tmp_path_factory.mktemp("digits"),
        problems.Classification("softmax", problems.digits()),
    )
    rules = DSpodFL(lr=0.5), DGD(lr=0.5)
    return [
        run_in(folder, problem, rule, seed, evaluate=peerloom.Evaluate(every=3))
        for rule in rules
        for seed in (1, 2)
    ]


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Quadratics, which have no accuracy; one run was stopped early, one label is hostile."""
    folder, problem = tmp_path_factory.mktemp("quadratic"), quadratic(4)
    return [
        run_in(folder, problem, DSpodFL(lr=0.05), 1),
        run_in(folder, problem, DSpodFL(lr=0.05), 2, stop_after=8),
        run_in(folder, problem, DGD(lr=0.05), 1, label=HOSTILE),
    ]


def test_classes_are_shown_where_they_were_dealt_unevenly(learned, tmp_path):
    dealt = problems.Classification("softmax", problems.digits(), problems.Labels(per_client=5))
    runs = [run_in(tmp_path, dealt, DSpodFL(lr=0.5), seed, rounds=2) for seed in (1, 2)]
    page = text_of(runs, tmp_path)
    assert "which client holds which classes" in page
    for run in runs:
        shown = re.findall(r"<title>class (\d+), client (\d+): ([\d,]+) samples", page)
        for label, client, count in (
            (k, i, n) for k, line in enumerate(run.holdings) for i, n in enumerate(line) if n
        ):
            assert (str(label), str(client), f"{count:,}") in shown
    assert "which client holds which classes" not in text_of(learned, tmp_path)  # IID


def text_of(runs, tmp_path, title="A title"):
    return write_report(runs, tmp_path / "deep" / "report.html", title).read_text(encoding="utf-8")


def charts_of(text):
    found = re.search(
        r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL
    )
    return json.loads(found[1])


def drawings(text, chart):
    """The drawings of a chart, for screens and for phones."""
    found = re.search(rf'<div class="plot" id="{chart}">(.*?)</div>', text, re.DOTALL)
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", found[1], re.DOTALL)]


def interpolated(rows, delay, name):
    for before, after in itertools.pairwise(rows):
        if before["delay"] <= delay <= after["delay"] and before["delay"] < after["delay"]:
            share = (delay - before["delay"]) / (after["delay"] - before["delay"])
            return before[name] + share * (after[name] - before[name])
    raise AssertionError("the delay lies outside the run")


def first_row(run, target):
    return next((row for row in run.metrics.rows() if row["mean_accuracy"] >= target), None)


def test_page_has_every_section_and_loads_nothing(learned, tmp_path):
    text = text_of(learned, tmp_path)
    for words in (*SECTIONS, "A title", "DSpodFL", "DGD", "4 clients", "2 seeds", *METRICS):
        assert words in text
    assert not re.search(r"<(script|img|iframe|source)[^>]*\ssrc\s*=|<link|@import|url\(", text)
    # A name, no address.
    assert not re.search(r"https?://", text.replace("http://www.w3.org/2000/svg", ""))
    assert "Content-Security-Policy" in text
    assert "default-src 'none'" in text


def test_the_page_is_small_and_no_draft_is_left(learned, tmp_path):
    assert len(text_of(learned, tmp_path).encode()) < 500_000
    assert [entry.name for entry in (tmp_path / "deep").iterdir()] == ["report.html"]


@pytest.mark.parametrize("runs", ["learned", "exact"])
def test_every_chart_is_drawn_without_its_script(runs, request, tmp_path):
    text = text_of(request.getfixturevalue(runs), tmp_path)
    charts = charts_of(text)
    assert len(charts) == 5
    for chart in charts:
        for size, root in enumerate(drawings(text, chart["id"])):
            frame = chart["frames"][size][chart["view"]][chart["scale"]]
            (axes,) = root.findall(f"{SVG}g[@class='axes']")
            assert len(list(axes.iter(f"{SVG}text"))) == frame["axes"].count("<text") > 4
            lines = [path for path in root.iter(f"{SVG}path") if path.get("fill") == "none"]
            shown = [curve for curve in chart["views"][chart["view"]]["curves"] if curve["x"]]
            assert {path.get("stroke") for path in lines} == {curve["colour"] for curve in shown}
            assert all(path.get("d").startswith("M") for path in lines)


def test_the_page_holds_the_values_of_the_store(learned, tmp_path):
    """Every point of a curve over rounds: median, least and largest of the seeds' rows."""
    (chart,) = [
        c
        for c in charts_of(text_of(learned, tmp_path))
        if c["views"]["own"]["x"]["title"] == "rounds"
    ][:1]
    for view, name in (
        ("own", "mean_accuracy"),
        ("averaged", "average_accuracy"),
        ("loss", "mean_loss"),
    ):
        curves = chart["views"][view]["curves"]
        assert [one["label"] for one in curves] == ["DSpodFL", "DGD"]
        for one in curves:
            tables = [run.metrics.rows() for run in learned if run.info["label"] == one["label"]]
            seeds = [{row["round"]: row[name] for row in rows} for rows in tables]
            assert one["x"] == sorted(seeds[0])
            for k, x in enumerate(one["x"]):
                each = [seed[x] for seed in seeds]
                assert one["y"][k] == pytest.approx(statistics.median(each), rel=1e-5)
                assert one["low"][k] == pytest.approx(min(each), rel=1e-5)
                assert one["high"][k] == pytest.approx(max(each), rel=1e-5)


def test_delay_to_target_is_that_of_the_first_evaluation_that_met_it(learned):
    found = summary(learned)
    assert 3 <= len(found.targets) <= 4
    for one in found.reach:
        rows = [first_row(run, one.target) for run in learned if run.info["label"] == one.label]
        hits = sorted((row for row in rows if row), key=lambda row: row["delay"])
        assert (one.reached, one.seeds) == (len(hits), 2)
        assert one.delay.low == (hits[0]["delay"] if hits else None)
        if len(hits) < 2:
            # A seed that never arrives is infinitely late, and so is the mean of the two.
            assert one.delay.median is None
            continue
        assert one.delay.median == pytest.approx(statistics.mean(row["delay"] for row in hits))
        assert one.processing + one.transmission == pytest.approx(one.delay.median)
        assert one.processing == pytest.approx(
            statistics.mean(row["processing_delay"] for row in hits)
        )
    assert any(
        one.delay.median is not None and one.target == found.targets[-1] for one in found.reach
    )


def test_accuracy_at_equal_delay_lies_between_the_evaluations_around_it(learned):
    found = summary(learned)
    assert found.equal_delay == min(run.metrics["delay"][-1] for run in learned)
    for one in found.at_equal_delay:
        rows = {
            str(run.info["seed"]): run.metrics.rows()
            for run in learned
            if run.info["label"] == one.label
        }
        values = {
            seed: interpolated(table, found.equal_delay, "mean_accuracy")
            for seed, table in rows.items()
        }
        assert one.by_seed == pytest.approx(values)
        assert one.value.median == pytest.approx(statistics.median(values.values()))
        averaged = [
            interpolated(table, found.equal_delay, "average_accuracy") for table in rows.values()
        ]
        assert one.averaged.median == pytest.approx(statistics.median(averaged))


def test_final_figures_are_those_of_the_last_rows(learned):
    for one in summary(learned).final:
        for name, figure in one.figures.items():
            if name in TRAINING:  # nobody asked for it
                assert figure.count == 0
                continue
            values = [run.metrics[name][-1] for run in learned if run.info["label"] == one.label]
            assert (figure.median, figure.low, figure.high) == (
                statistics.median(values),
                min(values),
                max(values),
            )


def test_headline_names_the_winner_even_if_it_is_not_listed_first(learned):
    found = summary(learned, targets=[0.5])
    medians = {one.label: one.delay.median for one in found.reach}
    assert None not in medians.values()
    soonest = min(medians, key=medians.get)
    for runs in (learned, learned[::-1]):
        said = summary(runs, targets=[0.5]).headline[0]
        assert said.startswith(f"{soonest} reaches 50 % accuracy")
        assert ("listed first, takes" in said) == (runs[0].info["label"] != soonest)


def test_headline_says_if_nobody_arrives(learned):
    found = summary(learned, targets=[1.1])
    assert "Nobody reaches" in found.headline[0]
    assert all(one.delay.median is None and not one.reached for one in found.reach)


def test_curve_is_the_median_within_what_all_seeds_cover(learned):
    group = next(group for group in grouped(learned) if group.label == "DSpodFL")
    found = curve(group, "delay", "mean_accuracy")
    assert found.x[0] == 0
    assert found.x[-1] == min(run.metrics["delay"][-1] for run in group.runs)
    for k in (1, len(found.x) // 2, len(found.x) - 1):
        each = [interpolated(run.metrics.rows(), found.x[k], "mean_accuracy") for run in group.runs]
        assert found.middle[k] == pytest.approx(statistics.median(each))
        assert (found.low[k], found.high[k]) == pytest.approx((min(each), max(each)))


def test_without_accuracy_the_loss_is_used_and_the_page_says_so(exact, tmp_path):
    found = summary(exact)
    assert found.quality == "loss"
    assert "judged by their loss" in " ".join(found.notes)
    assert list(found.targets) == sorted(found.targets, reverse=True)
    assert any(
        one.delay.median is not None for one in found.reach if one.target == found.targets[-1]
    )
    text = text_of(exact, tmp_path)
    assert "Loss against delay" in text
    assert "judged by their loss" in text


def test_unfinished_runs_are_named_and_do_not_shorten_the_comparison(exact):
    found = summary(exact)
    assert any("seed 2" in note and "interrupted at round 8" in note for note in found.notes)
    assert found.equal_delay == min(
        run.metrics["delay"][-1] for run in exact if run.info["status"] == "done"
    )
    mine = next(one for one in found.at_equal_delay if one.label == "DSpodFL")
    assert mine.by_seed["2"] is None
    assert mine.value.count == 1


def test_hostile_words_are_shown_and_not_obeyed(exact, tmp_path):
    text = text_of(exact, tmp_path, title=f"{HOSTILE}</title>")
    assert "alert(1)" in text
    assert HOSTILE not in text
    assert text.count("<script") == text.count("</script>") == 2
    head, _, _ = text.partition("</head>")
    assert head.count("</title>") == 1
    views = [view for chart in charts_of(text) for view in chart["views"].values()]
    assert HOSTILE in {curve["label"] for view in views for curve in view["curves"]}
    labels = {
        group.get("data-label")
        for root in drawings(text, "chart1")
        for group in root.iter(f"{SVG}g")
    }
    assert HOSTILE in labels


def test_summary_is_json(learned, exact):
    for runs in (learned, exact):
        found = summary(runs).to_dict()
        assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_rendering_shows_labels_as_they_are(exact):
    marked = dataclasses.replace(exact[0], info=exact[0].info | {"label": "[bold]marked[/bold]"})
    console = Console(width=200, file=io.StringIO())
    console.print(render(summary([marked, *exact[1:]])))
    text = console.file.getvalue()
    assert HOSTILE in text
    assert text.count("[bold]marked[/bold]") == text.count("marked") >= 2
    assert "Delay to reach loss" in text


def test_few_rows_or_none_at_all(learned, tmp_path):
    whole = learned[0]
    one = dataclasses.replace(whole, metrics=Table.of([whole.metrics.row(0)]))
    none = dataclasses.replace(whole, metrics=Table({}), info=whole.info | {"status": "running"})
    for k, runs in enumerate(
        ([one], [none], [one, none], [none, *learned[1:]], [one, *learned[1:]], [])
    ):
        assert json.dumps(summary(runs).to_dict(), allow_nan=False)
        assert "A title" in text_of(runs, tmp_path / str(k))
    assert summary([none]).headline == ("Nothing is evaluated yet.",)


def test_values_that_are_no_numbers_stay_out(learned, tmp_path):
    bad = {
        "mean_loss": math.nan,
        "consensus": math.inf,
        "client_accuracy": [math.nan, 0.5, math.inf, 0.5],
    }
    broken = Table.of([row | bad for row in learned[0].metrics.rows()])
    runs = [dataclasses.replace(learned[0], metrics=broken), *learned[1:]]
    assert json.dumps(summary(runs).to_dict(), allow_nan=False)
    panel, seed = client_panel(grouped(runs), ACCURACY)
    assert seed == "1"
    assert sorted(value for value in panel.values[0] if not math.isnan(value)) == [0.5, 0.5]
    shown = re.findall(
        r"<title>DSpodFL, client (\d) \(d = [\d.]+\): ([^<]+)</title>", text_of(runs, tmp_path)
    )
    assert sorted(set(shown)) == [("1", "50 %"), ("3", "50 %")]


def test_seeds_that_repeat_are_told_apart_by_what_differs(tmp_path):
    problem = quadratic(4)
    runs = [
        run_in(tmp_path, problem, DSpodFL(lr=lr), seed, rounds=3)
        for lr in (0.1, 0.2)
        for seed in (1, 2)
    ]
    assert [(group.label, len(group.runs)) for group in grouped(runs)] == [
        ("DSpodFL (lr = 0.1)", 2),
        ("DSpodFL (lr = 0.2)", 2),
    ]


def test_directed_graphs_have_arrows_and_undirected_links_are_drawn_once(learned, tmp_path):
    run = learned[0]
    layer = run.network["layers"]["peers"]
    directed = dataclasses.replace(run, network=run.network | {"directed": True, "positions": None})
    for one, word, links, arrows in (
        (run, "and", len(layer["source"]) // 2, 0),
        (directed, "to", *[len(layer["source"])] * 2),
    ):
        panel = graph_panel(one.network)
        text = draw(Picture("graph", "", [panel]))
        paths = [
            path.get("d")
            for path in ET.fromstring(text).iter(f"{SVG}path")
            if path.get("stroke-width")
        ]
        assert sum(path.count("M") for path in paths) == len(panel.links) == links
        shapes = [
            path.get("d") for path in ET.fromstring(text).iter(f"{SVG}path") if path.get("fill")
        ]
        assert sum(path.count("Z") for path in shapes) == arrows
        told = set(
            re.findall(
                r"<title>link (\d) (and|to) (\d): works with probability b = ([\d.e-]+), weight",
                text,
            )
        )
        pairs = zip(layer["source"], layer["target"], layer["probability"], strict=True)
        assert told == {(str(j), word, str(i), f"{b:.3g}") for j, i, b in pairs if arrows or j < i}
        clients = re.findall(r"<title>client (\d): computes with probability d = ([\d.e-]+)", text)
        assert clients == [
            (str(i), f"{d:.3g}") for i, d in enumerate(run.network["node_probability"])
        ]
        assert f"link 0 {word} " in text_of([one], tmp_path / word)


def test_everything_the_page_draws_can_be_exported(learned, tmp_path):
    pictures = {picture.name: picture for picture in report_pictures(learned)}
    assert {"accuracy-delay", "consensus-round", "graph", "clients"} <= set(pictures)
    assert len(pictures["graph"].panels) == 2  # one graph per seed
    made = export(pictures.values(), tmp_path, ["svg", "png", "csv"])
    assert {path.stat().st_size > 100 for path in made} == {True}
    rows = pictures["clients"].table().rows()
    last = learned[0].metrics["client_accuracy"][-1]
    assert {(row["column"], row["value"]) for row in rows if row["row"] == "DSpodFL"} == {
        (str(i), v) for i, v in enumerate(last)
    }
    links = [row for row in pictures["graph"].table().rows() if not math.isnan(row["weight"])]
    assert len(links) == sum(
        len(run.network["layers"]["peers"]["source"]) // 2 for run in learned[:2]
    )


def test_positions_keep_their_proportions_and_up_is_up(learned):
    positions = [(0.0, 0.0), (4.0, 0.0), (0.0, 1.0), (4.0, 1.0)]
    network = learned[0].network | {"positions": positions}
    root = ET.fromstring(draw(Picture("graph", "", [graph_panel(network)])))
    found = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter(f"{SVG}circle")]
    (a, b), (c, d), (e, f), (g, h) = found
    assert (a, c) == (e, g)
    assert (b, f) == (d, h)
    assert c - a == pytest.approx(4 * (b - f), abs=0.5)
    assert b > f  # SVG counts downwards


def test_references_come_from_the_docstrings():
    sentence, reference = about("DSpodFL")
    assert sentence.startswith("Decentralized sporadic federated learning")
    assert "eqs. (2)-(4)" in reference
    assert "\n" not in reference
    assert about("SomebodysOwn")[1] == ""


def test_same_numbers_from_a_table_of_known_values(learned):
    """A run made by hand: the target is met at the third evaluation, the delay lies halfway."""
    rows = {name: [0.0] * 4 for name in METRICS if not name.startswith("client")}
    rows |= {"delay": [0.0, 10.0, 20.0, 40.0], "processing_delay": [0.0, 4.0, 8.0, 16.0]}
    rows |= {
        "transmission_delay": [0.0, 6.0, 12.0, 24.0],
        "mean_accuracy": [0.1, 0.3, 0.5, 0.7],
        "round": [0, 1, 2, 4],
    }
    slow = dataclasses.replace(learned[0], metrics=Table(rows))
    halved = Table(
        rows
        | {
            name: slow.metrics[name] / 2
            for name in rows
            if name in ("delay", "processing_delay", "transmission_delay")
        }
    )
    fast = dataclasses.replace(slow, info=slow.info | {"label": "fast"}, metrics=halved)
    found = summary([slow, fast], targets=[0.5])
    assert [(one.delay.median, one.processing, one.transmission) for one in found.reach] == [
        (20, 8, 12),
        (10, 4, 6),
    ]
    assert found.equal_delay == 20
    assert [one.value.median for one in found.at_equal_delay] == pytest.approx([0.5, 0.7])
    assert (
        "fast reaches 50 % accuracy after a median delay of 10, 2.0 times sooner"
        in found.headline[0]
    )
    assert np.isclose(
        found.at_equal_delay[1].value.median - found.at_equal_delay[0].value.median, 0.2
    )
    assert "20.0 points above DSpodFL" in found.headline[1]


def test_where_the_delay_stands_still_the_last_evaluation_counts(learned):
    rows = {
        "round": [0, 1, 2, 3],
        "delay": [0.0, 5.0, 5.0, 5.0],
        "mean_accuracy": [0.1, 0.2, 0.3, 0.4],
    }
    run = dataclasses.replace(learned[0], metrics=Table(rows))
    assert summary([run]).at_equal_delay[0].value.median == 0.4
    assert curve(grouped([run])[0], "delay", "mean_accuracy").middle.tolist() == [0.1, 0.4]
