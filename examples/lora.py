"""Fine-tuning by LoRA: eight peers teach a small model of letters another way of writing.

python examples/lora.py pretrain     train the base on Shakespeare's plays, once
peerloom --path examples run examples/lora.toml
python examples/lora.py compare      the same beside all data in one place
"""

import argparse
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

import peerloom as pl
from peerloom import datasets
from peerloom.config import comparison_from, read_file
from peerloom.language import (
    Perplexity,
    Transformer,
    Windows,
    cross_term,
    encoded,
    mapped,
    next_token,
    pieces,
    tinyshakespeare,
    with_adapters,
    write_weights,
)
from peerloom.problems import Task

LENGTH = 32
BASE = datasets.cache().parent / "models" / "letters.safetensors"


def network() -> nn.Module:
    """The base: a transformer of 65 letters."""
    return Transformer(tokens=65, width=64, layers=2, heads=4, length=LENGTH)


@cache
def texts() -> tuple[Tensor, Tensor, Tensor]:
    """The plays that the base learns; the same with cases sWAPPED, and what is held out of it."""
    text = tinyshakespeare()
    alphabet, end = sorted(set(text)), len(text) * 9 // 10
    parts = text[:end], text[:end].swapcase(), text[end:].swapcase()
    return tuple(encoded(part, alphabet) for part in parts)


def held_out() -> Windows:
    """What models are judged on."""
    return Windows(texts()[2], LENGTH, count=128)


def adapted(base: str, rank: int) -> nn.Module:
    """The base, mapped from its file and frozen, with adapters in every block."""
    make_it = "Train the base: python examples/lora.py pretrain"
    module = mapped(network, Path(base or BASE), make_it)
    return with_adapters(module, ("q", "v", "up", "down"), rank, alpha=2 * rank)


def task(clients: int, base: str = "", rank: int = 4, batch: int = 8) -> Task:
    """Every client has a part of the plays, with cases swapped; rows are adapters."""
    return Task(
        lambda: adapted(base, rank),
        next_token,
        tuple(Windows(piece, LENGTH) for piece in pieces(texts()[1], clients)),
        batch=batch,
        metrics=Perplexity(held_out),
    )


def left() -> tuple[tuple[int, int], ...]:
    """Where every A lies in a row, for the rule Alternating."""
    return task(clients=8).spans("lora_A")


def pretrain(steps: int, file: Path) -> float:
    """Train the base from nothing and write its weights; its loss at the end."""
    torch.manual_seed(0)
    module, windows = network(), Windows(texts()[0], LENGTH)
    optimizer = torch.optim.AdamW(module.parameters(), lr=4e-3)
    cooling = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps)
    for _ in range(steps):
        chosen = torch.randint(len(windows), (32,)).tolist()
        loss = next_token(module, torch.stack([windows[k] for k in chosen]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cooling.step()
    write_weights(module, file)
    return loss.item()


def compare(base: str) -> None:
    """Fine-tune as lora.toml says, and with all data in one place: as many steps and samples."""
    (exp,) = comparison_from(read_file(Path(__file__).with_name("lora.toml"))).experiments
    clients = exp.graph.clients
    apart = replace(exp, problem=task(clients, base))
    pooled = replace(
        exp, graph=pl.graphs.from_edges(1, []), problem=task(1, base, batch=8 * clients)
    )
    for name, each in (("apart", apart), ("pooled", pooled)):
        result = pl.simulate(each)
        first, last = result.metrics.row(0), result.metrics.row(-1)
        print(
            f"{name}: held-out loss {first['average_loss']:.4f} -> {last['average_loss']:.4f}, "
            f"perplexity {last['average_perplexity']:.3f}, "
            f"{each.problem.n} numbers a row, {last['bytes'] / 1e6:.1f} MB sent"
        )
        if name == "apart":
            share = cross_term(each.problem, result.x[:clients])
            print(f"averaging A and B apart misses {share:.2e} of the mean adapter")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("pretrain", "compare"))
    parser.add_argument("--base", default="", help=f"the file of the base, by default {BASE}")
    parser.add_argument("--steps", type=int, default=1000, help="of pre-training")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "pretrain":
        reached = pretrain(given.steps, Path(given.base or BASE))
        print(f"the base is in {given.base or BASE}, and has a loss of {reached:.2f}")
    else:
        compare(given.base)
