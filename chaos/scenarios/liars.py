"""A member that lies: valid key, valid frames, but NaN, a hundredfold or negated numbers."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from peerloom.config import spec_hash
from peerloom.errors import PeerloomError
from peerloom.experiment import Experiment
from peerloom.peers.floats import from_body, to_body
from peerloom.peers.folder import PeerFolder
from peerloom.peers.peer import PeerRun
from peerloom.peers.wire_plan import WirePlan
from peerloom.transport import Endpoint, Mode, Parcel, Receipt, RunIdentity, Settings

from ..ends import endpoint, federation, free_ports
from ..figures import Figure, Stage, at_least, at_most, exactly, told
from ..peers import experiment, gradient_left

__all__ = ["lies"]

_PEERS, _LIAR = 5, 2
_DEADLINE = 0.3  # seconds: rounds go on without what was refused
Change = Callable[[NDArray[np.floating[Any]]], NDArray[np.floating[Any]]]


class Liar:
    """An endpoint that changes what it sends, and is honest in everything else."""

    def __init__(self, post: Endpoint, change: Change) -> None:
        self._post, self._change = post, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._post, name)

    def send(
        self, peer: str, parcel: Parcel, mode: Mode = "ordered", repeat: bool = False
    ) -> Receipt:
        """Send the parcel with other numbers."""
        body = to_body(self._change(from_body(parcel.body, "float64")))
        return self._post.send(peer, replace(parcel, body=body), mode, repeat)


def lies(stage: Stage) -> list[Figure]:
    """Five peers mix their models in a ring, one of them lies; what that does to the other four."""
    exp = experiment(rounds=30 if stage.quick else 60, rule="DSpodFL", clients=_PEERS, features=50)
    bound = 10 * float(np.sqrt(exp.problem.n))
    told_of = list[Figure]()
    for name, change, largest in (
        ("nobody lies", lambda body: body, None),
        ("NaN", lambda body: body * np.nan, None),
        ("a hundredfold", lambda body: body * 100, None),
        ("a hundredfold, with a bound on norms", lambda body: body * 100, bound),
        ("the opposite", lambda body: -body, None),
    ):
        stage.say(name)
        left, refused = _run(stage, exp, name, change, largest)
        if name == "NaN":
            told_of += [
                at_least("NaN: vectors refused", refused.get("not_finite", 0), 1),
                exactly("NaN: honest models stay finite", bool(np.isfinite(left)), True),
            ]
        if largest is not None:
            told_of.append(at_least(f"{name}: vectors refused", refused.get("norm", 0), 1))
        text = f"{name}: gradient left at the honest peers, of the start's"
        told_of.append(at_most(text, left, 1.0) if name == "NaN" else told(text, left))
    return told_of


def _run(
    stage: Stage, exp: Experiment, name: str, change: Change, largest: float | None
) -> tuple[float, dict[str, int]]:
    """What is left of the gradient at the honest peers, and what they refused."""
    ring = [(k, (k + 1) % _PEERS) for k in range(_PEERS)]
    pairs = [*ring, *((b, a) for a, b in ring)]
    roster = federation(_PEERS, pairs, [f"127.0.0.1:{port}" for port in free_ports(_PEERS)])
    plan = WirePlan.of(exp, _DEADLINE, largest_norm=largest)
    run = RunIdentity("liars", spec_hash(exp), plan.channels)
    settings = plan.settings(Settings())
    folder, models = stage.folder / name.replace(" ", "-"), dict[int, torch.Tensor]()

    def work(row: int, post: Endpoint) -> None:
        keep = PeerFolder(folder / str(row), spec_hash(exp))
        # A model that is no longer finite; its row then has no result.
        with contextlib.suppress(PeerloomError):
            speaks = Liar(post, change) if row == _LIAR else post
            models[row] = PeerRun(exp, row, speaks, keep, plan).run().state.x

    with contextlib.ExitStack() as stack:
        posts = [
            stack.enter_context(endpoint(row, roster, folder, run, settings))
            for row in range(_PEERS)
        ]
        threads = [
            threading.Thread(target=work, args=(row, post), daemon=True)
            for row, post in enumerate(posts)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        refused = dict[str, int]()
        for row, post in enumerate(posts):
            for why, count in post.refusals().items() if row != _LIAR else ():
                refused[why] = refused.get(why, 0) + count
    honest = [models[row] for row in range(_PEERS) if row != _LIAR and row in models]
    all_ended = len(honest) == _PEERS - 1
    return gradient_left(exp, torch.cat(honest)) if all_ended else math.inf, refused
