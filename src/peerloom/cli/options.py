"""Options and arguments that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Deadline",
    "Device",
    "Enough",
    "Export",
    "File",
    "Format",
    "Free",
    "Jobs",
    "Json",
    "Kind",
    "Out",
    "Peft",
    "Seed",
    "Set",
]

Jobs = Annotated[
    int,
    typer.Option(
        min=1, help="Runs at a time, each in a process with one thread; they share their data."
    ),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, or cuda where there is a GPU.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
File = Annotated[
    Path | None,
    typer.Argument(help="An experiment file (TOML). Without one, the built-in example."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=VALUE", help="Change a value of the file; may be repeated."),
]
Seed = Annotated[int | None, typer.Option(help="With this seed only, in place of the file's.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Where to keep the runs. By default a new folder below runs/."
    ),
]
Peft = Annotated[
    bool,
    typer.Option(
        "--peft", help="Write the model's adapters as PEFT does, for PeftModel.from_pretrained."
    ),
]


Deadline = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        help="Seconds to wait for a neighbour in a round; then the round goes on without it.",
    ),
]
Enough = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="With --deadline: go on as soon as this share of a round's neighbours, rounded up, "
        "has come, such as 0.5.",
    ),
]
Free = Annotated[
    bool,
    typer.Option(
        "--free",
        "--async",
        help="Wait for nobody: use the newest of every neighbour. All sites must agree on it.",
    ),
]


class Format(StrEnum):
    """What pictures are written as."""

    svg = "svg"
    png = "png"
    csv = "csv"
    parquet = "parquet"


Export = Annotated[
    list[Format] | None,
    typer.Option(
        "--export",
        help="Also write the pictures, or the numbers in them, into pictures/; may be repeated.",
    ),
]


class Kind(StrEnum):
    """What can be listed."""

    algorithms = "algorithms"
    graphs = "graphs"
    schedules = "schedules"
    laws = "laws"
    messages = "messages"
    problems = "problems"
    models = "models"
    data = "data"
    partitions = "partitions"
    regularisers = "regularisers"
    rates = "rates"
