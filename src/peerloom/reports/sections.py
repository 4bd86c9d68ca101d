"""The sections of the page, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from .cards import Charts, card, still, switch
from .groups import LOSS, Group, is_measured, own_names
from .holdings import BUBBLES, by_seed
from .material import Material, caption
from .network import Used, graph_panel, networks
from .picture import Lines, Picture
from .plots import ACROSS, CONSENSUS, client_panel, curve_panel, quality_axis
from .scales import Along
from .table_sections import (
    equal_section,
    final_section,
    sources_section,
    target_section,
    theory_section,
)
from .tables import swatch
from .wording import capital, plural

__all__ = ["sections"]

_MOST_GRAPHS = 3
_NAMES = {"delay": "delay", "bytes": "bytes", "round": "rounds"}  # of the columns in ACROSS


def sections(material: Material, charts: Charts) -> Iterator[str]:
    """Every section as HTML; charts that can be redrawn are added to `charts`."""
    if not material.groups:
        return
    yield _legend(material)
    scales: dict[str, bool] = {}
    yield from _progress(material, charts, scales)
    yield from _agreement(material, charts, scales)
    yield from _graph(material)
    yield from _holdings(material)
    yield from target_section(material)
    yield from equal_section(material)
    yield from final_section(material)
    yield from _clients(material)
    yield from theory_section(material)
    yield from sources_section(material)


def _legend(material: Material) -> str:
    buttons = [
        f'<button type="button" data-label="{escape(group.label)}" aria-pressed="true">'
        f"{swatch(group.label, material.colours)}</button>"
        for group in material.groups
    ]
    words = "Algorithms; press to hide or show"
    return f'<nav class="legend" aria-label="{words}">{"".join(buttons)}</nav>'


def _progress(material: Material, charts: Charts, scales: dict[str, bool]) -> Iterator[str]:
    """Quality against delay, bytes and rounds; keeps which of the axes are logarithmic."""
    groups, quality, name = material.groups, material.quality, material.quality.name
    views = {"own": "each client's own model, mean", "averaged": "averaged model"}
    axes = {
        "own": (quality, quality.own, f"{name}, own models"),
        "averaged": (quality, quality.averaged, f"{name}, averaged model"),
    }
    if quality.higher:
        views["loss"] = "loss of own models, mean"
        axes["loss"] = (LOSS, LOSS.own, "loss, own models")
    if is_measured(groups, "average_train_loss"):
        views["train"] = "training loss of the averaged model"
        axes["train"] = (LOSS, "average_train_loss", "training loss, averaged model")
    for own in own_names(groups):  # a name such as "own" is also that of a view
        views[f"own-{own}"] = f"{own} of own models, mean"
        axes[f"own-{own}"] = (LOSS, f"mean_{own}", f"{own}, own models")
    vertical = {
        view: (column, quality_axis(groups, of, column, title))
        for view, (of, column, title) in axes.items()
    }
    cards, names = [], []
    for column, along in ACROSS.items():
        panels = {view: _panel(groups, (column, along), up) for view, up in vertical.items()}
        scales[column] = panels["own"].across.log
        kind = "wide" if column == "delay" else ""
        cards.append(charts.add(panels, f"{capital(name)} against {_NAMES[column]}", kind))
        names.append(charts.last)
    yield f"<h2>{capital(name)}: against delay, bytes and rounds</h2>"
    yield f'<div class="controls">Shown: {switch("view", names, views, "own")}</div>'
    yield f'<div class="charts">{"".join(cards)}</div>'
    yield caption(
        _band(material),
        "Delay as run: a gradient of client i costs 1/d_i and a message on link ij 1/b_ij, "
        "averaged over clients in each round; so a client that is always able computes in 1. On a "
        "log axis the start at 0 cannot be shown, and the flat part before anything happens is "
        "left out; the linear axis has both.",
    )


def _agreement(material: Material, charts: Charts, scales: Mapping[str, bool]) -> Iterator[str]:
    """Consensus error."""
    yield "<h2>Consensus: how far the clients' models are apart</h2>"
    panels = {
        column: _panel(
            material.groups, (column, ACROSS[column]), ("consensus", CONSENSUS), scales[column]
        )
        for column in ("delay", "round")
    }
    if not any(panel.lines for panel in panels.values()):
        yield "<p>Wherever they were judged, all models of a run were the same.</p>"
        return
    cards = [
        charts.add({"own": panel}, f"Consensus error against {_NAMES[column]}")
        for column, panel in panels.items()
    ]
    yield f'<div class="charts">{"".join(cards)}</div>'
    yield caption(
        "Mean over clients of the squared distance to the averaged model, on a log axis; exact "
        "zeros, such as a common start, cannot be shown.",
        _band(material),
    )


def _graph(material: Material) -> Iterator[str]:
    found = networks(material.groups)
    yield "<h2>The graph</h2>"
    if not found:
        yield "<p>The runs have no graph on record.</p>"
        return
    shown = found[:_MOST_GRAPHS]
    cards = []
    for used in shown:
        title = used.title(material.groups)
        drawn = still(Picture(title, "", [graph_panel(used.network)]), small=True)
        cards.append(card(title, drawn))
    yield _side_by_side(cards)
    raised = "; ".join(f"{used.seed_text}: {_raised(used)}" for used in shown)
    sentences = [
        "Colours: the probability, in the first round, that a client computes (d_i, circles)",
        "or a link works (b_ij, lines; the thicker, the more likely).",
        f"Drawn too small and raised to the least allowed: {raised}.",
    ]
    if len(found) > len(shown):
        many = f"There are {len(found)} different graphs; the first {len(shown)} are shown."
        sentences.append(many)
    if any(used.network.get("directed") for used in shown):
        sentences.append("Arrows point from sender to receiver.")
    if any(used.network["rows"] > len(used.network["node_probability"]) for used in shown):
        sentences.append("Diamonds are hubs.")
    if shown[0].network.get("positions") is None:
        sentences.append("No positions were given, so clients stand in a circle.")
    yield caption(*sentences)


def _raised(used: Used) -> str:
    """How many probabilities were raised to the least allowed."""
    clipped = used.network.get("clipped") or {}
    both = 1 if used.network.get("directed") else 2  # stored, and counted, in each direction
    clients, links = int(clipped.get("nodes", 0)), int(clipped.get("links", 0)) // both
    return f"{plural(clients, 'client')}, {plural(links, 'link')}"


def _holdings(material: Material) -> Iterator[str]:
    """How samples were dealt; nothing where it was evenly, or where it is not known."""
    panels = by_seed(material.groups)
    if not panels:
        return
    title = "The data: which client holds which classes"
    cards = [card("", still(Picture(title, "", [panel]), small=True)) for panel in panels]
    yield f"<h2>{title}</h2>"
    yield _side_by_side(cards)
    more = f"The first {len(panels)} seeds." if len(material.groups[0].runs) > len(panels) else ""
    yield caption(f"{BUBBLES} {more}".strip())


def _clients(material: Material) -> Iterator[str]:
    """The own model of each client at the end."""
    quality = material.quality
    yield f"<h2>Who is left behind: {quality.name} of each client at the end</h2>"
    if (found := client_panel(material.groups, quality)) is None:
        yield "<p>No run has measured its clients one by one.</p>"
        return
    panel, seed = found
    unit = " in %" if quality.higher else ""
    title = f"{capital(quality.name)}{unit} of each client's own model, seed {seed}"
    drawn = card(title, still(Picture(title, "", [panel])), "wide")
    yield f'<div class="charts">{drawn}</div>'
    yield caption(
        "All models are judged on the same evaluation set; the darker a cell, the larger its "
        "number. Clients are ordered by d_i, the probability that they compute in a round: the "
        "least able on the left."
    )


def _panel(
    groups: Sequence[Group],
    across: tuple[str, Along],
    up: tuple[str, Along],
    log: bool | None = None,
) -> Lines:
    """A panel of curves, empty where no run has them."""
    found = curve_panel("", groups, across, up, log=log)
    return found or Lines("", [], across[1], up[1])


def _side_by_side(cards: Sequence[str]) -> str:
    beside = "three" if len(cards) == 3 else ""
    return f'<div class="charts {beside}">{"".join(cards)}</div>'


def _band(material: Material) -> str:
    if all(len(group.runs) < 2 for group in material.groups):
        return "One seed each, so there is no band."
    return (
        "Line: median over seeds. Band: least to largest, over the range that all seeds of the "
        "algorithm cover."
    )
