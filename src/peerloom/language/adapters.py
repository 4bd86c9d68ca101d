"""Fine-tuning by LoRA: adapters of PEFT in a module whose own weights stay as they are."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from ..core import ConfigError, nearest
from ..errors import require
from ..problems import Task
from ..problems.layout import RowLayout

__all__ = ["cross_term", "with_adapters", "write_adapter"]


def with_adapters(
    base: nn.Module,
    targets: tuple[str, ...],
    rank: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
) -> nn.Module:
    """A module with LoRA adapters at its linear maps of these names; only they are trained.

    Every W becomes W + (alpha / rank) B A, with A drawn by torch's generator and B = 0. What comes
    back is PEFT's `PeftModel`. Settings that this does not have are in PEFT's own `get_peft_model`,
    whose modules a `Task` trains as well.
    """
    require("LoRA", "peft", "peft")
    from peft import LoraConfig, get_peft_model

    known = {
        name.rpartition(".")[2]
        for name, module in base.named_modules()
        if isinstance(module, nn.Linear)
    }
    if not targets:
        raise ConfigError(f"LoRA needs target modules. {nearest('', known)}")
    for name in targets:
        if name not in known:
            raise ConfigError(
                f"{type(base).__name__} has no linear map '{name}' for an adapter. "
                f"{nearest(name, known)}"
            )
    if rank < 1 or not 0 <= dropout < 1:
        raise ConfigError(
            f"An adapter has a rank of at least 1 and a dropout below 1; found {rank=}, {dropout=}."
        )
    config = LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=list(targets)
    )
    adapted: nn.Module = get_peft_model(base, config)
    return adapted


def write_adapter(module: nn.Module | None, folder: Path) -> None:
    """Write the adapters of a module as PEFT does, for `PeftModel.from_pretrained(base, folder)`.

    Refuses a module that is not PEFT's, and asks no hub about the base.
    """
    require("An export for PEFT", "peft", "peft")
    from peft import PeftModel

    if not isinstance(module, PeftModel):
        found = "no module" if module is None else type(module).__name__
        raise ConfigError(
            f"The run's model is {found}, and has no adapters that PEFT knows. Export it without "
            "--peft, or train one that peft.get_peft_model made."
        )
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file, but adapters take a folder. Name another.")
    module.save_pretrained(str(folder), save_embedding_layers=False)


def cross_term(task: Task, models: Tensor, seed: int = 0) -> float:
    """How far the mean of adapters is from the adapter of the means, as a share of the former.

    |mean(B_i A_i) - mean(B) mean(A)| / |mean(B_i A_i)| over all adapted maps, of the models
    [clients, n]. Models are averaged by their parameters, A and B apart; the map that they stand
    for is the product. Zero where all models are one.
    """
    views = RowLayout(task.module(seed)).views(models)
    pairs = [
        (views[name], views[name.replace("lora_B", "lora_A")]) for name in views if "lora_B" in name
    ]
    if not pairs:
        raise ConfigError("The task trains no adapters, so there are no A and B to be averaged.")
    apart = together = 0.0
    for b, a in pairs:
        products = (b @ a).mean(dim=0)
        apart += (products - b.mean(dim=0) @ a.mean(dim=0)).square().sum().item()
        together += products.square().sum().item()
    return (apart / together) ** 0.5 if together else 0.0
