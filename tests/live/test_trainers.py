"""Hugging Face's Trainer and Lightning train under a rule, as they are.

Both are large and not needed otherwise, so they are not installed for tests; where they are, this
runs. Tried with transformers 5.23, accelerate 1.15 and Lightning 2.6.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader

import peerloom as pl
from peerloom.live.alone import Alone

ROUNDS = 7


class Net(nn.Module):
    """A model as Trainer wants it: inputs by name, the loss in what it returns."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x, y):
        return {"loss": F.mse_loss(self.layers(x), y)}


def samples():
    dice = torch.Generator().manual_seed(1)
    x = torch.randn(16, 3, generator=dice)
    return [{"x": row, "y": row.sum(dim=-1, keepdim=True)} for row in x]


def run_of(rule):
    """A client with mirrors for neighbours."""
    exp = pl.Experiment(
        pl.graphs.ring(3), pl.problems.Loop(), rule, pl.schedules.Bernoulli(nodes=0.7, links=0.7),
        rounds=ROUNDS,
    )  # fmt: skip
    return Alone(exp, client=0, rounds=ROUNDS)


def by_hand(rule):
    """The same in a plain loop: all samples in every batch."""
    model, run = Net(), run_of(rule)
    opt = pl.live.optimizer(model, run)
    (batch,) = DataLoader(samples(), batch_size=16)

    def closure():
        opt.zero_grad()
        loss = model(**batch)["loss"]
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    while not opt.finished:
        opt.step(closure)
    return model, len(run.told)


def check(model, expected):
    for found, wanted in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_hugging_faces_trainer_trains_under_a_rule(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    # The folder of that name beside this one would be taken for the package.
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    rule = pl.rules.SpodGT(lr=0.1)
    expected, answers = by_hand(rule)
    model, run = Net(), run_of(rule)
    opt = pl.live.optimizer(model, run)

    class Stop(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            control.should_training_stop = opt.finished

    args = transformers.TrainingArguments(
        str(tmp_path), max_steps=1000, per_device_train_batch_size=16, save_strategy="no",
        report_to="none", max_grad_norm=1.0, use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    transformers.Trainer(
        model,
        args,
        train_dataset=samples(),
        optimizers=(opt, transformers.get_constant_schedule(opt)),
        callbacks=[Stop()],
    ).train()
    assert opt.finished
    assert len(run.told) == answers
    check(model, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["SpodGT", "DFedSAM"])
def test_lightning_trains_under_a_rule(name, tmp_path):
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    rule = getattr(pl.rules, name)(lr=0.1)
    expected, answers = by_hand(rule)
    run, held = run_of(rule), []

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, number):
            return self.net(**batch)["loss"]

        def configure_optimizers(self):
            held.append(pl.live.optimizer(self, run))
            return held[0]

    class Stop(lightning.Callback):
        def on_train_batch_end(self, trainer, *more):
            trainer.should_stop = held[0].finished

    module = Module()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=-1, gradient_clip_val=1.0, callbacks=[Stop()],
        enable_checkpointing=False, logger=False, enable_progress_bar=False,
        default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, DataLoader(samples(), batch_size=16))
    assert held[0].finished
    assert len(run.told) == answers
    check(module.net, expected)
