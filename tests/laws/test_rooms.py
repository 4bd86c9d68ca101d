"""Imports go downwards only, exported names exist, and nothing heavy is loaded unasked."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import peerloom

ROOT = Path(peerloom.__file__).parent
SIBLINGS = {"codecs", "graphs", "problems", "rules", "schedules"}

# From the ground up. A room may import those of the lines before; rooms on one line never import
# each other.
FLOORS = [
    {"errors", "extensions"},
    {"aliases", "arguments", "code"},
    {"core", "transport"},
    {"datasets"},
    SIBLINGS,
    {"experiment", "hosts", "language"},
    {"registry"},
    {"config"},
    {"runtime"},
    {"theory"},
    {"measures"},
    {"runs"},
    {"peers"},
    {"live"},
    {"reports", "bench", "testing"},
    {"sweeps"},
    {"cli"},
    {"papers"},
]
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem in FLOOR)


def room_of(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


def rooms_imported(path):
    package = ["peerloom", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            target = [*base, *(node.module.split(".") if node.module else [])]
            if target == ["peerloom"]:
                yield from (alias.name for alias in node.names if alias.name in FLOOR)
            elif target[:1] == ["peerloom"]:
                yield target[1]
        elif isinstance(node, ast.Import):
            yield from (
                name.name.split(".")[1] for name in node.names if name.name.startswith("peerloom.")
            )


def test_every_room_has_a_floor():
    found = {room_of(path) for path in MODULES}
    assert found == set(FLOOR)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downwards(path):
    room = room_of(path)
    for other in set(rooms_imported(path)) - {room}:
        assert FLOOR[other] < FLOOR[room], f"{room} imports {other}"


def test_the_check_sees_an_import_that_goes_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "bad.py").write_text(
        "from ..rules import DGD\nfrom .. import graphs\nfrom .port import Port\n"
    )
    assert set(rooms_imported(tmp_path / "core" / "bad.py")) == {"rules", "graphs", "core"}


def test_rules_know_the_core_only():
    for path in (ROOT / "rules").glob("*.py"):
        assert set(rooms_imported(path)) <= {"rules", "core", "errors"}, path.name


def test_reports_never_know_an_engine():
    for path in (ROOT / "reports").glob("*.py"):
        assert "runtime" not in set(rooms_imported(path)), path.name


def every_module():
    for info in pkgutil.walk_packages(peerloom.__path__, "peerloom."):
        if info.name != "peerloom.__main__":
            yield info.name


@pytest.mark.parametrize("name", [*every_module(), "peerloom"])
def test_exported_names_exist_and_are_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} does not say what it is for"
    assert hasattr(module, "__all__"), f"{name} does not say what it exports"
    for exported in module.__all__:
        thing = getattr(module, exported)
        if callable(thing) and getattr(thing, "__module__", "").startswith("peerloom"):
            assert thing.__doc__, f"{name}.{exported} is not documented"


def test_the_public_names_of_the_design_are_there():
    names = "Experiment simulate iterate graphs schedules laws messages problems algorithms rules"
    for name in names.split():
        assert hasattr(peerloom, name)
    assert set(dir(peerloom)) == set(peerloom.__all__)
    with pytest.raises(AttributeError, match="no attribute 'grphs'"):
        _ = peerloom.grphs


@pytest.mark.parametrize(
    ("words", "may"), [("--help", ""), ("peer status --folder no", "pydantic")]
)
def test_help_and_status_load_nothing_heavy(words, may):
    code = (
        f"import sys\nfrom peerloom.cli import main\nsys.argv = ['peerloom', *{words.split()}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'polars', 'sklearn', 'scipy', 'networkx', 'pydantic'}\n"
        f"heavy = heavy & set(sys.modules) - {{'{may}'}}\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_global_seed_and_no_pickle_in_the_source():
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        for word in (
            "np.random.seed",
            "numpy.random.seed",
            "random.seed(",
            "import pickle",
            "torch.load(",
            "torch.save(",
            "eval(",
        ):
            harmless = text.replace(".eval()", "").replace("self._module.eval(", "")
            assert word not in harmless, f"{path.name} uses {word}"
