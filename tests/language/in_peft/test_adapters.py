"""Rows that are adapters of PEFT: what is trained, sent, compared and given away."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import peerloom as pl
from peerloom.config import experiment_to_toml, spec_hash
from peerloom.core import ConfigError, DataError
from peerloom.language import (
    Perplexity,
    Transformer,
    Windows,
    cross_term,
    mapped,
    next_token,
    with_adapters,
    write_adapter,
    write_weights,
)
from peerloom.peers.export import export_peer
from peerloom.peers.folder import PeerFolder
from peerloom.peers.start import run_identity
from peerloom.peers.wire_plan import WirePlan
from peerloom.problems import Task
from peerloom.problems.layout import trainable
from peerloom.runs import RunFolder
from peerloom.runs.export import export_run
from peerloom.runtime import simulation
from peerloom.transport import Home
from tests.codecs.test_real_bytes import run_over_tls
from tests.command import printed_by
from tests.memory_runs import check_same, run_in_memory
from tests.problems.test_mapped_base import copied, lies_in

TARGETS = ("q", "v", "up", "down")
MAKE_IT = "Make it anew."


def network(width=16):
    return Transformer(9, width, layers=2, heads=2, length=8)


@pytest.fixture
def base(tmp_path):
    torch.manual_seed(0)
    write_weights(network(), tmp_path / "base" / "letters.safetensors")
    return tmp_path / "base" / "letters.safetensors"


def adapted(base, dropout=0.0):
    return with_adapters(mapped(network, base, MAKE_IT), TARGETS, rank=2, dropout=dropout)


def tokens(client):
    return torch.randint(9, (60,), generator=torch.Generator().manual_seed(client))


def task(base, **settings):
    """The clients' texts are noise: what they learn matters to nobody here."""
    made = Task(
        lambda: adapted(base, **settings),
        next_token,
        lambda client: Windows(tokens(client), 8),
        batch=4,
    )
    return named(made)


def named(made):
    """As if a file said it: the same at every site, whatever lies behind the name there."""
    return made.made_by({"name": "letters:task"})


def experiment(problem, graph=None, **changes):
    rule = pl.rules.LocalAdamW(lr=0.02, K=2)
    given = {"rounds": 4, "seed": 3} | changes
    return pl.Experiment(graph or pl.graphs.ring(4), problem, rule, **given)


def test_a_row_is_the_adapters_and_the_base_stays_in_its_file(base):
    problem = task(base)
    module = problem.module(3)
    assert all(".lora_A." in name or ".lora_B." in name for name in trainable(module))
    per_map = [2 * (16 + 16)] * 2 + [2 * (16 + 64)] * 2
    assert problem.n == 2 * sum(per_map)
    *_, last = pl.iterate(experiment(problem))
    held = last.port.problem.module.get_base_model()
    assert lies_in(base, held.blocks[0].up.base_layer.weight)
    assert copied(base) < 16 * 1024  # of the pages that its ends lie on
    for name, weight in load_file(base).items():
        assert torch.equal(mapped(network, base, MAKE_IT).state_dict()[name], weight)
    start = problem.start(3)
    assert not torch.equal(start, problem.start(4)), "A is drawn by the seed"
    assert torch.equal(start, problem.start(3))


def test_peers_have_the_simulators_bits_after_kills(base, identities, tmp_path):
    exp = experiment(task(base, dropout=0.2), rounds=6)
    check_same(exp, run_in_memory(exp, identities, tmp_path, seed=2, crashes=[(0.05, 1, 0.2)]))


def test_what_travels_is_the_adapters_and_little_more(tmp_path):
    torch.manual_seed(0)
    write_weights(network(64), tmp_path / "base.safetensors")
    problem = Task(
        lambda: with_adapters(
            mapped(lambda: network(64), tmp_path / "base.safetensors", MAKE_IT), TARGETS, rank=4
        ),
        next_token,
        lambda client: Windows(tokens(client), 8),
        batch=4,
    )
    exp = experiment(named(problem), graph=pl.graphs.ring(2), rounds=20)
    results, links, passed = run_over_tls(exp, tmp_path)
    adapters = 4 * problem.n * exp.rounds  # of each peer
    for row in range(2):
        charged = results[row].ledger.bytes
        assert links[row].bytes["acked"] == charged
        assert adapters <= charged < 1.02 * adapters
    assert adapters < passed < 1.02 * adapters, "one way, with TLS and all that begins a link"


@pytest.mark.parametrize("row", [None, 1])
def test_peft_loads_the_export_with_the_same_bits(row, base, tmp_path, monkeypatch, capsys):
    exp, folder = experiment(task(base)), tmp_path / "adapter"
    result = pl.simulate(exp, out=tmp_path / "run")
    monkeypatch.setattr(RunFolder, "experiment", lambda self: exp)  # a file could not say this task
    words = ["export", tmp_path / "run", "--peft", "-o", folder, "--json"]
    words += [] if row is None else ["--row", row]
    about = printed_by(monkeypatch, capsys, *words)
    assert about["round"] == "4"
    assert json.loads((folder / "peerloom.json").read_text())["model"] == about["model"]
    loaded = PeftModel.from_pretrained(mapped(network, base, MAKE_IT), folder).eval()
    ours, x = (
        exp.problem.module(exp.seed).eval(),
        result.x.double().mean(0).float() if row is None else result.x[row],
    )
    with torch.no_grad():
        for part, into in zip(torch.split(x, sizes(ours)), trainable(ours).values(), strict=True):
            into.copy_(part.view(into.shape))
        probe = torch.arange(8)[None]
        assert torch.equal(ours(probe), loaded(probe))
        merged = loaded.merge_and_unload()(probe)
        assert torch.allclose(ours(probe), merged, atol=1e-5)
        plain = mapped(network, base, MAKE_IT)
        assert not torch.allclose(ours(probe), plain(probe), atol=1e-3), "it has learnt"


def test_a_peer_exports_its_own_adapters(base, tmp_path):
    exp, home = experiment(task(base)), Home.create(tmp_path / "peer", "one", (), found=True)
    text = experiment_to_toml(exp).encode()
    folder = home.state / hashlib.sha256(text).hexdigest()[:16]
    session = simulation(exp)
    *_, last = session
    mine = session.checkpoint().select([1], exp.graph)
    PeerFolder(folder, spec_hash(exp)).save(mine)
    (folder / "experiment.toml").write_bytes(text)
    _, about = export_peer(
        home, tmp_path / "adapter", code=lambda name: lambda: task(base), peft=True
    )
    assert (about["model"], about["round"]) == ("peer one", "4")
    written = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    flat = torch.cat([part.flatten() for part in written.values()])
    assert torch.equal(flat.sort().values, last.x[1].sort().values)


def sizes(module):
    return [part.numel() for part in trainable(module).values()]


def test_a_base_that_differs_is_another_agreement(base, tmp_path):
    torch.manual_seed(1)
    write_weights(network(), tmp_path / "other.safetensors")
    found = [
        run_identity(exp, WirePlan.of(exp))
        for exp in (experiment(task(file)) for file in (base, base, tmp_path / "other.safetensors"))
    ]
    assert found[0].agreement == found[1].agreement != found[2].agreement


def test_averaging_factors_misses_what_plain_loops_say(base):
    problem = task(base)
    dice = torch.Generator().manual_seed(0)
    one = torch.randn(1, problem.n, generator=dice, dtype=torch.float64)
    assert cross_term(problem, one.repeat(5, 1)) < 1e-14
    models = one + torch.randn(5, problem.n, generator=dice, dtype=torch.float64)
    apart = together = 0.0
    names, cuts = list(trainable(problem.module(0))), np.cumsum(sizes(problem.module(0)))[:-1]
    parts = dict(zip(names, np.split(models.numpy(), cuts, axis=1), strict=True))
    for name in names:
        if ".lora_A." in name:
            A = parts[name].reshape(5, 2, -1)
            B = parts[name.replace("lora_A", "lora_B")].reshape(5, -1, 2)
            mean = sum(B[i] @ A[i] for i in range(5)) / 5
            apart += ((mean - B.mean(0) @ A.mean(0)) ** 2).sum()
            together += (mean**2).sum()
    assert cross_term(problem, models) == pytest.approx((apart / together) ** 0.5)
    with pytest.raises(ConfigError, match="trains no adapters"):
        cross_term(whole := replace(problem, model=network), whole.start(0)[None])


def test_the_factors_of_adapters_are_trained_in_turn(base):
    problem = task(base)
    first = problem.spans("lora_A")
    assert sum(end - start for start, end in first + problem.spans("lora_B")) == problem.n
    rule = pl.rules.Alternating(pl.rules.LocalAdamW(lr=0.02), first)
    exp = pl.Experiment(pl.graphs.ring(4), problem, rule, rounds=6, seed=3)
    mask, moved, before = torch.zeros(problem.n, dtype=torch.bool), set(), None
    for start, end in first:
        mask[start:end] = True
    for snapshot in pl.iterate(exp):
        if before is not None:
            changed = (snapshot.x != before).any(dim=0)
            assert not changed[mask].any() or not changed[~mask].any()
            moved.add(bool(changed[mask].any()))
        before = snapshot.x.clone()
    assert moved == {True, False}


class Labelled(Windows):
    """Windows as Transformers' models take them."""

    def __getitem__(self, k):
        tokens = super().__getitem__(k)
        return {"input_ids": tokens, "labels": tokens}


def own_loss(model, batch):
    """The model's own loss."""
    return model(**batch).loss


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_a_model_of_transformers_is_mapped_adapted_and_judged(tmp_path):
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "bos_token_id": None, "eos_token_id": None}
    LlamaForCausalLM(LlamaConfig(vocab_size=9, **sizes, **heads)).save_pretrained(tmp_path)

    def make():
        return with_adapters(LlamaForCausalLM.from_pretrained(tmp_path), ("q_proj",), rank=2)

    held = Perplexity(lambda: Labelled(tokens(9), 8, count=10), own_loss)
    problem = Task(make, own_loss, lambda i: Labelled(tokens(i), 8), batch=4, metrics=held)
    exp = experiment(problem)
    *_, last = pl.iterate(exp)
    model = last.port.problem.module.get_base_model().model
    assert lies_in(tmp_path / "model.safetensors", model.layers[0].mlp.up_proj.weight)
    assert problem.n == 2 * (64 + 64)
    found = last.port.problem.evaluate(last.x)
    assert found.more["perplexity"] == pytest.approx(np.exp(found.loss))


# -- what is refused


def test_wrong_targets_are_named_with_those_that_there_are(base):
    plain = mapped(network, base, MAKE_IT)
    with pytest.raises(ConfigError, match=r"no linear map 'query'.*Known: down, k, out, q, up, v"):
        with_adapters(plain, ("q", "query"))
    with pytest.raises(ConfigError, match="needs target modules"):
        with_adapters(plain, ())
    with pytest.raises(ConfigError, match="found rank=0"):
        with_adapters(plain, TARGETS, rank=0)


def test_weights_that_are_not_there_or_another_models_are_data_missing(base, tmp_path):
    with pytest.raises(DataError, match=r"no weights in .*nowhere. Make it anew"):
        mapped(network, tmp_path / "nowhere", MAKE_IT)
    with pytest.raises(DataError, match=r"does not hold .* of Transformer: .*size mismatch.*anew"):
        mapped(lambda: network(32), base, MAKE_IT)
    (tmp_path / "cut").write_bytes(base.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"cut does not hold the weights.* Make it anew"):
        mapped(network, tmp_path / "cut", MAKE_IT)


class Masked(Transformer):
    """One with a buffer that is made, and not saved."""

    def __init__(self):
        super().__init__(9, 16, layers=2, heads=2, length=8)
        self.register_buffer("mask", torch.ones(8), persistent=False)


def test_a_buffer_that_no_file_has_is_refused(base):
    with pytest.raises(ConfigError, match="Masked has a buffer 'mask' that it does not save"):
        mapped(Masked, base, MAKE_IT)


def test_a_model_without_adapters_has_nothing_for_peft(base, tmp_path, monkeypatch):
    frozen = Task(lambda: adapted(base).requires_grad_(False), next_token, [[0]])
    with pytest.raises(ConfigError, match="no parameter to train: all"):
        frozen.start(0)
    straight = Task(lambda: nn.Linear(2, 2), lambda m, b: m(b).mean(), [torch.ones(2, 2)] * 4)
    plain = experiment(named(straight))
    pl.simulate(plain, out=tmp_path / "run")
    monkeypatch.setattr(RunFolder, "experiment", lambda self: plain)
    with pytest.raises(ConfigError, match=r"is Linear, and has no adapters.* without --peft"):
        export_run(RunFolder(tmp_path / "run"), tmp_path / "out", None, peft=True)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file, but adapters take a folder"):
        write_adapter(adapted(base), tmp_path / "file")


def test_modules_that_peft_made_itself_are_trained_and_exported(base, tmp_path):
    """Other settings than ours, such as adapters at one block only."""
    config = LoraConfig(r=1, target_modules=["blocks.1.q"], use_rslora=True)
    problem = replace(task(base), model=lambda: get_peft_model(mapped(network, base, ""), config))
    assert problem.n == 32
    write_adapter(problem.module(0), tmp_path / "adapter")
    assert PeftModel.from_pretrained(network(), tmp_path / "adapter").peft_config
