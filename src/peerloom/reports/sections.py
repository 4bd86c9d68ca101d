"""The sections of the page, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .cards import Charts, switch
from .curves import Curve, curve, onset, wants_log
from .drawing import Drawn, network_figure, networks
from .figures import AXES, SCALE, Axis, Figure, client_figure, curves_figure
from .groups import LOSS, Group, Quality
from .holdings import holdings_section
from .provenance import configuration, differences, glossary, references, versions
from .story import link_count
from .summary import Summary
from .tables import equal_table, final_table, reach_table, swatch, table
from .theory import theory_table
from .wording import capital, listed, number, plural

__all__ = ["Material", "sections"]

_MOST_GRAPHS = 3


@dataclass(frozen=True)
class Material:
    """What a page is made of."""

    groups: Sequence[Group]
    quality: Quality
    summary: Summary
    inks: Mapping[str, tuple[str, str]]


def sections(m: Material, charts: Charts) -> Iterator[str]:
    """Every section as HTML; what is to be drawn in them goes to `charts`."""
    if not m.groups:
        return
    yield _legend(m)
    scales: dict[str, str] = {}
    yield from _progress(m, charts, scales)
    yield from _agreement(m, charts, scales)
    yield from _graph(m, charts)
    yield holdings_section(m.groups)
    yield from _targets(m)
    yield from _equal(m)
    yield from _final(m)
    yield from _clients(m, charts)
    yield from _theory(m)
    yield from _origins(m)


def _legend(m: Material) -> str:
    buttons = [
        f'<button type="button" data-label="{escape(group.label)}" aria-pressed="true">'
        f"{swatch(group.label, m.inks)}</button>"
        for group in m.groups
    ]
    return f'<nav class="legend" aria-label="Algorithms; press to hide or show">{"".join(buttons)}</nav>'


def _progress(m: Material, charts: Charts, scales: dict[str, str]) -> Iterator[str]:
    """Quality against delay, bytes and rounds."""
    views = {"own": "each client's own model, mean", "averaged": "averaged model"}
    columns = {"own": m.quality.own, "averaged": m.quality.averaged}
    if m.quality.higher:
        views["loss"], columns["loss"] = "loss of own models, mean", LOSS.own
    cards, names = [], []
    for key, axis in AXES.items():
        drawn = {view: _curves(m, axis, name) for view, name in columns.items()}
        scales[key] = "log" if wants_log(drawn["own"]) else "linear"
        figures = {view: _progress_figure(m, found, axis, view) for view, found in drawn.items()}
        kind = "wide" if key == "delay" else ""
        cards.append(charts.place(figures, f"{capital(m.quality.name)} against {key}", scale=scales[key], kind=kind))
        names.append(charts.last)
    yield f"<h2>{capital(m.quality.name)}: against delay, bytes and rounds</h2>"
    yield f'<div class="controls">Shown: {switch("view", names, views, "own")}</div>'
    yield f'<div class="charts">{"".join(cards)}</div>'
    yield _caption(
        _band(m),
        "Delay as run: a gradient of client i costs 1/d_i and a message on link ij 1/b_ij, averaged over clients in each "
        "round; so a client that is always able computes in 1. On a log axis the start at 0 cannot be shown, and the flat "
        "part before anything happens is left out (a double click brings it back).",
    )


def _progress_figure(m: Material, found: Sequence[Curve], axis: Axis, view: str) -> Figure:
    percent = m.quality.higher and view != "loss"
    title = {"own": f"{m.quality.name}, own models", "averaged": f"{m.quality.name}, averaged model", "loss": "loss"}[view]
    return curves_figure(found, m.inks, axis, title, percent=percent) | {"start": onset(found)}


def _agreement(m: Material, charts: Charts, scales: Mapping[str, str]) -> Iterator[str]:
    """Consensus error."""
    yield "<h2>Consensus: how far the clients' models are apart</h2>"
    found = {key: _curves(m, AXES[key], "consensus", positive=True) for key in ("delay", "rounds")}
    if not any(found.values()):
        yield "<p>Wherever they were judged, all models of a run were the same.</p>"
        return
    cards = []
    for key, some in found.items():
        figure = curves_figure(some, m.inks, AXES[key], "consensus error", log_y=True)
        cards.append(charts.place({"own": figure}, f"Consensus error against {key}", scale=scales[key]))
    yield f'<div class="charts">{"".join(cards)}</div>'
    yield _caption(
        "Mean over clients of the squared distance to the averaged model, on a log axis; exact zeros, such as a common "
        "start, cannot be shown.",
        _band(m),
    )


def _graph(m: Material, charts: Charts) -> Iterator[str]:
    found = networks(m.groups)
    yield "<h2>The graph</h2>"
    if not found:
        yield "<p>The runs have no graph on record.</p>"
        return
    shown = found[:_MOST_GRAPHS]
    cards = [charts.place({"own": network_figure(one.network)}, _graph_title(one, m), kind="net") for one in shown]
    yield f'<div class="charts {("one", "", "three")[len(shown) - 1]}">{"".join(cards)}</div>'
    stops = ", ".join(f"{colour} {at:.0%}" for at, colour in SCALE)
    yield (
        f'<div class="ramp">0 <i style="background:linear-gradient(90deg, {stops})"></i> 1: probability that a client '
        "computes (d_i, circles) or a link works (b_ij, lines; the thicker, the surer)</div>"
    )
    clipped = "; ".join(f"{_seeds(one)}: {_clipped(one)}" for one in shown)
    said = [f"Probabilities of the first round. Drawn too small and raised to the least allowed: {clipped}."]
    if len(found) > len(shown):
        said.append(f"There are {len(found)} different graphs; the first {len(shown)} are shown.")
    if any(one.network.get("directed") for one in shown):
        said.append("Arrows point from sender to receiver.")
    if shown[0].network.get("positions") is None:
        said.append("No positions were given, so clients stand in a circle.")
    yield _caption(*said)


def _graph_title(one: Drawn, m: Material) -> str:
    whose = f" ({listed(one.labels)})" if len(one.labels) < len(m.groups) else ""
    name = str(one.network.get("name", "graph")).replace("_", " ")
    return capital(f"{name}, {_seeds(one)}{whose}: {plural(link_count(one.network), 'link')}")


def _seeds(one: Drawn) -> str:
    return f"seed{'s' if len(one.seeds) > 1 else ''} {listed(one.seeds)}"


def _clipped(one: Drawn) -> str:
    clipped = one.network.get("clipped") or {}
    both = 1 if one.network.get("directed") else 2  # links are stored, and counted, in each direction
    return f"{plural(int(clipped.get('nodes', 0)), 'client')}, {plural(int(clipped.get('links', 0)) // both, 'link')}"


def _targets(m: Material) -> Iterator[str]:
    yield "<h2>Delay to reach a target</h2>"
    if not m.summary.targets:
        yield "<p>There is no level between the start and the best that could serve as a target.</p>"
        return
    yield reach_table(m.summary, m.inks)
    yield _caption(
        "Median delay over seeds, where a seed that never arrives counts as infinitely late; below it processing + "
        "transmission of the seed in the middle, and least to largest over the seeds that arrive.",
        f"A target is reached at the first evaluation at which the {m.quality.name} (mean over clients of each one's own "
        "model) meets it, so delays are quantised to the evaluation grid.",
        "The headline speaks of the hardest target that two algorithms reach in the median.",
    )


def _equal(m: Material) -> Iterator[str]:
    yield f"<h2>{capital(m.quality.name)} at equal delay</h2>"
    if m.summary.equal_delay is None:
        yield "<p>No run has got beyond a delay of 0.</p>"
        return
    yield equal_table(m.summary, m.inks)
    yield _caption(
        f"At delay {number(m.summary.equal_delay)}, the largest that every finished run reached, on the straight line "
        "between the evaluations around it. Own models, mean over clients, unless it says averaged."
    )


def _final(m: Material) -> Iterator[str]:
    yield "<h2>Final figures</h2>"
    yield final_table(m.summary, m.inks)
    yield _caption("At each run's last evaluation: median over seeds, and least to largest.")


def _clients(m: Material, charts: Charts) -> Iterator[str]:
    yield f"<h2>Who is left behind: {m.quality.name} of each client at the end</h2>"
    if (found := client_figure(m.groups, m.quality)) is None:
        yield "<p>No run has measured its clients one by one.</p>"
        return
    figure, seed = found
    title = f"{capital(m.quality.name)}{' in %' if m.quality.higher else ''} of each client's own model, seed {seed}"
    height = 76 + 46 * max(2, len(figure["data"][0]["y"]))
    yield f'<div class="charts">{charts.place({"own": figure}, title, kind="wide", height=height)}</div>'
    yield _caption(
        "All models are judged on the same evaluation set. Clients are ordered by d_i, the probability that they compute "
        "in a round: the least able on the left."
    )


def _theory(m: Material) -> Iterator[str]:
    if not any(run.advice for group in m.groups for run in group.runs):
        return
    yield "<h2>Theory and practice: predicted and measured</h2>"
    yield theory_table(m.groups, m.inks)
    yield _caption(
        "Left of disagreement: how much of the squared distance between models a round leaves at the most, in expectation; "
        "below it, what the links that really fired in the first rounds leave. Consensus error and loss above the optimum: "
        "exact where the problem is a small quadratic, else a bound where a theorem holds; measured over the last quarter "
        "of the evaluations, so a run that has not settled yet lies above. Median over seeds. peerloom advise says more."
    )


def _origins(m: Material) -> Iterator[str]:
    runs = [run for group in m.groups for run in group.runs]
    yield "<h2>Configuration and sources</h2>"
    first = f"Configuration of the first run ({escape(runs[0].path.name)})"
    yield f"<details><summary>{first}</summary>{configuration(runs[0])}</details>"
    rows = [[escape(key), escape(told)] for key, told in differences(m.groups)]
    if rows:
        yield f"<h3>What differs between runs</h3>{table(['setting', 'values'], rows, 'words')}"
    yield f"<h3>Algorithms and references</h3>{references(m.groups)}"
    yield f"<details><summary>What each figure means</summary>{glossary()}</details>"
    yield f"<h3>Made with</h3>{versions(runs)}"


def _curves(m: Material, axis: Axis, name: str, *, positive: bool = False) -> list[Curve]:
    return [found for group in m.groups if (found := curve(group, axis.column, name, positive=positive))]


def _band(m: Material) -> str:
    if all(len(group.runs) < 2 for group in m.groups):
        return "One seed each, so there is no band."
    return "Line: median over seeds. Band: least to largest, over the range that all seeds of the algorithm cover."


def _caption(*sentences: str) -> str:
    return f'<p class="caption">{escape(" ".join(sentences))}</p>'
