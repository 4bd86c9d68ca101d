"""What other packages add is found by entry points, and Peerloom works without it."""

import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from peerloom import extensions, graphs, theory
from peerloom.cli import main
from peerloom.cli.commands import COMMANDS
from peerloom.rules import DGD, RULES
from peerloom.theory.coverage import THEOREMS
from tests.builders import experiment

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
STALE = "pip install --editable ."


@pytest.fixture
def stale(monkeypatch):
    """An installation from before there were any entry points."""
    monkeypatch.setattr(extensions, "_entries", lambda group: {})


def run(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["peerloom", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_every_declared_entry_point_leads_somewhere():
    for group in (COMMANDS, THEOREMS):
        for name, value in PROJECT["entry-points"][group].items():
            assert callable(EntryPoint(name, value, group).load()), name
            assert extensions.load(group, name) is not None, (
                f"{name}: install again, the metadata are old"
            )


def test_every_family_of_rules_has_its_theorem():
    families = {rule.family for rule in RULES.values() if getattr(rule, "family", None)}
    assert set(PROJECT["entry-points"][THEOREMS]) == families


def test_a_stale_installation_is_said_to_be_one(stale, monkeypatch, capsys):
    assert run(monkeypatch, "reproduce", "dspodfl") == 2
    assert STALE in capsys.readouterr().err
    assert run(monkeypatch, "fly") == 2
    assert "No such command" in capsys.readouterr().err


def test_advice_works_without_the_papers(stale):
    found = theory.advise(experiment(graphs.ring(4), DGD(lr=0.01)), quick=True)
    assert not found.coverage.holds
    assert STALE in found.coverage.fails[0]
    assert found.rounds_to_agree is not None


def test_a_command_of_another_package_is_found_and_suggested(monkeypatch, capsys):
    def greet(name: str) -> None:
        """Say hello."""
        sys.stdout.write(f"hello {name}\n")

    mine = EntryPoint("greet", "irrelevant", COMMANDS)
    monkeypatch.setattr(EntryPoint, "load", lambda entry: greet)
    monkeypatch.setattr(
        extensions, "_entries", lambda group: {"greet": mine} if group == COMMANDS else {}
    )
    assert run(monkeypatch, "greet", "you") == 0
    assert "hello you" in capsys.readouterr().out
    assert run(monkeypatch, "gret") == 2
    assert "Did you mean 'greet'" in capsys.readouterr().err
    assert run(monkeypatch, "--help") == 0
    assert "Say hello." in capsys.readouterr().out


def test_the_theorems_keep_their_old_names():
    for name in (
        "dspodfl",
        "dspodfl_nonconvex",
        "dspodfl_pl",
        "spod_gt",
        "mll_sgd",
        "depositum",
        "pame",
    ):
        assert getattr(theory, name) is import_module(f"peerloom.papers.theorems.{name}")
    with pytest.raises(AttributeError, match="no attribute 'dspodfll'"):
        _ = theory.dspodfll


@pytest.mark.slow
def test_nothing_but_entry_points_loads_the_papers():
    code = (
        "import sys, importlib, peerloom\n"
        "from pathlib import Path\n"
        "sys.modules['peerloom.papers'] = None\n"
        "root = Path(peerloom.__file__).parent\n"
        "for path in root.rglob('*.py'):\n"
        "    parts = path.relative_to(root.parent).with_suffix('').parts\n"
        "    if parts[1] != 'papers' and parts[-1] != '__main__':\n"
        "        importlib.import_module('.'.join(parts).removesuffix('.__init__'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
