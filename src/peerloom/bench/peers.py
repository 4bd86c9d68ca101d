"""What a round costs between processes: a ring of ten, softmax 784 -> 10, batches of 16, TLS on, all wait for all."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from ..algorithms import DGD
from ..experiment import Evaluate, Experiment
from ..graphs import ring
from ..peers.federation import Federation
from ..peers.keep import Keep
from ..peers.row import spec_hash
from ..peers.start import run_folder
from ..problems import Classification, blobs
from .cases import BATCH, LR

__all__ = ["between_peers"]

_PEERS, _ROUNDS, _WARM = 10, 1000, 200


def between_peers() -> dict[str, float]:
    """Seconds until the first round is done everywhere, and rounds per second after that."""
    data = blobs(samples=400, features=784, classes=10)
    exp = Experiment(
        ring(_PEERS), Classification("softmax", data, batch=BATCH), DGD(lr=LR), rounds=_ROUNDS,
        evaluate=Evaluate(every=_WARM),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        federation = Federation(exp, Path(place) / "run")
        begin = time.perf_counter()
        first: list[float] = []

        def look(rows: list[dict[str, object]]) -> None:
            if not first and len(rows) == _PEERS:
                first.append(time.perf_counter() - begin)

        federation.run(look)
        lines = [
            Keep(run_folder(home, federation.exp), spec_hash(federation.exp)).measurements() for home in federation.homes
        ]
    spent = max(line[-1]["seconds"] - line[1]["seconds"] for line in lines)
    return {"start": first[0], "rounds": (_ROUNDS - _WARM) / spent}
