"""What only a process of its own can tell: peak memory, and the time to start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ..core import PeerloomError
from .timing import best_of

__all__ = ["memory", "startup", "torch_alone"]

_ROUNDS = 20
_PATIENCE = 300  # seconds after which a child is given up
_PROBE = "from peerloom.bench.processes import _probe; _probe()"


def memory() -> dict[str, float]:
    """Return the peak memory in GB of softmax, 1000 clients: after rounds, after evaluating."""
    document = json.loads(_child("-c", _PROBE))
    return {key: float(value) for key, value in document.items()}


def torch_alone() -> float:
    """MB of an interpreter that has loaded torch and does nothing."""
    return 1000 * float(
        _child("-c", "import torch; from peerloom.bench.processes import _peak; print(_peak())")
    )


def startup() -> float:
    """Seconds that `peerloom --help` takes; the best of three."""
    return best_of(lambda: _child("-m", "peerloom", "--help"), 3)


def _child(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603  (our own interpreter, our own words)
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=_PATIENCE
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise PeerloomError(
            f"`python {' '.join(arguments)}` ended with exit code {done.returncode}: {last}"
        )
    return done.stdout


def _probe() -> None:
    """The child's part: run, and say how much memory it took."""
    from ..measures import measure
    from .cases import CASES, experiment
    from .contenders import Simulator

    simulator = Simulator(experiment(CASES["softmax-1000"]))
    for _ in range(_ROUNDS):
        simulator.round()
    rounds = _peak()
    measure(simulator.now, seconds=0.0)
    sys.stdout.write(json.dumps({"rounds": rounds, "judged": _peak()}))


def _peak() -> float:
    """GB.

    On Linux from /proc: getrusage's ru_maxrss survives exec, so that a child would report its large
    parent's peak.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e9
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
