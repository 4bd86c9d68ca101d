"""Static pictures: marks lie where the numbers say, tables hold them, the SVG is sound."""

import io
import itertools
import math
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.cli.options import Format
from peerloom.core import ConfigError
from peerloom.papers.recipes import RECIPES
from peerloom.papers.recipes.pictures import pictures
from peerloom.reports.canvas import Canvas
from peerloom.reports.export import FORMATS, export
from peerloom.reports.picture import Bars, Bubbles, Cells, Dot, Dots, Line, Lines, Picture
from peerloom.reports.plots import report_pictures
from peerloom.reports.scales import Along, Scale, span_of, spans_decades
from peerloom.reports.sheet import NARROW, WIDE, draw
from peerloom.runs import Run, Table
from peerloom.sweeps.figures import factors_of
from peerloom.sweeps.readings import Found, Reading

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>&"'


def drawn(picture, width=WIDE):
    return ET.fromstring(draw(picture, width))


def titles(root, tag):
    """Each mark of a kind, with what it says when pointed at."""
    return [
        (mark, mark.find(f"{SVG}title").text)
        for mark in root.iter(f"{SVG}{tag}")
        if mark.find(f"{SVG}title") is not None
    ]


def texts(root):
    return [text.text for text in root.iter(f"{SVG}text")]


def run(label, seed, columns, status="done", holdings=()):
    rows = len(next(iter(columns.values())))
    table = Table({"round": list(range(rows))} | columns)
    info = {"label": label, "algorithm": label, "seed": seed, "status": status}
    return Run(Path(f"{label}-{seed}"), info, {}, {}, table, {}, list(holdings))


LINE = Line(
    "ours",
    [1.0, 10.0, 100.0],
    [0.1, 0.4, 0.7],
    [0.05, 0.3, 0.6],
    [0.2, 0.5, 0.8],
    [(50.0, 0.65)],
    marked=True,
)


@given(
    low=st.floats(1e-6, 1e6),
    ratio=st.floats(1.001, 1e6),
    most=st.integers(2, 12),
    log=st.booleans(),
    back=st.booleans(),
)
def test_ticks_lie_within_the_axis_and_pixels_are_the_formulas(low, ratio, most, log, back):
    high = low * ratio
    scale = Scale(Along("x", log), low, high, *((300.0, 10.0) if back else (10.0, 300.0)))
    ticks = scale.ticks(most)
    assert len(ticks) <= most + 1
    assert all(a < b for a, b in itertools.pairwise(ticks))
    assert all(low * (1 - 1e-6) <= tick <= high * (1 + 1e-6) for tick in ticks)
    for value in (low, math.sqrt(low * high), high):
        share = math.log(value / low) / math.log(ratio) if log else (value - low) / (high - low)
        assert scale(value) == pytest.approx(
            (300 - 290 * share) if back else (10 + 290 * share), abs=1e-3
        )


def test_axes_are_logarithmic_where_values_span_decades():
    assert spans_decades([88.0, 221_418.0])
    assert not spans_decades([1487.0, 8207.0])
    assert not spans_decades([-1.0, 1e6])
    low, high = span_of([1.0, 1000.0, math.inf, -5.0], log=True)
    assert 0 < low < 1 < 1000 < high < 2000


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_points_lie_where_the_ticks_around_them_say(log, width):
    root = drawn(
        Picture(
            "p",
            "T",
            [Lines("", [LINE], Along("delay", log=log), Along("accuracy", unit="%"))],
            "band: b",
        ),
        width,
    )
    number = {
        "text": lambda t: float(t.replace(",", "")),
        "%": lambda t: float(t.removesuffix(" %")) / 100,
    }
    across = [
        (number["text"](t.text), float(t.get("x")))
        for t in root.iter(f"{SVG}text")
        if re.fullmatch(r"[\d,.]+", t.text)
    ]
    up = [
        (number["%"](t.text), float(t.get("y")) - 4)
        for t in root.iter(f"{SVG}text")
        if t.text.endswith(" %")
    ]

    def read(pixel, ticks, curved):
        (a, x1), (b, x2) = ticks[0], ticks[-1]
        share = (pixel - x1) / (x2 - x1)
        return a * (b / a) ** share if curved else a + (b - a) * share

    dots = [mark for mark, _ in titles(root, "circle")]
    found = sorted(
        (read(float(d.get("cx")), across, log), read(float(d.get("cy")), up, False)) for d in dots
    )
    for (x, y), want_x, want_y in zip(found, LINE.x, LINE.y, strict=True):
        assert x == pytest.approx(want_x, rel=0.03, abs=0 if log else 0.5)
        assert y == pytest.approx(want_y, abs=0.01)
    (paper,) = [said for _, said in titles(root, "path")]
    assert paper == "ours, the paper's, delay 50: 65 %"
    assert {"ours", "paper", "band: b", "accuracy"} <= set(texts(root))
    assert ("delay (log)" in texts(root)) is log


@pytest.mark.parametrize(("least", "zero"), [(0.3, True), (0.9, False)])
def test_accuracies_start_at_zero_unless_all_are_large(least, zero):
    line = Line("a", [1.0, 2.0], [least, 0.95], [least, 0.95], [least, 0.95])
    root = drawn(Picture("p", "T", [Lines("", [line], Along("x"), Along("accuracy", unit="%"))]))
    assert ("0 %" in texts(root)) is zero
    assert "90 %" in texts(root) or zero


def test_sweeps_have_their_ticks_at_the_marks():
    line = Line(
        "a", [1e-4, 1e-3, 0.1], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], marked=True
    )
    root = drawn(Picture("p", "T", [Lines("", [line], Along("step", log=True), Along("loss"))]))
    assert {"10⁻⁴", "0.001", "0.1"} <= set(texts(root))
    assert "0.01" not in texts(root)


def test_cells_of_a_heat_map_are_the_data_and_the_largest_is_the_darkest():
    values = [[0.5, 1.5], [2.5, math.inf]]
    root = drawn(
        Picture(
            "map",
            "T",
            [Cells("c", ["6", "63"], ["0.1", "0.2"], values, Along("rate"), Along("degree"))],
        )
    )
    cells = {said: mark for mark, said in titles(root, "rect")}
    assert set(cells) == {
        "degree 6, rate 0.1: 0.5",
        "degree 6, rate 0.2: 1.5",
        "degree 63, rate 0.1: 2.5",
        "degree 63, rate 0.2: never",
    }
    dark = {said: int(mark.get("fill")[1:3], 16) for said, mark in cells.items()}
    assert (
        dark["degree 6, rate 0.1: 0.5"]
        > dark["degree 6, rate 0.2: 1.5"]
        > dark["degree 63, rate 0.1: 2.5"]
    )
    assert float(cells["degree 6, rate 0.2: 1.5"].get("x")) > float(
        cells["degree 6, rate 0.1: 0.5"].get("x")
    )


def test_bars_are_as_long_as_their_shares():
    lengths, ends = [[30, 10], [math.inf, 1]], ["40", "never"]
    panel = Bars("", ["a", "b"], ["p", "t"], lengths, ends, Along("s", unit="%"))
    root = drawn(Picture("b", "T", [panel]))
    bars = {said: float(mark.get("width")) for mark, said in titles(root, "rect")}
    assert list(bars) == ["a, p: 30, 75 % of the whole", "a, t: 10, 25 % of the whole"]
    first, second = bars.values()
    assert first == pytest.approx(3 * second, abs=0.3)
    assert {"40", "never"} <= set(texts(root))


def test_bubbles_have_the_area_of_their_share():
    root = drawn(
        Picture("h", "T", [Bubbles("", [[30, 0, 10], [0, 5, 0]], Along("client"), Along("class"))])
    )
    radius = {said: float(mark.get("r")) for mark, said in titles(root, "circle")}
    assert list(radius) == [
        "class 0, client 0: 30 samples, 75 %",
        "class 0, client 2: 10 samples, 25 %",
        "class 1, client 1: 5 samples, 100 %",
    ]
    large, small, whole = radius.values()
    assert (large / small) ** 2 == pytest.approx(3, abs=0.1)
    assert (whole / large) ** 2 == pytest.approx(4 / 3, abs=0.05)


def test_log_axes_hold_nothing_beyond_their_ends():
    scale = Scale(Along("x", log=True), 0.02, 1e10, 0.0, 100.0)
    assert not scale.holds(0.01), "far from the axis, however long it is"
    assert not scale.holds(0.0)
    assert scale.holds(0.02)
    assert min(scale.ticks(20)) > 0.02


def test_an_algorithm_has_one_colour_in_all_pictures():
    recipe = RECIPES["spod-gt"]["fig3a"]
    labels = [entry.get("label", entry["name"]) for entry in recipe.table["algorithms"]]
    short, long = {"mean_accuracy": [0.1, 0.5]}, {"mean_accuracy": [0.1, 0.2, 0.3, 0.5]}
    delay = {"delay_both_ways": [0.0, 10.0]}, {"delay_both_ways": [0.0, 3.0, 6.0, 10.0]}
    runs = {
        point: [
            run(label, 1, *([{**short, **delay[0]}] if k == 1 else [{**long, **delay[1]}]))
            for k, label in enumerate(labels)
        ]
        for point in ("1", "2")
    }
    sweep, curves = pictures(recipe, runs)
    assert labels[1] in curves.about, "who was judged at the ends only is named"
    drawn = [ET.fromstring(draw(picture)) for picture in (sweep, curves)]
    inks = [
        dict(
            zip(
                (e.text for e in root.iter() if e.tag.endswith("text") and e.text in labels),
                legend(root),
                strict=False,
            )
        )
        for root in drawn
    ]
    assert inks[0].items() >= inks[1].items()
    assert len(inks[1]) == len(labels) - 1


def legend(root):
    """The colours of the legend's strokes, in their order."""
    return [
        e.get("stroke")
        for e in root.iter()
        if e.tag.endswith("path") and e.get("stroke-width") == "4"
    ]


def test_panels_beside_each_other_are_all_logarithmic_or_none():
    recipe = RECIPES["dspodfl"]["fig4a"]
    slow = {"mean_accuracy": [0.1, 0.11, 0.12, 0.5], "delay": [0.0, 1000.0, 2000.0, 4000.0]}
    fast = {"mean_accuracy": [0.1, 0.45, 0.49, 0.5], "delay": [0.0, 4.0, 9.0, 4000.0]}
    runs = {
        point: [run(label, 1, given) for label in ("DSpodFL", "DGD")]
        for point, given in (("50", slow), ("10", fast))
    }
    curves = next(picture for picture in pictures(recipe, runs) if len(picture.panels) == 2)
    assert {panel.across.log for panel in curves.panels} == {True}


def test_what_never_arrives_is_said_and_hostile_names_stay_text():
    dots = [Dot(HOSTILE, HOSTILE, math.inf, 5.0, math.inf, 7.0), Dot(HOSTILE, "b", 6.0, 5.0, 8.0)]
    text = draw(Picture("d", HOSTILE, [Dots(HOSTILE, dots, Along(HOSTILE))]), NARROW)
    root = ET.fromstring(text)
    assert "<script" not in text
    assert "never" in texts(root)
    assert {said for _, said in titles(root, "circle")} == {f"{HOSTILE}, b: 6 (5 to 8)"}


def test_files_hold_what_is_plotted(tmp_path):
    picture = Picture(
        "p",
        "T",
        [
            Lines("one", [LINE], Along("x"), Along("y")),
            Lines("two", [LINE], Along("x"), Along("y")),
        ],
    )
    made = export([picture], tmp_path / "new", [*FORMATS, "svg"], "before-")
    assert [path.name for path in made] == [
        f"before-p.{kind}" for kind in ("svg", "png", "csv", "parquet")
    ]
    table = picture.table().to_polars()
    assert pl.read_parquet(made[3]).equals(table)
    assert pl.read_csv(made[2]).equals(table)
    assert table.filter(panel="two", source="ours")["value"].to_list() == LINE.y
    assert table.filter(panel="two", source="paper").select("x", "value").rows() == [(50.0, 0.65)]
    from PIL import Image

    with Image.open(io.BytesIO(made[1].read_bytes())) as image:
        assert image.width == 2 * WIDE
        assert len(image.convert("RGB").getcolors(1 << 24)) > 50  # something was drawn
    assert export([picture], tmp_path / "none", []) == []
    assert not (tmp_path / "none").exists()
    assert set(Format) == set(FORMATS)


def test_png_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ConfigError, match=r"peerloom\[png\]"):
        export([Picture("p", "T", [])], tmp_path, ["png"])


def test_names_of_points_say_their_factors():
    assert factors_of(["m 32, n 1000"], "size") == {"m 32, n 1000": [("m", "32"), ("n", "1000")]}
    assert factors_of(["1e-4", "0.1"], "step")["1e-4"] == [("step", "1e-4")]
    assert factors_of(["mnist mlp Dir(0.1)", "IID"], "row") == {
        "mnist mlp Dir(0.1)": [("row", "mnist mlp Dir(0.1)")],
        "IID": [("row", "IID")],
    }
    assert factors_of([""], "") == {"": []}


def test_the_heat_map_of_pames_figure_7_holds_the_medians():
    recipe = RECIPES["pame"]["fig7"]
    runs = {
        point: [
            run("PaME", seed, {"average_loss": [9.0, k + seed], "seconds": [0.0, 2.0 * k]})
            for seed in (1, 2, 3)
        ]
        for k, point in enumerate(recipe.points)
    }
    (picture,) = pictures(recipe, runs)
    objective, rounds, seconds = picture.panels
    assert (objective.across.title, objective.up.title) == ("rate", "degree")
    for k, point in enumerate(recipe.points):
        share, degree = point.split(", degree ")
        r, c = objective.rows.index(degree), objective.columns.index(share)
        assert objective.values[r][c] == k + 2
        assert rounds.values[r][c] == 1
        assert seconds.values[r][c] == 2 * k
    assert len(picture.table()) == 3 * len(recipe.points)


def test_the_parts_of_table_4_are_ours_and_the_papers():
    recipe = RECIPES["dspodfl"]["table4"]
    reached = {
        "mean_accuracy": [0.1, 0.8],
        "delay": [0.0, 30.0],
        "processing_delay": [0.0, 10.0],
        "transmission_delay": [0.0, 20.0],
    }
    never = reached | {"mean_accuracy": [0.1, 0.2]}
    runs = {
        "IID": [run("DSpodFL", 1, reached), run("DGD", 1, never)],
        "non-IID": [run("DSpodFL", 1, reached)],
    }
    totals, parts = pictures(recipe, runs)
    shown = {(dot.row): dot for dot in totals.panels[0].dots}
    assert (shown["DSpodFL"].value, shown["DSpodFL"].paper) == (30.0, 1487.0)
    assert (shown["DGD"].value, shown["DGD"].paper) == (math.inf, 6521.22)
    rows = dict(zip(parts.panels[0].rows, parts.panels[0].values, strict=True))
    assert rows["DSpodFL, ours"] == [10.0, 20.0]
    assert rows["DSpodFL, paper"] == [593.69, 893.32]
    assert parts.panels[1].totals == ["30", "689"]
    for picture in (totals, parts):
        drawn(picture)


def test_the_papers_accuracies_stand_on_the_curves_of_their_own_point():
    """The names of both points end alike."""
    recipe = RECIPES["dspodfl"]["table2"]
    curves = {"mean_accuracy": [0.1, 0.5, 0.6, 0.7]}
    runs = {
        point: [
            run(label, seed, curves) for label in ("DGD", "RandomizedGossip") for seed in (1, 2)
        ]
        for point in recipe.points
    }
    (picture,) = pictures(recipe, runs)
    iid, apart = picture.panels
    assert [panel.title for panel in picture.panels] == ["IID", "non-IID"]
    assert list(iid.lines[0].paper) == [(1000.0, 0.80), (2500.0, 0.81), (3500.0, 0.82)]
    assert [x for x, _ in apart.lines[0].paper] == [5000.0, 10_000.0, 15_000.0]
    smaller, *_ = pictures(recipe, runs, whole=False)
    assert not any(line.paper for panel in smaller.panels for line in panel.lines)


def test_sweeps_show_medians_and_quartiles_and_one_algorithm_alone_has_a_line_per_second_factor():
    recipe = RECIPES["dspodfl"]["fig3d"]
    runs = {
        point: [
            run(label, seed, {"mean_accuracy": [0.0, float(point) * seed / 10]})
            for label in ("DSpodFL", "DGD")
            for seed in (1, 2, 6)
        ]
        for point in recipe.points
    }
    (picture,) = pictures(recipe, runs)
    (panel,) = picture.panels
    line = panel.lines[0]
    assert (line.label, list(line.x)) == ("DSpodFL", [float(point) for point in recipe.points])
    values = Found(runs).values("0.5", "DSpodFL", Reading("mean_accuracy"))
    assert (line.y[0], line.low[0], line.high[0]) == (values["2"], values["1"], values["6"])
    pame = RECIPES["pame"]["fig2a"]
    alone = {
        point: [run("PaME", 1, {"average_loss": [3.0, 2.0, 1.0, 0.9]})] for point in pame.points
    }
    objective, iterations, curves = pictures(pame, alone)
    assert [line.label for line in objective.panels[0].lines] == ["m 32", "m 64", "m 128"]
    assert list(iterations.panels[0].lines[0].y) == [3.0] * 6
    assert [panel.title for panel in curves.panels] == ["m 32", "m 64", "m 128"]
    assert curves.panels[0].lines[0].label == "rate 0.1"
    assert len({panel.reach for panel in curves.panels}) == 1


def test_reports_have_static_pictures_of_every_curve():
    columns = {name: [1.0, 5.0, 9.0] for name in ("delay", "bytes")}
    columns |= {"mean_accuracy": [0.1, 0.5, 0.7], "consensus": [0.0, 2.0, 1.0]}
    runs = [run("A", seed, columns, holdings=[[3, 0], [0, 4]]) for seed in (1, 2)]
    names = {picture.name for picture in report_pictures(runs)}
    assert names == {
        f"{what}-{axis}"
        for what in ("accuracy", "consensus")
        for axis in ("delay", "bytes", "round")
    }
    for one in runs:
        one.config["problem"] = {"partition": {"name": "Labels", "per_client": 1}}
    held = report_pictures(runs)[-1]
    assert [panel.counts for panel in held.panels] == [[[3, 0], [0, 4]]] * 2
    assert held.table().to_polars().filter(client=0)["share"].to_list() == [1.0, 0.0] * 2


def test_many_long_curves_make_no_large_picture():
    """A single one keeps every point, or a sawtooth would vanish; many share what there is."""
    rounds = 2000
    teeth = {
        "mean_accuracy": [0.1 + 0.2 * (k % 5) for k in range(rounds)],
        "delay_both_ways": [float(k) for k in range(rounds)],
    }
    recipe = RECIPES["spod-gt"]["fig3a"]
    many = {point: [run(label, 1, teeth) for label in "ABCDE"] for point in recipe.points}
    *_, curves = pictures(recipe, many)
    assert len(curves.panels) == len(recipe.points) == 10
    assert len(draw(curves)) < 100_000
    (alone,) = pictures(
        RECIPES["spod-gt"]["fig2a"],
        {"": [run("A", 1, {name: some[:500] for name, some in teeth.items()})]},
    )
    assert len(alone.panels[0].lines[0].x) == 500


def test_steps_of_a_path_lead_to_its_points():
    canvas = Canvas()
    points = [(10.04, 20.0), (9.5, 31.26), (9.5, 0.0), (123.45, 7.77)]
    canvas.line(points, "#000000")
    path = ET.fromstring(canvas.document(1, 1, "")).find(f"{SVG}path").get("d")
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
    places = list(
        itertools.accumulate(
            zip(numbers[::2], numbers[1::2], strict=True), lambda a, b: (a[0] + b[0], a[1] + b[1])
        )
    )
    for found, wanted in zip(places, points, strict=True):
        assert found == pytest.approx(wanted, abs=0.051)
