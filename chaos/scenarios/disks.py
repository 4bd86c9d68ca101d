"""Disks: one that is full when a checkpoint is due, and a newest checkpoint that cannot be read."""

from __future__ import annotations

import time

from peerloom.transport.files import read_lines

from ..disk import fill, small_disk
from ..figures import Figure, Stage, exactly, told
from ..peers import Peers, experiment

__all__ = ["full_and_spoilt"]


def full_and_spoilt(stage: Stage) -> list[Figure]:
    """Fill a peer's disk; once it stops make room, damage its newest checkpoint, restart it."""
    with (
        Peers(experiment(rounds=1500), stage.folder, history=False) as peers,
        small_disk(peers.homes[1].state) as disk,
    ):
        stage.say("starting four peers")
        peers.start_all()
        peers.reach(150)  # three checkpoints have been written
        stage.say("filling its disk")
        filler = fill(disk)
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
