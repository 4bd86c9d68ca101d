"""Sections of the page that are tables: targets, equal delay, the end, theory, sources."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .material import Material, caption
from .provenance import configuration, differences, glossary, references, versions
from .tables import equal_table, final_table, reach_table, table
from .theory import theory_table
from .wording import capital, number

__all__ = ["equal_section", "final_section", "sources_section", "target_section", "theory_section"]


def target_section(material: Material) -> Iterator[str]:
    """The delay to reach each target."""
    yield "<h2>Delay to reach a target</h2>"
    if not material.summary.targets:
        yield (
            "<p>There is no level between the start and the best that could serve as a target.</p>"
        )
        return
    yield reach_table(material.summary, material.colours)
    yield caption(
        "Median delay over seeds, where a seed that never arrives counts as infinitely late; "
        "below it processing + transmission of the seed in the middle, and least to largest over "
        "the seeds that arrive.",
        f"A target is reached at the first evaluation at which the {material.quality.name} (mean "
        "over clients of each one's own model) meets it, so delays are quantised to the "
        "evaluation grid.",
        "The headline speaks of the hardest target that two algorithms reach in the median.",
    )


def equal_section(material: Material) -> Iterator[str]:
    """All algorithms at the same delay."""
    summary = material.summary
    yield f"<h2>{capital(material.quality.name)} at equal delay</h2>"
    if summary.equal_delay is None:
        yield "<p>No run has got beyond a delay of 0.</p>"
        return
    yield equal_table(summary, material.colours)
    yield caption(
        f"At delay {number(summary.equal_delay)}, the largest that every finished run reached, on "
        "the straight line between the evaluations around it. Own models, mean over clients, "
        "unless it says averaged."
    )


def final_section(material: Material) -> Iterator[str]:
    """All figures at the last evaluation."""
    yield "<h2>Final figures</h2>"
    yield final_table(material.summary, material.colours)
    yield caption("At each run's last evaluation: median over seeds, and least to largest.")


def theory_section(material: Material) -> Iterator[str]:
    """What theory predicted, beside what was measured; nothing where no prediction was kept."""
    if not any(run.advice for group in material.groups for run in group.runs):
        return
    yield "<h2>Theory and practice: predicted and measured</h2>"
    yield theory_table(material.groups, material.colours)
    yield caption(
        "Left of disagreement: how much of the squared distance between models a round leaves at "
        "the most, in expectation; below it, what the links that really fired in the first rounds "
        "leave. Consensus error and loss above the optimum: exact where the problem is a small "
        "quadratic, else a bound where a theorem holds; measured over the last quarter of the "
        "evaluations, so a run that has not settled yet lies above. Median over seeds. peerloom "
        "advise says more."
    )


def sources_section(material: Material) -> Iterator[str]:
    """The configuration, what differs between runs, references and versions."""
    runs = [run for group in material.groups for run in group.runs]
    yield "<h2>Configuration and sources</h2>"
    first = f"Configuration of the first run ({escape(runs[0].path.name)})"
    yield f"<details><summary>{first}</summary>{configuration(runs[0])}</details>"
    rows = [[escape(key), escape(text)] for key, text in differences(material.groups)]
    if rows:
        found = table(["setting", "values"], rows, "words")
        yield f"<h3>What differs between runs</h3>{found}"
    yield f"<h3>Algorithms and references</h3>{references(material.groups)}"
    yield f"<details><summary>What each figure means</summary>{glossary(material.groups)}</details>"
    yield f"<h3>Made with</h3>{versions(runs)}"
