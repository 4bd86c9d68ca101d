"""Where the figures come from: configuration, differences, versions and references."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import tomli_w

from ..measures import METRICS, OWN, TRAINING, meaning
from ..rules import RULES
from ..runs import Run
from .groups import Group, flat, own_names, seed_of
from .tables import table

__all__ = ["about", "configuration", "differences", "glossary", "references", "versions"]

_UNSET = "not set"
_LONG = 160  # characters of a list that a page still shows
_REFERENCE = re.compile(r"^Reference:\s*(.+?)(?:\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


def configuration(run: Run) -> str:
    """The experiment of one run as TOML; long lists are left to its folder."""
    return f"<pre>{escape(tomli_w.dumps(_short(run.config)))}</pre>"


def differences(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """The settings in which runs differ, with their values by algorithm, by seed or by run."""
    runs = [(group.label, seed_of(run), flat(run.config)) for group in groups for run in group.runs]
    keys = sorted({key for _, _, settings in runs for key in settings})
    found = []
    for key in keys:
        values = [(label, seed, _value(settings.get(key))) for label, seed, settings in runs]
        # It says no more than the names do.
        known = all(value in (label, seed) for label, seed, value in values)
        if len({value for _, _, value in values}) > 1 and not known:
            found.append((key, _told([entry for entry in values if entry[2] != _UNSET])))
    return found


def about(algorithm: str) -> tuple[str, str]:
    """The first sentence and the reference of an algorithm's docstring."""
    kind = RULES.get(algorithm)
    text = inspect.getdoc(kind) if kind is not None else None
    if not text:
        return "A rule that is not part of Peerloom.", ""
    found = _REFERENCE.search(text)
    return text.split("\n\n")[0].replace("\n", " "), " ".join(found[1].split()) if found else ""


def references(groups: Sequence[Group]) -> str:
    """Each algorithm with its sentence and its reference, once."""
    items = []
    for algorithm in dict.fromkeys(group.algorithm for group in groups):
        labels = [
            group.label
            for group in groups
            if group.algorithm == algorithm and group.label != algorithm
        ]
        sentence, reference = about(algorithm)
        called = f" (here: {escape(', '.join(labels))})" if labels else ""
        cited = f'<br><span class="cite">{escape(reference)}</span>' if reference else ""
        items.append(f"<li><b>{escape(algorithm)}</b>{called}. {escape(sentence)}{cited}</li>")
    return f"<ul>{''.join(items)}</ul>"


def versions(runs: Sequence[Run]) -> str:
    """The versions with which the runs were made; all of them where runs differ."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for name, value in (run.info.get("versions") or {}).items():
            if str(value) not in found.setdefault(str(name), []):
                found[str(name)].append(str(value))
    texts = [f"{escape(name)} {escape(' or '.join(values))}" for name, values in found.items()]
    return (
        f'<p class="versions">{" · ".join(texts)}</p>' if texts else "<p>The runs do not say.</p>"
    )


def glossary(groups: Sequence[Group]) -> str:
    """The meaning of each column of the metrics."""
    own = [which.replace("NAME", name) for name in own_names(groups) for which in OWN]
    return table(
        ["column", "meaning"],
        [[escape(name), escape(meaning(name))] for name in (*METRICS, *TRAINING, *own)],
        "words",
    )


def _told(values: Sequence[tuple[str, str, str]]) -> str:
    for by_label in (True, False):
        found: dict[str, set[str]] = {}
        for label, seed, value in values:
            found.setdefault(label if by_label else f"seed {seed}", set()).add(value)
        if all(len(options) == 1 for options in found.values()):
            return " · ".join(f"{name}: {next(iter(options))}" for name, options in found.items())
    return " · ".join(f"{label}, seed {seed}: {value}" for label, seed, value in values)


def _value(value: Any) -> str:
    short = _short(value)
    return _UNSET if value is None else short if isinstance(short, str) else repr(short)


def _short(value: Any) -> Any:
    """The value with long lists replaced by their sizes."""
    if isinstance(value, dict):
        return {key: _short(entry) for key, entry in value.items()}
    if isinstance(value, list) and len(repr(value)) > _LONG:
        return f"{_shape(value)} values, see config.toml"
    return value


def _shape(value: list[Any]) -> str:
    """The sizes of a nested list, from outside to inside: 4 x 3 x 3."""
    sizes, at = [], value
    while isinstance(at, list) and at:
        sizes.append(str(len(at)))
        at = at[0]
    return " x ".join(sizes)
