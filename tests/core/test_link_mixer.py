"""Mixing link by link against plain loops, with every codec, as rows and as bytes."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom.codecs import ANQ, Coordinates, Dense, Quantised, RandK, Sign, SignTopK, TopK
from peerloom.core import (
    ByteDelivery,
    CodedWire,
    Draws,
    Envelope,
    LocalWire,
    Network,
    Part,
    average,
    drift,
    equal_average,
    own_settings,
    pull,
    push,
)
from peerloom.core.link_mixer import LinkMixer
from peerloom.core.messages import (
    check_parts,
    join_parts,
    longest_message,
    message_nbytes,
    split_parts,
)
from peerloom.core.protocols import Placement
from peerloom.errors import CodecError
from peerloom.runtime import build_port
from tests.builders import directed_graphs, net_with_links, rows_of, seeds, undirected_graphs
from tests.oracles import check_close, same_bits

CODECS = [
    Dense(), Dense("float16"), Coordinates(0.4), Coordinates(0.4, per_pair=True),
    Coordinates(0.4, mask=True), Coordinates((0.4, 0.1, 1.0, 0.7, 0.4, 0.2, 0.9, 0.5, 0.3)),
    RandK(0.4), TopK(0.4), Sign(), SignTopK(0.4), Quantised(4), ANQ(),
]  # fmt: skip
OFFERS = [pull, push, average, equal_average]
graphs = st.one_of(undirected_graphs(), directed_graphs())


def reference(offer, links, live, codec, tag):
    """scale_i total_i + self_weight_i x_i, one link after the other."""
    x, m = offer.value, links.rows
    total, mass, sent = (torch.zeros_like(x) for _ in range(3))
    for link in np.flatnonzero(live):
        i, j, weight = links.dst[link], links.src[link], links.weight(offer.weight)[link]
        ids = [i * m + j], [j], [min(i, j) * m + max(i, j)]
        here = Envelope(Draws(0), *tag, *(np.array(each) for each in ids))
        values, mask = codec.through(x[j : j + 1], here)
        carried = torch.ones_like(x[0]) if mask is None else mask[0].to(x)
        total[i] += weight * values[0]
        mass[i] += weight * carried
        sent[j] += weight * carried
    scale, self_weight = offer.weigh(mass, sent)
    return scale * total + self_weight * x


class Loop:
    """A wire of bytes whose both ends are here."""

    def __init__(self):
        self.sent = []

    def exchange(self, tag, links, out, bodies, into):
        self.sent += bodies
        came = dict(zip(out.tolist(), bodies, strict=True))
        copies = [np.frombuffer(came[link].tobytes(), np.uint8) for link in into.tolist()]
        return ByteDelivery(copies, np.ones(len(into), bool), np.ones(len(out), bool))


def mixer_of(wire, rows):
    here = np.arange(rows)
    return LinkMixer(Placement(here, rows, torch.device("cpu"), torch.float64), here, wire)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@settings(max_examples=25)
@given(graph=graphs, seed=seeds, share_of_links=st.floats(0, 1))
def test_mixing_is_its_equation_as_rows_and_as_bytes(codec, graph, seed, share_of_links):
    random = np.random.default_rng(seed)
    links, rows = graph.peers, graph.rows
    live, tag = random.random(len(links)) < share_of_links, (3, 1)
    ids = np.flatnonzero(live)
    offers = [make(rows_of(random, rows, n=9)) for make in OFFERS]
    loop = Loop()
    by_rows = mixer_of(LocalWire(codec, Draws(0)), rows)(offers, links, ids, ids, tag)
    by_bytes = mixer_of(CodedWire(codec, Draws(0), np.arange(rows), loop), rows)(
        offers, links, ids, ids, tag
    )
    for offer, found, other in zip(offers, by_rows.values, by_bytes.values, strict=True):
        check_close(found.numpy(), reference(offer, links, live, codec, tag).numpy())
        assert same_bits(found, other)
    parts = tuple(offer.part for offer in offers)
    lengths = message_nbytes(codec, parts, by_rows.lengths)
    assert [len(body) for body in loop.sent] == np.broadcast_to(lengths, len(ids)).tolist()
    assert np.array_equal(
        np.broadcast_to(lengths, len(ids)), message_nbytes(codec, parts, by_bytes.lengths)
    )
    assert all(len(body) <= longest_message(codec, parts, torch.float64) for body in loop.sent)
    for body in loop.sent:
        check_parts(codec, parts, body, torch.float64)


def compressing_nets(codec, send=None):
    """All rows here without and with bytes, and what each compresses."""
    own = {name: value[:5] for name, value in own_settings(codec).items()}
    codec = replace(codec, **own) if own else codec
    exp = pl.Experiment(
        pl.graphs.ring(5), pl.testing.random_quadratic(5, 9), pl.rules.CHOCO(0.1), message=codec,
        rounds=2, dtype="float64",
    )  # fmt: skip
    x = rows_of(np.random.default_rng(4), 5, n=9)
    for wire in (None, CodedWire(codec, Draws(0), np.arange(5), Loop())):
        net = build_port(exp, mixer="auto" if wire is None else "links", wire=wire)
        net.t = 1
        yield net, [net.compress(x, send), net.compress(2 * x, send)]


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize(
    "silent", [[], [1, 3], [0, 1, 2, 3, 4]], ids=["all talk", "some are silent", "silence"]
)
def test_what_is_compressed_costs_what_it_sends(codec, silent):
    """A message carries two differences; the ledger charges their bodies, nothing for silence."""
    send = torch.ones(5, 1, dtype=torch.float64)
    send[silent] = 0
    (plain, _), (coded, q) = [
        (net, net.mix(*(drift(each) for each in made)))
        for net, made in compressing_nets(codec, send if silent else None)
    ]
    (_, first), (_, second) = compressing_nets(codec, send if silent else None)
    for one, other in zip(first, second, strict=True):
        assert same_bits(one.value, other.value)
        assert not one.value[silent].view(torch.int64).any()
    for name, values in plain.ledger.arrays().items():
        assert np.array_equal(values, coded.ledger.arrays()[name]), name
    loop = coded.wire._wire
    assert sum(len(body) for body in loop.sent) == coded.ledger.bytes
    assert coded.ledger.messages == 2 * (5 - len(silent))
    links = plain.network.peers
    assert all(
        (len(body) == 0) == (int(source) in silent)
        for body, source in zip(loop.sent, links.src, strict=True)
    )
    wanted = [(links.matrix() - np.eye(5)) @ each.value.numpy() for each in first]
    for found, right in zip(q, wanted, strict=True):
        check_close(found.numpy(), right)


@pytest.mark.parametrize(
    "codec", [Dense(), TopK(0.3), Sign(), Coordinates(0.5, per_sender=True)], ids=repr
)
def test_a_row_is_encoded_once_for_all_who_hear_it(codec):
    loop, ids = Loop(), np.arange(12)
    links, x = pl.graphs.complete(4).peers, rows_of(np.random.default_rng(0), 4)
    mixer_of(CodedWire(codec, Draws(0), np.arange(4), loop), 4)(
        [pull(x), push(x)], links, ids, ids, (1, 1)
    )
    made = defaultdict(set)
    for link, body in zip(ids, loop.sent, strict=True):
        made[links.src[link]].add(id(body))
    assert all(len(each) == 1 for each in made.values())


def test_parts_whose_length_is_not_known_are_announced():
    parts = (Part(8, False), Part(8, False), Part(8, True))
    bodies = [np.frombuffer(text, np.uint8) for text in (b"abcde", b"", b"xyz")]
    joined = join_parts(Sign(), parts, bodies)
    assert joined.tobytes() == b"\5\0\0\0\0\0\0\0abcdexyz"
    assert [part.tobytes() for part in split_parts(Sign(), parts, joined, torch.float32)] == [
        b"abcde",
        b"",
        b"xyz",
    ]
    plain = [np.zeros(32, np.uint8) for _ in parts]
    assert len(join_parts(Dense(), parts, plain)) == 96
    for wrong in (b"\5\0\0\0", b"\377\0\0\0\0\0\0\0abc"):
        with pytest.raises(CodecError, match="too few"):
            split_parts(Sign(), parts, np.frombuffer(wrong, np.uint8), torch.float32)


def test_a_network_without_links_mixes_nothing():
    graph = pl.graphs.from_edges(3, [])
    assert isinstance(graph, Network)
    x = rows_of(np.random.default_rng(0), 3)
    net = net_with_links(graph, np.ones((3, 3), bool), LocalWire(Dense(), Draws(0)))
    assert same_bits(net.mix(x), x)
