"""Mend a peer's folder: only what cannot lie, said before it is done and noted in its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..errors import PeerError
from ..transport import Home
from ..transport.files import append_lines, is_locked
from .doctor import checkpoint_paths, checkpoint_round, half_written, leftovers

__all__ = ["Step", "repair"]


class Step(NamedTuple):
    """One thing to mend."""

    text: str
    do: Callable[[], object]


def repair(folder: Path, say: Callable[[str], None]) -> int:
    """Mend what can be mended; how many things that were. Refuses while the peer runs."""
    if any(is_locked(run) for run in folder.glob("state/*")):
        raise PeerError(f"The peer of {folder} runs. Stop it first: peerloom peer stop")
    done = list[str]()
    for step in _modes(folder):
        say(step.text)
        step.do()
        done.append(step.text)
    home = Home.open(folder)  # refuses what cannot be mended, such as a spoilt key
    for step in _steps(home):
        say(step.text)
        step.do()
        done.append(step.text)
    for text in done:
        home.audit.note("repair", text=text)
    return len(done)


def _modes(folder: Path) -> Iterator[Step]:
    for path, mode in (
        (folder, 0o700), (folder / "identity.key", 0o600), (folder / "invitations.json", 0o600),
        (folder / "next" / "identity.key", 0o600),
    ):  # fmt: skip
        if path.exists() and path.stat().st_mode & 0o077 and not path.is_symlink():
            text = f"Setting the mode of {path} to {mode:04o}"
            text += "; if somebody may have copied it, make a new identity." if path.suffix else "."
            yield Step(text, partial(path.chmod, mode))


def _steps(home: Home) -> Iterator[Step]:
    if home.audit.cut_short():
        yield Step("Taking away the last line of audit.jsonl, which a kill cut.", home.audit.mend)
    for run in sorted(home.state.glob("*")):
        for path in half_written(run):
            text = f"Taking away the last line of {path}, which a kill cut short."
            yield Step(text, partial(append_lines, path, []))
        rounds = {path: checkpoint_round(path) for path in checkpoint_paths(run)}
        whole = any(t is not None and t >= 0 for t in rounds.values())
        for path in (path for path, t in rounds.items() if t is None and whole):
            text = f"Removing {path}, which is spoilt; the other checkpoint is whole."
            yield Step(text, path.unlink)
    for path in leftovers(home.folder):
        yield Step(f"Removing {path}, which a kill left unfinished.", path.unlink)
