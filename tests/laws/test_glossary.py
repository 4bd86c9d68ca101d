"""The glossary names every exported class in its room's table, and nothing that does not exist."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import peerloom

DOCS = Path(__file__).parents[2] / "docs"
GLOSSARY = (DOCS / "glossary.md").read_text()


def exported_classes():
    """Room to the classes that its `__all__` names."""
    rooms = [
        info.name for info in pkgutil.iter_modules(peerloom.__path__) if info.name != "__main__"
    ]
    modules = {room: importlib.import_module(f"peerloom.{room}") for room in rooms}
    return {
        room: {
            name: getattr(module, name)
            for name in module.__all__
            if inspect.isclass(getattr(module, name))
        }
        for room, module in modules.items()
    }


def code_names(rows):
    """The names in backticks of some rows of a table."""
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def sections(text):
    """The rooms of every heading, with the names in the first column of its table."""
    found = []
    for heading, body in re.findall(r"^### (.+)\n((?:(?!^#).*\n)+)", text, flags=re.M):
        cells = [line.split("|")[1] for line in body.splitlines() if line.startswith("|")]
        found.append((heading.split(", "), code_names(cells)))
    return found


def in_papers_tables():
    lines = [
        line for path in (DOCS / "papers").glob("*.md") for line in path.read_text().splitlines()
    ]
    return code_names(line for line in lines if line.startswith("|"))


def missing(text):
    """Exported classes, as room.Name, that no table of the glossary names.

    A class that several rooms export needs one entry.
    """
    exports, papers = exported_classes(), in_papers_tables()
    tables = {room: names for rooms, names in sections(text) for room in rooms}
    known = {
        id(cls)
        for room, classes in exports.items()
        for name, cls in classes.items()
        if name in tables.get(room, ())
    }
    return sorted(
        f"{room}.{name}"
        for room, classes in exports.items()
        for name, cls in classes.items()
        if id(cls) not in known and name not in papers
    )


def test_every_exported_class_is_in_the_glossary():
    assert not missing(GLOSSARY), f"docs/glossary.md lacks {', '.join(missing(GLOSSARY))}"


def test_the_check_sees_a_class_that_is_missing():
    without = re.sub(r"^\| `Experiment`.*\n", "", GLOSSARY, flags=re.M)
    assert missing(without) == ["experiment.Evaluate", "experiment.Experiment"]


def test_every_name_of_a_room_is_exported_by_it():
    found = sections(GLOSSARY)
    assert found
    for rooms, names in found:
        known = {
            name for room in rooms for name in importlib.import_module(f"peerloom.{room}").__all__
        }
        assert names, f"the table of {', '.join(rooms)} is empty"
        assert names <= known, (
            f"not exported by {', '.join(rooms)}: {', '.join(sorted(names - known))}"
        )
