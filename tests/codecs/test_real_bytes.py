"""Over TLS, a peer sends the bytes that its ledger charges, plus a stated framing."""

import threading
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import peerloom as pl
from chaos.ends import endpoint, federation, free_ports
from chaos.middle import Middle
from peerloom.codecs import ANQ, Coordinates, Dense, Quantised, RandK, Sign, SignTopK, TopK
from peerloom.core import Evaluation
from peerloom.peers.folder import PeerFolder
from peerloom.peers.peer import PeerRun
from peerloom.peers.wire_plan import WirePlan
from peerloom.runtime import iterate
from peerloom.transport import RunIdentity, Settings

N = 20_000
# Bytes beside the bodies, as docs/decisions/real-bytes.md states them.
FRAME = 28 + 19 + 8  # of a message: prefix, header, seal
RECORD = 22  # of every 16 KB that TLS encrypts together
ANSWER = 39 + RECORD  # to a message of the other direction, or to four small ones
HANDSHAKE = 1190  # of a connection and its greeting, about
CHOCO, BEER = pl.rules.CHOCO(0.1), pl.rules.BEER(0.1)
CASES = [
    (pl.rules.DSGD(0.1), Dense()),
    (pl.rules.DSGD(0.1), Dense("float16")),
    (pl.rules.DSGD(0.1), Dense("bfloat16")),
    (pl.rules.DSGD(0.1), Coordinates(0.1)),
    (pl.rules.DSGD(0.1), Coordinates(0.1, mask=True)),
    (pl.rules.DSGD(0.1), TopK(0.1)),
    (pl.rules.SpodGT(0.05), Coordinates(0.1)),
    (CHOCO, RandK(0.1, unbiased=True)),
    (CHOCO, TopK(0.1, "index")),
    (CHOCO, Sign()),
    (CHOCO, SignTopK(0.1)),
    (CHOCO, Quantised(5)),
    (CHOCO, ANQ()),
    (BEER, ANQ()),
    (BEER, Sign()),
    (pl.rules.SQuARM(0.1, c=500.0), SignTopK(0.1)),
]


@dataclass(frozen=True)
class Pulls:
    """Every row is pulled to a point of its own; many coordinates, and no work."""

    n: int = N

    def start(self, seed):
        return torch.zeros(self.n, dtype=torch.float64)

    def bind(self, place, draws):
        goals = [np.random.default_rng(row).normal(size=self.n) for row in place.rows]
        return _Pulled(torch.from_numpy(np.array(goals)).to(place.dtype))


class _Pulled:
    def __init__(self, goals):
        self._goals = goals

    def grad(self, x, on, t, batch=0):
        return x[on] - self._goals[on]

    def prox(self, z, step):
        return z

    def evaluate(self, x):
        return Evaluation(np.zeros(len(x)), None)


def run_over_tls(exp, folder):
    """Two peers, the link from the first to the second through a man who counts."""
    ports = free_ports(2)
    middle = Middle(ports[1])
    # Only the second can be dialled.
    roster = federation(2, [(0, 1), (1, 0)], ["", f"127.0.0.1:{middle.port}"])
    plan, results, links = WirePlan.of(exp), {}, {}
    run = RunIdentity("bytes", "spec", plan.channels)

    def work(row, post):
        results[row] = PeerRun(exp, row, post, PeerFolder(folder / str(row), "spec"), plan).run()
        links[row] = next(link for link in post.links() if link.direction == "out")

    with ExitStack() as stack:
        posts = {}
        for row in (1, 0):  # who is dialled through the middle must be there first
            listen = ("127.0.0.1", ports[row])
            end = endpoint(row, roster, folder, run, plan.settings(Settings()), listen=listen)
            posts[row] = stack.enter_context(end)
        threads = [
            threading.Thread(target=work, args=(row, post), daemon=True)
            for row, post in posts.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    middle.close()
    return results, links, sum(map(len, middle.recorded))


@pytest.mark.parametrize(("rule", "codec"), CASES, ids=lambda part: repr(part))
def test_what_is_charged_is_what_travels(rule, codec, tmp_path):
    exp = pl.Experiment(pl.graphs.ring(2), Pulls(), rule, message=codec, rounds=40)
    results, links, passed = run_over_tls(exp, tmp_path)
    *_, simulated = iterate(exp, path="links")
    for name in simulated.state._fields:
        found = torch.cat([getattr(results[row].state, name) for row in range(2)])
        assert torch.equal(found, getattr(simulated.state, name)), name
    for row in range(2):
        ledger = results[row].ledger
        assert links[row].bytes["acked"] == ledger.bytes > 0, "bodies, to the byte"
    both = sum(results[row].ledger.bytes for row in range(2))
    assert both == simulated.ledger.bytes
    body, frames = results[0].ledger.bytes, links[0].frames["acked"]
    records = frames * (1 + body / frames // 2**14)
    answers = frames if body / frames > 2**16 else frames / 4
    sent = body + FRAME * frames + RECORD * records + ANSWER * answers + HANDSHAKE
    assert passed == pytest.approx(sent, rel=0.01)
