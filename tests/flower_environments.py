"""Environments with Flower, one for each version that is tested.

`python -m tests.flower_environments` makes them, and `make test` calls it. Flower pins packages
that Peerloom has in other versions, so it never goes into .venv itself. Its environments lie below,
hold what their list in tests/hosts pins, and take the rest, torch among it, from .venv.
"""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTS = sorted((ROOT / "tests" / "hosts").glob("flower-*.txt"))
VERSIONS = [path.stem.removeprefix("flower-") for path in LISTS]
_MISSING = "missing.txt"  # in an environment that could not be made: why


def python_of(version):
    """The interpreter of a version's environment."""
    return ROOT / ".venv" / f"flower-{version}" / "bin" / "python"


def packages_of(version):
    """Where a version's packages lie."""
    kind = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return ROOT / ".venv" / f"flower-{version}" / "lib" / kind / "site-packages"


def why_missing(version):
    """Why a version cannot be tested here; empty where it can."""
    home = ROOT / ".venv" / f"flower-{version}"
    if not (home / "made").exists():
        why = home / _MISSING
        said = why.read_text() if why.exists() else "`make .venv/.installed-for-tests` makes it"
        return f"no environment with flwr {version}: {said}"
    return ""


def make(version):
    """Make a version's environment, once; where pip cannot, leave the reason there."""
    home = ROOT / ".venv" / f"flower-{version}"
    wanted = ROOT / "tests" / "hosts" / f"flower-{version}.txt"
    if (home / "made").exists() and (home / "made").read_text() == wanted.read_text():
        return
    venv.create(home, clear=True, with_pip=False)
    shared = f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n"
    (packages_of(version) / "shared.pth").write_text(shared)
    pip = [sys.executable, "-m", "pip", "--python", str(python_of(version)), "install", "--quiet"]
    pip += ["--disable-pip-version-check", "--no-deps", "--requirement", str(wanted)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        (home / _MISSING).write_text(f"pip cannot install it ({'; '.join(errors) or 'no reason'})")
    else:
        (home / "made").write_text(wanted.read_text())


if __name__ == "__main__":
    for each in VERSIONS:
        make(each)
        if missing := why_missing(each):
            print(f"The tests with Flower will be skipped: {missing}", file=sys.stderr)  # noqa: T201
