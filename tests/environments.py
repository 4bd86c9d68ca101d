"""Environments of their own for packages that do not go into .venv, one for each version tested.

`python -m tests.environments` makes them, and `make test` calls it. Flower pins packages that
Peerloom has in other versions; PEFT brings much that nothing else needs. An environment lies below
.venv, holds what its list pins (tests/hosts/flower-*.txt, tests/language/peft-*.txt), and takes the
rest, torch among it, from .venv.
"""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTS = {
    path.stem: path
    for path in sorted((ROOT / "tests").glob("*/*.txt"))
    if path.stem.startswith(("flower-", "peft-"))
}
_MISSING = "missing.txt"  # in an environment that could not be made: why


def named(package):
    """The environments with a package."""
    return [name for name in LISTS if name.startswith(f"{package}-")]


def python_of(name):
    """The interpreter of an environment."""
    return ROOT / ".venv" / name / "bin" / "python"


def packages_of(name):
    """Where an environment's packages lie."""
    kind = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return ROOT / ".venv" / name / "lib" / kind / "site-packages"


def why_missing(name):
    """Why an environment cannot be used here; empty where it can."""
    home = ROOT / ".venv" / name
    if not (home / "made").exists():
        why = home / _MISSING
        said = why.read_text() if why.exists() else "`make .venv/.installed-for-tests` makes it"
        return f"no environment {name}: {said}"
    return ""


def run_tests(name, folder):
    """Run a folder of tests, all of them, in an environment; skip where there is none."""
    if missing := why_missing(name):
        pytest.skip(missing)
    # These packages warn of each other.
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]
    done = subprocess.run(
        [python_of(name), *words, "-m", "", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " skipped" not in done.stdout


def make(name):
    """Make an environment, once; where pip cannot, leave the reason there."""
    home, wanted = ROOT / ".venv" / name, LISTS[name]
    if (home / "made").exists() and (home / "made").read_text() == wanted.read_text():
        return
    venv.create(home, clear=True, with_pip=False)
    shared = f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n"
    (packages_of(name) / "shared.pth").write_text(shared)
    pip = [sys.executable, "-m", "pip", "--python", str(python_of(name)), "install", "--quiet"]
    pip += ["--disable-pip-version-check", "--no-deps", "--requirement", str(wanted)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        (home / _MISSING).write_text(f"pip cannot install it ({'; '.join(errors) or 'no reason'})")
    else:
        (home / "made").write_text(wanted.read_text())


if __name__ == "__main__":
    for each in LISTS:
        make(each)
        if missing := why_missing(each):
            print(f"Some tests will be skipped: {missing}", file=sys.stderr)  # noqa: T201
