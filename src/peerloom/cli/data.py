"""`peerloom data`: what is on this machine, and fetching the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Column, Table

from ..core import ConfigError, DataError, nearest
from ..datasets import CATALOGUE, Source, cache, fetch, locate, locations, read
from .console import err, show

__all__ = ["get_command", "list_command"]


def list_command(check: bool, as_json: bool) -> None:
    """All known data sets with the place each was found in."""
    entries = [_entry(source, check) for source in CATALOGUE.values()]
    table = Table("data", "found", Column("where", overflow="fold"), "to fetch")
    for entry in entries:
        state = {
            "found": "[green]yes[/]",
            "right": "[green]yes, checked[/]",
            "wrong": "[red]damaged[/]",
            "missing": "no",
        }
        cost = "" if entry["found"] else f"{entry['megabytes']:g} MB"
        table.add_row(entry["name"], state[entry["state"]], entry["folder"] or "", cost)
    looked = ", ".join(f"{base} ({name})" for name, base in locations())
    table.caption = (
        f"Looked in {looked}. Fetch by: peerloom data get NAME. What they are: peerloom list data"
    )
    where = [{"place": name, "folder": str(base)} for name, base in locations()]
    show({"places": where, "data": entries}, table, as_json)
    if wrong := [entry for entry in entries if entry["state"] == "wrong"]:
        raise DataError(" ".join(str(entry["problem"]) for entry in wrong))


def get_command(names: list[str], to: Path | None, address: str | None, as_json: bool) -> None:
    """Fetch data sets and what they need; what is here already, and right, is left alone."""
    for name in names:
        if name not in CATALOGUE:
            raise ConfigError(f"There is no data set '{name}' to fetch. {nearest(name, CATALOGUE)}")
    wanted = dict.fromkeys(part for name in names for part in (*CATALOGUE[name].needs, name))
    base, got, lines = to or cache(), dict[str, list[str]](), list[str]()
    with _bar() as advance:
        for name in wanted:
            there = locate(CATALOGUE[name]) if to is None and address is None else None
            if there is not None and there.folder != base / name and _is_right(name):
                got[name] = []
                lines.append(f"{name}: is here already, in {there.folder}, checked")
                continue
            got[name] = [
                str(path) for path in fetch(CATALOGUE[name], base / name, address, advance)
            ]
            lines.append(f"{name}: {len(got[name])} files in {base / name}, checked")
    if to is not None:
        lines.append(f"Found by experiments where PEERLOOM_DATA is {to}.")
    show({"folder": str(base), "files": got}, "\n".join(lines), as_json)


def _is_right(name: str) -> bool:
    try:
        read(name)
    except DataError:
        return False
    return True


def _entry(source: Source, check: bool) -> dict[str, Any]:
    found = locate(source)
    lacks = [CATALOGUE[name] for name in source.needs if locate(CATALOGUE[name]) is None]
    complete = found is not None and not lacks
    megabytes = (0.0 if found is not None else source.megabytes) + sum(
        other.megabytes for other in lacks
    )
    entry: dict[str, Any] = {"name": source.name, "about": source.about, "licence": source.licence}
    entry |= {
        "megabytes": source.megabytes if complete else megabytes,
        "needs": list(source.needs),
        "found": complete,
        "problem": None,
    }
    entry |= (
        {"place": found.location, "folder": str(found.folder)}
        if found and complete
        else {"place": None, "folder": None}
    )
    entry["state"] = "found" if complete else "missing"
    if check and complete:
        try:
            read(source.name)
            entry["state"] = "right"
        except DataError as error:
            entry |= {"state": "wrong", "problem": str(error)}
    return entry


@contextmanager
def _bar() -> Iterator[Any]:
    """A bar per file; nothing at all where nobody watches."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(
        *columns, TimeRemainingColumn(), console=err, disable=not err.is_terminal
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name)
            bars.update(tasks[name], completed=done, total=total)

        yield advance
