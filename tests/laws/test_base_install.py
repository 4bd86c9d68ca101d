"""What works with the mandatory packages alone or fewer, and what is said where one is missing."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import peerloom
from peerloom.cli.doctor import _Wanted, doctor_command
from tests.federation import free_ports

pytestmark = pytest.mark.slow  # starts processes, or runs for long

ROOT = Path(peerloom.__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Where the name to import is another than the package's.
MODULES = {"resvg-py": "resvg_py", "tomli-w": "tomli_w"}

FILE = """
rounds = 6
seeds = [1, 2]
[graph]
name = "ring"
clients = 4
[problem]
name = "Classification"
model = "svm"
partition = { name = "Labels", per_client = 2 }
batch = 4
[[algorithms]]
name = "DSpodFL"
lr = 0.1
[[algorithms]]
name = "DGD"
lr = { name = "InverseSqrt", start = 0.1, gamma = 10.0 }
"""

# Runs a command in a process that can import the mandatory packages and what they need, no others.
BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
sys.argv = ["peerloom", *{words!r}]
from peerloom.cli import main
main()
"""


def packages(lines):
    return {_Wanted.read(line).name for line in lines if not line.startswith("peerloom[")}


BASE = packages(PROJECT["dependencies"])
EXTRAS = {
    name: packages(lines)
    for name, lines in PROJECT["optional-dependencies"].items()
    if name not in ("all", "test")
}
APART = ("flower", "peft")  # in environments of their own: see `tests/environments.py`
GONE = {"joblib", "pandas", "sklearn", "threadpoolctl"}
OPTIONAL = GONE | {MODULES.get(name, name) for names in EXTRAS.values() for name in names}


def command(*words, cwd, blocked=OPTIONAL):
    code = BLOCKED.format(blocked=sorted(blocked), words=list(map(str, words)))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    made = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        made, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def place(tmp_path):
    (tmp_path / "small.toml").write_text(FILE)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "peer --help",
        "peer start --help",
        "list",
        "list algorithms",
        "advise small.toml",
        "doctor",
        "data list",
        "sweep small.toml --grid problem.batch=2,4 --jobs 2 --export svg --export csv --out swept",
    ],
)
def test_commands_that_need_the_mandatory_packages_only(words, place):
    done = command(*words.split(), cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_an_experiment_runs_and_is_reported_with_the_mandatory_packages_only(place):
    for words in (
        "run small.toml --out out",
        "report out --export svg",
        "run --resume out",
        "export out/DGD-seed1",
    ):
        done = command(*words.split(), cwd=place)
        assert done.returncode == 0, f"{words}: {done.stderr}"
    assert "<html" in (place / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "what", "extra"),
    [
        ("up small.toml --out out", "What runs between machines", "peer"),
        (
            "peer init a --found --address 127.0.0.1:7400 --folder home",
            "What runs between machines",
            "peer",
        ),
        ("peer status --folder home", "What runs between machines", "peer"),
        ("bench --case links", "What runs between machines", "peer"),
        (
            "sweep small.toml --grid problem.batch=2,4 --export parquet --out swept",
            "Table.to_polars",
            "tables",
        ),
        ("sweep small.toml --grid problem.batch=2,4 --export png --out swept", "PNG", "png"),
    ],
)
def test_a_missing_extra_is_one_sentence_and_an_exit_code(words, what, extra, place):
    done = command(*words.split(), cwd=place)
    assert done.returncode == 2
    assert re.fullmatch(
        rf"error: {what} needs the package \S+, which is not installed: "
        rf"pip install 'peerloom\[{extra}\]'\n",
        "".join(
            line
            for line in done.stderr.splitlines(keepends=True)
            if line.startswith(("error:", "Traceback"))
        ),
    ), done.stderr


def test_doctor_says_how_to_get_an_extra(monkeypatch, capsys):
    monkeypatch.setattr(
        "peerloom.cli.doctor.requires",
        lambda name: ['no-such-package>=1; extra == "png"', "numpy>=1.26"],
    )
    doctor_command(as_json=False)
    assert "'peerloom[png]'" in capsys.readouterr().out


def test_a_missing_extra_is_an_import_error_in_python():
    code = "import sys\nsys.modules['msgpack'] = None\n"
    code += "try:\n    import peerloom.peers.start\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith(
        "needs the package msgpack, which is not installed: pip install 'peerloom[peer]'"
    )


def test_every_package_that_is_imported_is_declared_and_every_declared_one_is_imported():
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
    foreign = found - sys.stdlib_module_names - {"peerloom", "pandas"}
    assert foreign == {
        MODULES.get(name, name) for names in (BASE, *EXTRAS.values()) for name in names
    }


def test_the_extra_all_has_those_that_go_together_and_the_tests_install_it():
    every = PROJECT["optional-dependencies"]
    assert every["all"] == [
        f"peerloom[{','.join(name for name in every if name not in ('all', 'test', *APART))}]"
    ]
    assert every["test"][0] == "peerloom[all]"


def test_what_is_installed_is_pinned():
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().split()
    }
    extras = PROJECT["optional-dependencies"]
    optional = (line for name, lines in extras.items() if name not in APART for line in lines)
    assert packages(PROJECT["dependencies"]) | packages(optional) <= pinned
    assert "scikit-learn" not in pinned


RELAY = [
    line
    for line in (ROOT / "deploy" / "relay-requirements.txt").read_text().splitlines()
    if not line.startswith("#")
]


def installed_alone(folder, lines):
    """A folder with Peerloom, these packages and what they need in turn: links, nothing copied."""
    wanted, known = [_Wanted.read(line).name for line in lines], set()
    while wanted:
        name = wanted.pop()
        if name.lower() in known:
            continue
        known.add(name.lower())
        package = distribution(name)
        for top in {path.parts[0] for path in package.files} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(package.locate_file(top))
        for line in package.requires or []:
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                wanted.append(need.name)
    (folder / "peerloom").symlink_to(ROOT / "src" / "peerloom")
    # Beside it an editable installation leaves facts in src, which may be found first.
    name = f"peerloom-{peerloom.__version__}.dist-info"
    facts = next(path for place in sys.path if (path := Path(place) / name).is_dir())
    (folder / facts.name).symlink_to(facts)
    return folder


def alone(folder, *words):
    """A command where nothing but this folder and Python's own library can be imported."""
    code = f"import sys; sys.path.append({str(folder)!r}); sys.argv[0] = 'peerloom'\n"
    code += "from peerloom.cli import main; main()"
    return [sys.executable, "-I", "-S", "-W", "error", "-c", code, *map(str, words)]


def done_alone(folder, *words):
    return subprocess.run(
        alone(folder, *words), cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_relay_needs_its_own_short_list_of_packages_and_no_torch(tmp_path):
    known = [
        *PROJECT["dependencies"],
        *(line for lines in PROJECT["optional-dependencies"].values() for line in lines),
    ]
    assert set(RELAY) <= set(known), "the same least versions as in pyproject.toml"
    whole = installed_alone(tmp_path, RELAY)
    assert not (whole / "torch").exists()
    for words in ("--help", "peer --help", "relay --help"):
        done = done_alone(whole, *words.split())
        assert done.returncode == 0, done.stderr
    words = ("peer", "init", "founder", "--found", "--json", "--folder", tmp_path / "founder")
    founder = json.loads(done_alone(whole, *words).stdout)["id"]
    there = f"127.0.0.1:{free_ports(1)[0]}"
    relay = subprocess.Popen(
        alone(whole, "relay", "--listen", there, "--folder", "home", "--founder", founder),
        cwd=whole,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = [relay.stderr.readline()]
    while said[-1] and "listening on" not in said[-1]:
        said.append(relay.stderr.readline())
    relay.terminate()
    said.append(relay.communicate(timeout=180)[1])
    assert relay.returncode == 0, "".join(said)


@pytest.mark.parametrize("line", RELAY)
def test_a_relay_needs_every_package_of_its_list(line, tmp_path):
    name = _Wanted.read(line).name
    fewer = installed_alone(tmp_path, RELAY)
    (fewer / name).unlink()
    done = done_alone(fewer, "peer", "init", "relay", "--folder", tmp_path / "home")
    assert done.returncode != 0
    assert name in done.stderr


def test_a_relay_says_which_package_a_peer_would_need(tmp_path):
    (tmp_path / "small.toml").write_text(FILE)
    whole = installed_alone(tmp_path, RELAY)
    done = done_alone(whole, "run", "small.toml")
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(
        r"error: This command needs the package \w+, which is not installed here: "
        r"pip install peerloom\n",
        done.stderr,
    )
