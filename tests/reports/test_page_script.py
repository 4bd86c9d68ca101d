"""The script of a report page, run by node, draws and writes what Python does."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import subprocess
from importlib.resources import files

import pytest

from peerloom.reports.axes import Region
from peerloom.reports.canvas import Canvas
from peerloom.reports.cards import Charts
from peerloom.reports.colours import colours_of
from peerloom.reports.lines import draw_lines, frame_of
from peerloom.reports.picture import Line, Lines
from peerloom.reports.scales import Along, value_text

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(
    NODE is None, reason="node is not installed: the script of the page is not run"
)

SCRIPT = (files("peerloom.reports") / "page.js").read_text(encoding="utf-8")
DELAY, ACCURACY, LOSS = Along("delay"), Along("accuracy", unit="%"), Along("loss", log=True)


def in_node(code, given):
    """What an expression of JavaScript gives, with the script's functions and `given` at hand."""
    program = f"{SCRIPT}\nconst given = {json.dumps(given)};\nconsole.log(JSON.stringify({code}));"
    done = subprocess.run(
        [NODE, "-"], input=program, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def corners(path):
    """The points of a path, whether it is written in steps or in positions."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.removesuffix("h0"))]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    if "l" not in path:
        return pairs
    found = pairs[:1]
    for dx, dy in pairs[1:]:
        found.append((found[-1][0] + dx, found[-1][1] + dy))
    return found


def line(label, xs, ys, spread=0.0):
    return Line(label, xs, ys, [y * (1 - spread) for y in ys], [y * (1 + spread) for y in ys])


def panels():
    """Curves of unequal length, one with a hole, one of a single point, some that begin at zero."""
    draw = random.Random(5)
    xs = [0.0, *sorted(draw.uniform(1, 5000) for _ in range(40))]
    long = line("long", xs, [draw.uniform(0.1, 0.9) for _ in xs], 0.1)
    short = line("short, no band", xs[:9], [0.2] * 4 + [math.nan] + [0.3] * 4)
    alone = line("<alone>", [30.0], [0.5])
    lines = [long, short, alone]
    return {
        "own": Lines("", lines, DELAY, ACCURACY, start=20.0),
        "loss": Lines("", lines[:2], DELAY, LOSS, start=5.0),
    }


@pytest.fixture(scope="module")
def drawn():
    views = panels()
    charts = Charts(colours_of([line.label for line in views["own"].lines]))
    charts.add(views, "A chart")
    return charts


def test_a_redrawn_chart_is_the_drawn_one(drawn):
    (chart,) = drawn.drawn
    code = """given.frames.map(size => Object.entries(size).flatMap(([view, scales]) =>
        Object.entries(scales).map(([scale, frame]) => [view, scale, given.views[view].curves.map(
            one => [line(points(frame, one)), one.low ? band(points(frame, one)) : ""])])))"""
    for size, found in zip(((520, 330), (370, 290)), in_node(code, chart), strict=True):
        assert len(found) == 4
        for view, scale, curves in found:
            panel = panels()[view]
            panel = Lines(
                "", panel.lines, Along("delay", log=scale == "log"), panel.up, panel.start
            )
            canvas = Canvas()
            draw_lines(canvas, panel, frame_of(panel, Region(0, 0, *size), 6), drawn.colours)
            paths = re.findall(r'<path (fill="none" )?d="([^"]*)"', canvas.markup())
            lines = [path for stroke, path in paths if stroke][::-1]
            bands = [path for stroke, path in paths if not stroke][::-1]
            assert len(lines) == len(curves)
            assert sum(bool(band) for _, band in curves) == len(bands) == 1
            for (redrawn, _), path in zip(curves, lines, strict=True):
                assert corners(redrawn) == [
                    pytest.approx(point, abs=0.11) for point in corners(path)
                ]
            assert corners(curves[0][1]) == [
                pytest.approx(point, abs=0.11) for point in corners(bands[0])
            ]


def test_the_tooltip_has_the_nearest_values_of_all_curves_that_are_shown(drawn):
    (chart,) = drawn.drawn
    long = panels()["own"].lines[0]
    k = next(k for k, x in enumerate(long.x) if x > 400)
    code = """["linear", "log"].map(scale => {
        const frame = given.chart.frames[0].own[scale];
        const at = pixel(frame.x, given.x);
        return reading(given.chart.views.own, frame, new Set(given.hidden), at);
    })"""
    for found in in_node(code, {"chart": chart, "x": long.x[k], "hidden": ["short, no band"]}):
        assert found["heading"] == f"delay: {value_text(long.x[k], '')}"
        (row,) = [row for row in found["rows"] if row["label"] == "long"]
        low, high = (value_text(end[k], "%").removesuffix(" %") for end in (long.low, long.high))
        assert (row["value"], row["range"], row["elsewhere"]) == (
            value_text(long.y[k], "%"),
            f"{low} to {high} %",
            "",
        )
        assert len(found["rows"]) == 1  # one is hidden, one ends long before
    assert in_node(code, {"chart": chart, "x": 1e6, "hidden": []}) == [None, None]


@pytest.mark.parametrize("unit", ["", "%", "B"])
def test_numbers_are_written_as_in_the_tables(unit):
    draw = random.Random(7)
    values = [
        0.0,
        1.0,
        999.7,
        1000.2,
        12_345_678.1,
        0.5,
        *(10 ** draw.uniform(-9, 12) for _ in range(300)),
    ]
    assert in_node(f"given.map(value => text(value, {unit!r}))", values) == [
        value_text(value, unit) for value in values
    ]


def test_the_script_stays_small():
    assert len(SCRIPT.splitlines()) <= 200
    assert max(map(len, SCRIPT.splitlines())) <= 100
