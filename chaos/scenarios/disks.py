"""Disks: one that is full when a checkpoint is due, and a newest checkpoint that cannot be read."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from peerloom.transport.files import read_lines

from ..figures import Figure, SkippedError, Stage, exactly, told
from ..peers import Peers, experiment

__all__ = ["full_and_spoilt"]

_SIZE = 16 << 20  # bytes: a few checkpoints, with what neighbours may need of them


def full_and_spoilt(stage: Stage) -> list[Figure]:
    """Fill a peer's disk; once it stops make room, damage its newest checkpoint, restart it."""
    with (
        Peers(experiment(rounds=1500), stage.folder, history=False) as peers,
        _small_disk(peers.homes[1].state) as disk,
    ):
        stage.say("starting four peers")
        peers.start_all()
        peers.reach(150)  # three checkpoints have been written
        stage.say("filling its disk")
        filler = _fill(disk)
        filled = time.time()
        code = peers.code(1, 120)
        said = [event["text"] for event in peers.log(1) if event["kind"] == "error"]
        stopped = time.time() - filled
        whole = peers.checkpoint(1)
        filler.unlink()
        paths = sorted(
            peers.folder(1).glob("checkpoint-*.safetensors"),
            key=lambda path: path.stat().st_mtime_ns,
        )
        spoilt = bytearray(paths[-1].read_bytes())
        spoilt[len(spoilt) // 2] ^= 1
        paths[-1].write_bytes(spoilt)
        older = peers.checkpoint(1)
        stage.say("starting it again from the older checkpoint")
        peers.start(1)
        peers.finish(240)
        return [
            exactly("the peer stops with exit code", code, 5),
            exactly(
                "it says why, and what to do",
                any("No space left" in text and "start" in text for text in said),
                True,
            ),
            told("time until it gave up", stopped, "s"),
            exactly("checkpoints that can be read then", whole is not None, True),
            exactly(
                "with the newest spoilt, an older one is used",
                bool(older and whole and older.t < whole.t),
                True,
            ),
            exactly(
                "links that counted as silent, after it came back",
                len(read_lines(peers.folder(1) / "decisions.jsonl")),
                0,
            ),
            exactly("numbers that differ from an undisturbed run", peers.different_numbers(), 0),
        ]


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, in memory, of a few megabytes."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        raise SkippedError("mounting a small file system needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        raise SkippedError(
            f"no file system can be mounted here ({mounted.stderr.decode().strip()})"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def _fill(disk: Path) -> Path:
    """Take every byte that is left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler
