"""A peer as a process to kill and to stop: running sums over real links, with checkpoints.

    python peer_process.py NUMBER FOLDER IDENTITY FOUNDER PORT

In each step it receives, keeps what came, pushes parts of its value, and now and then writes a
checkpoint. A file 'finish' in the folder makes it stop pushing, wait for what is in transit, write
its totals and end.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from peerloom.peers.floats import float_channel, to_body
from peerloom.transport import (
    Endpoint,
    History,
    Identity,
    Inflow,
    Outflow,
    Parcel,
    Roster,
    RunIdentity,
)
from peerloom.transport.files import write_whole
from tests.doubles.failpoints import arm
from tests.federation import LENGTH, QUICK, numbers

RUN = RunIdentity("processes", "spec", {0: float_channel("float64", [LENGTH])})


def main(number, folder, identity, founder, port):
    roster = Roster.from_bytes((folder / "roster.json").read_bytes(), founder)
    me = identity.id
    out = {peer: Outflow(LENGTH) for peer in roster.targets(me)}
    into = {peer: Inflow(LENGTH) for peer in roster.sources(me)}
    source = np.random.default_rng(number).normal(size=LENGTH) + 3
    value, step, checkpoint = source.copy(), 0, folder / f"checkpoint-{number}.json"
    if checkpoint.exists():
        saved = json.loads(checkpoint.read_text())
        value, step = np.array(saved["value"]), saved["step"]
        for peer, sigma in saved["sigma"].items():
            out[peer].restore(np.array(sigma))
        for peer, (rho, order) in saved["rho"].items():
            into[peer].restore(np.array(rho), tuple(order))
    history = History(folder / f"history-{number}.jsonl", me)
    state = folder / f"state-{number}"
    with Endpoint(
        identity, roster, RUN, state, ("127.0.0.1", port), QUICK, history=history
    ) as post:
        quiet, said_last = 0, False
        while quiet < 30:
            finishing = (folder / "finish").exists()
            quiet = quiet + 1 if finishing else 0
            for peer, flow in into.items():
                letter = post.newest(peer, 0)
                if (
                    letter is not None
                    and (difference := flow.receive(numbers(letter), letter.order)) is not None
                ):
                    value, quiet = value + difference, 0 if difference.any() else quiet
            step += 1
            history.note("round", round=step)
            share = 0.0 if finishing else 0.2
            if not (finishing and said_last):
                said_last = finishing
                for peer, flow in out.items():
                    amount = share * value
                    value = value - amount
                    post.send(peer, Parcel(0, step, 0, to_body(flow.push(amount))), mode="latest")
            if step % 10 == 0 and not finishing:
                state = {
                    "value": value.tolist(),
                    "step": step,
                    "sigma": {peer: flow.sigma.tolist() for peer, flow in out.items()},
                    "rho": {peer: (flow.rho.tolist(), flow.order) for peer, flow in into.items()},
                }
                write_whole(checkpoint, json.dumps(state).encode())
                history.note("checkpoint", round=step)
            time.sleep(0.002 if not finishing else 0.02)
        post.settle(None, 5.0)
        history.note(
            "totals",
            held=value.tolist(),
            source=source.tolist(),
            sent={peer: flow.sigma.tolist() for peer, flow in out.items()},
            got={peer: flow.rho.tolist() for peer, flow in into.items()},
            tallies=[
                [link.tally.created, link.tally.balanced]
                for link in post.links()
                if link.direction == "out"
            ],
        )


if __name__ == "__main__":
    arm(os.environ.get("PEERLOOM_FAILPOINTS", ""))
    main(
        int(sys.argv[1]),
        Path(sys.argv[2]),
        Identity.load(Path(sys.argv[3])),
        sys.argv[4],
        int(sys.argv[5]),
    )
