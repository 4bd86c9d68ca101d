"""Theory and papers ask parts about themselves; they never recognise them by the name of a type."""

import ast
from pathlib import Path

import pytest

import peerloom

ROOT = Path(peerloom.__file__).parent
FILES = sorted(
    path
    for room in ("theory", "papers", "sweeps", "reports")
    for path in (ROOT / room).rglob("*.py")
)
# Rooms whose classes are parts by name.
PARTS = {"algorithms", "problems", "schedules", "messages", "codecs", "rules"}


def _is_type_name(node):
    """`x.__name__`, or something that is made of it."""
    return any(
        isinstance(part, ast.Attribute) and part.attr == "__name__" for part in ast.walk(node)
    )


def guesses(source):
    """Lines that compare a type's name, or ask whether something is an instance of a part."""
    tree = ast.parse(source)
    parts, named = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and PARTS & set((node.module or "").split(".")):
            parts |= {
                alias.asname or alias.name
                for alias in node.names
                if not alias.name.startswith("Has")
            }
        if isinstance(node, ast.Assign) and _is_type_name(node.value):
            named |= {
                part.id
                for target in node.targets
                for part in ast.walk(target)
                if isinstance(part, ast.Name)
            }
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(
                _is_type_name(side) or (isinstance(side, ast.Name) and side.id in named)
                for side in sides
            ):
                yield node.lineno
        elif isinstance(node, ast.Subscript) and _is_type_name(node.slice):
            yield node.lineno
        elif isinstance(node, ast.Call):
            name = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            if name in ("get", "startswith", "endswith") and any(
                map(_is_type_name, [node.func, *node.args])
            ):
                yield node.lineno
            if name == "isinstance" and any(
                isinstance(part, ast.Name) and part.id in parts for part in ast.walk(node.args[1])
            ):
                yield node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_decides_by_the_name_of_a_type(path):
    assert not list(guesses(path.read_text()))


@pytest.mark.parametrize(
    "line",
    [
        "type(rule).__name__ == 'D2'",
        "name = type(rule).__name__\nname in FAMILY",
        "FAMILY[type(rule).__name__]",
        "FAMILY.get(type(rule).__name__, 'pull')",
        "type(rule).__name__.startswith('Spod')",
        "from ..schedules import Cycle\nisinstance(schedule, Cycle)",
        "from ...problems.regularisers import MCP, SCAD\nisinstance(h, MCP | SCAD)",
    ],
)
def test_the_check_sees_a_guess(line):
    assert list(guesses(line))


def test_names_of_types_may_be_shown():
    assert not list(
        guesses("f'{type(rule).__name__} is new'\nname = type(rule).__name__\nsay(name)")
    )
