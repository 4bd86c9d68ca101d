"""`peerloom list`: what an experiment file may name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..core import DIFFERENCES, MASS, MEAN, MODELS, STEADY, WHOLE, ConfigError, Fit, Requirements
from ..problems import LOSSES
from ..problems.layout import RowLayout
from ..problems.models import Model
from ..registry import KINDS, signature
from .console import show

__all__ = ["list_command"]

_TRAVELS: dict[tuple[Fit, ...], str] = {
    MODELS: "",
    MASS: "messages that do not round",
    MEAN: "whole rows, or coordinates drawn per pair",
    STEADY: "messages with all coordinates",
    WHOLE: "messages with all of a row, exactly",
    DIFFERENCES: "",
}
_OFFERS: dict[str, Callable[[Requirements], bool]] = {
    "takes compressed messages": lambda needs: needs.accepts == DIFFERENCES,
    "takes a regulariser": lambda needs: needs.prox,
}
_FITS: dict[str, tuple[Fit, ...]] = {  # of every message, whatever its arguments
    "ANQ": ("differences",),
    "Coordinates": ("part", "paired"),
    "Dense": ("whole", "rounded"),
    "Quantised": ("differences",),
    "RandK": ("part", "differences"),
    "Sign": ("differences",),
    "SignTopK": ("differences",),
    "TopK": ("part",),
}


def list_command(kind: str | None, as_json: bool) -> None:
    """All of one kind, or a count of each."""
    if kind is None:
        counts = {name: sorted(parts) for name, parts in KINDS.items()}
        table = Table("kind", "names", title="peerloom list KIND tells more")
        for name, parts in counts.items():
            table.add_row(name, ", ".join(parts))
        return show(counts, table, as_json)
    entries = [_entry(name, part) for name, part in sorted(KINDS[kind].items())]
    if kind == "algorithms":
        return show(entries, Group(*(line for entry in entries for line in _card(entry))), as_json)
    if kind == "models":
        for entry in entries:
            entry["parameters"] = _counts(KINDS[kind][entry["name"]]())
    more = ["parameters"] if kind == "models" else []
    table = Table("name", "arguments", *more, "what it is")
    for entry in entries:
        table.add_row(
            entry["name"],
            _arguments(entry),
            *(_counted(entry[key]) for key in more),
            entry["about"],
        )
    return show(entries, table, as_json)


def _card(entry: dict[str, Any]) -> list[RenderableType]:
    """The call; paper, graph and what is sent; what it needs; what it is good for."""
    call = Text.assemble((entry["name"], "bold"), f"({_arguments(entry)})")
    facts = f"{entry['paper']} | graph: {entry['graph']} | sends {entry['sends']}"
    needs = f"needs {entry['needs']}\ngood for {entry['good_for']}"
    return [call, Padding(Text(f"{facts}\n{needs}"), (0, 0, 1, 4))]


def _arguments(entry: dict[str, Any]) -> str:
    return ", ".join(_argument(key, value) for key, value in entry["arguments"].items())


def _entry(name: str, part: Callable[..., Any]) -> dict[str, Any]:
    needed = inspect.Parameter.empty
    arguments = {
        key: "required" if p.default is needed else _plain(p.default)
        for key, p in signature(part).items()
    }
    target: Any = part.func if isinstance(part, partial) else part
    text = inspect.getdoc(target) or ""
    entry = {"name": name, "arguments": arguments, "about": " ".join(text.split("\n\n")[0].split())}
    if hasattr(target, "needs"):
        entry |= target.card._asdict()
        entry["graph"] = _graph(target.needs)
        entry["needs"] = _needs(target.needs)
        entry["regulariser"] = target.needs.prox
        entry["messages"] = [
            message for message, fits in _FITS.items() if set(fits) & set(target.needs.accepts)
        ]
        entry["reference"] = " ".join(text.partition("Reference:")[2].split("\n\n")[0].split())
    return entry


def _graph(needs: Requirements) -> str:
    if "up" in needs.layers:
        return "one hub" if needs.one_hub else "hubs"
    return "undirected" if needs.symmetric else "any"


def _needs(needs: Requirements) -> str:
    """In words: the graph, the links, the start, what may travel."""
    graph = {
        "one hub": "a server (one hub)",
        "hubs": "a graph with hubs",
        "undirected": "symmetric links",
    }
    links = {
        "all": "every link in every round",
        "together": "links that fire together",
        "scheduled": "every message that is sent",
        "any": "",
    }[needs.links]
    start = "one common first model" if needs.common_start else ""
    found = [
        graph.get(_graph(needs), "a strongly connected graph"),
        links,
        start,
        _TRAVELS[needs.accepts],
    ]
    takes = [text for text, true in _OFFERS.items() if true(needs)]
    return "; ".join([", ".join(words for words in found if words), *takes])


def _counts(model: Model) -> dict[str, int | None]:
    """Count parameters for ten classes of grey and colour images, where the model fits."""
    counts: dict[str, int | None] = {}
    for shape in ((1, 28, 28), (3, 32, 32)):
        outputs = 1 if LOSSES[model.loss].one_output else 10
        try:
            with torch.device("meta"):  # nothing is allocated
                counts["x".join(map(str, shape))] = RowLayout(model.build(shape, outputs)).n
        except ConfigError:
            counts["x".join(map(str, shape))] = None
    return counts


def _counted(counts: dict[str, int | None]) -> str:
    return "\n".join(
        f"{shape}: {'-' if count is None else f'{count:,}'}" for shape, count in counts.items()
    )


def _argument(key: str, value: Any) -> str:
    return key if value == "required" else f"{key}={value}"


def _plain(default: Any) -> Any:
    if isinstance(default, str | int | float | bool) or default is None:
        return default
    return list(default) if isinstance(default, tuple) else "own default"
