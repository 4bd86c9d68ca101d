"""Weights that many processes share: written to a file once, mapped from it by each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from ..core import ConfigError, DataError

__all__ = ["mapped", "write_weights"]


def write_weights(module: nn.Module, file: Path) -> None:
    """Write all that a module holds to a safetensors file, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.new")
    state = {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
    save_file(state, new, metadata={"format": "pt"})
    new.replace(file)


def mapped(make: Callable[[], nn.Module], file: Path, remedy: str) -> nn.Module:
    """The module that `make` makes, with the frozen weights of a file, which stay in the file.

    The system holds one copy for all processes that map it. Weights take no memory before, either.
    `remedy` is what to do where the file is missing or another module's.
    """
    if not file.is_file():
        raise DataError(f"There are no weights in {file}. {remedy}")
    with torch.device("meta"):
        module = make()
    try:
        module.load_state_dict(load_file(file), assign=True)
    except (OSError, SafetensorError, RuntimeError) as error:
        # Of all names and shapes that do not fit, the first tells enough.
        what = " ".join(str(error).split())[:200]
        raise DataError(
            f"{file} does not hold the weights of {type(module).__name__}: {what}. {remedy}"
        ) from error
    if lost := [name for name, buffer in module.named_buffers() if buffer.is_meta]:
        raise ConfigError(
            f"{type(module).__name__} has a buffer '{lost[0]}' that it does not save, so no file "
            "can give it. Register it with persistent=True, or compute it where it is used."
        )
    return module.requires_grad_(False)
