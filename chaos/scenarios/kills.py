"""Processes that die or freeze: kill -9 within a round or at random, and SIGSTOP."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import replace

from ..ends import until
from ..figures import Figure, Stage, at_least, at_most, exactly, told
from ..peers import Peers, experiment, gradient_left

__all__ = ["asleep", "down_under_a_deadline", "killed", "killed_at_random"]

_CLOSE = 1e-3
DEAD = 3.0  # seconds of silence after which a link is given up here


def killed(stage: Stage) -> list[Figure]:
    """Kill a peer of a synchronous run and start it again at once."""
    exp = experiment(rounds=300 if stage.quick else 1500)
    with Peers(exp, stage.folder, "--dead", str(DEAD)) as peers:
        stage.say("starting four peers")
        peers.start_all()
        peers.reach(20)
        stage.say("kill -9")
        dead = peers.kill(1)
        knew = [peers.heard(row, "down", about=1, since=dead) - dead for row in (0, 2)]
        began = peers.start(1)
        lines = len(peers.history(1))
        until(lambda: any(line["what"] == "apply" for line in peers.history(1)[lines:]), 60.0)
        life = peers.history(1)[lines:]
        opened = next(line["at"] for line in life if line["what"] == "start")
        exchanging = next((line["at"] for line in life if line["what"] == "apply"), float("inf"))
        stage.say("waiting for the end")
        peers.finish(240)
        return [
            at_most("neighbours know of the kill after", max(knew), 0.1, "s"),
            at_most("exchanging again, after its links were opened", exchanging - opened, 3.0, "s"),
            told("and after its process was started (loading PyTorch)", exchanging - began, "s"),
            exactly("lost, doubled or reordered, by the histories", len(peers.complaints()), 0),
            exactly("numbers that differ from an undisturbed run", peers.different_numbers(), 0),
        ]


POINTS = (
    "mid_body=kill@{}",
    "before_rename=kill@{}",
    "after_rename=kill@{}",
    "after_send_before_ack=kill@{}",
    "after_apply_before_ack=kill@{}",
    "before_send=kill@{}",
    "before_apply=kill@{}",
)


def killed_at_random(stage: Stage) -> list[Figure]:
    """Peers that wait for nobody, killed many times, also amid frames and checkpoints."""
    kills, draws = 6 if stage.quick else 20, random.Random(7)
    # 72 KB a parcel: more than one write, so that it can be cut in the middle.
    exp = experiment(rounds=10**6, features=4500)
    done = unreadable = 0
    with Peers(exp, stage.folder, "--free", "--dead", str(DEAD)) as peers:
        stage.say("starting four peers")
        peers.start_all()
        peers.reach(60)
        while done < kills:
            who, point = draws.randrange(4), draws.choice(POINTS).format(draws.randrange(2, 8))
            stage.say(f"{done} of {kills} kills; next row {who}, {point}")
            time.sleep(draws.uniform(0.0, 0.5))
            peers.kill(who)
            unreadable += peers.checkpoint(who) is None
            peers.start(who, failpoints=point)
            if not peers.died(who, 90):
                raise RuntimeError(f"row {who} did not come to its failpoint {point}")
            unreadable += peers.checkpoint(who) is None
            done += 2
            peers.start(who)
            before = peers.round(who)
            if not until(lambda who=who, before=before: peers.round(who) > before, 90):  # type: ignore[misc]
                raise RuntimeError(f"row {who} did not go on after round {before}")
        stage.say("letting the peers agree, then stopping all")
        calm = time.monotonic()
        until(lambda: _left(peers) < _CLOSE, 120, every=1.0)
        calm = time.monotonic() - calm
        for row in range(4):
            peers.signal(row, signal.SIGTERM)
        peers.finish(60)
        points = peers.checkpoints()
        return [
            told("kill -9, half of them at named points", done),
            exactly("times that no checkpoint could be read", unreadable, 0),
            at_most(
                "mass that is missing or too much, of the start's",
                peers.mass_defect(points),
                1e-12,
            ),
            at_most(
                f"gradient of the whole below {_CLOSE:g} of the start's, after the last kill",
                calm,
                60.0,
                "s",
            ),
            told(
                "rounds of the slowest and the fastest",
                f"{min(p.t for p in points)}, {max(p.t for p in points)}",
            ),
            exactly("lost, doubled or reordered, by the histories", len(peers.complaints()), 0),
        ]


def asleep(stage: Stage) -> list[Figure]:
    """SIGSTOP a peer for longer than `dead`.

    It must count as down, and nothing that it sends after waking may be stale.
    """
    seconds = 5.0 if stage.quick else 20.0
    exp = experiment(rounds=300 if stage.quick else 1500)
    with Peers(exp, stage.folder, "--dead", str(DEAD)) as peers:
        stage.say("starting four peers")
        peers.start_all()
        peers.reach(20)
        stage.say(f"asleep for {seconds:.0f} s")
        slept = peers.signal(1, signal.SIGSTOP)
        time.sleep(seconds)
        told_down = [peers.heard(row, "down", about=1, since=slept, seconds=1.0) for row in (0, 2)]
        woke = peers.signal(1, signal.SIGCONT)
        back = max(peers.heard(row, "up", about=1, since=woke) for row in (0, 2)) - woke
        peers.finish(240)
        return [
            at_most("neighbours know after", max(told_down) - slept, DEAD + 0.5, "s"),
            at_most("links are up again, after waking", back, 3.0, "s"),
            exactly("stale, lost or doubled, by the histories", len(peers.complaints()), 0),
            exactly("numbers that differ from an undisturbed run", peers.different_numbers(), 0),
        ]


def down_under_a_deadline(stage: Stage) -> list[Figure]:
    """Kill one of five peers that wait for each other up to a deadline, and start it again.

    Under a rule that mixes models alone, and under one that moves mass, which must not be lost.
    """
    return [
        figure
        for rule in ("DSpodFL", "SpodGT")
        for figure in _down(replace(stage, folder=stage.folder / rule), rule)
    ]


def _down(stage: Stage, rule: str) -> list[Figure]:
    seconds = 3.0 if stage.quick else 8.0
    exp = experiment(rounds=10**6, rule=rule, clients=5)
    stage.folder.mkdir()
    with Peers(exp, stage.folder, "--deadline", "2", history=False) as peers:

        def rate() -> float:
            before = peers.round(0)
            time.sleep(seconds)
            return (peers.round(0) - before) / seconds

        stage.say(f"{rule}: starting five peers")
        peers.start_all()
        peers.reach(50, 180.0)
        calm = rate()
        stage.say(f"{rule}: kill -9")
        peers.kill(1)
        time.sleep(4.0)  # the deadline that it missed, and its status file
        alone = rate()
        behind = peers.round(0) - peers.round(1)
        began = peers.start(1)
        back = peers.heard(0, "up", about=1, since=began, seconds=180.0)
        reached = until(lambda: peers.round(0) - peers.round(1) < 20, 120)
        caught_up = time.time() - back if reached else float("inf")
        return [
            told(f"{rule}: rounds/s of all five", calm),
            at_least("of these, with one down", alone / calm, 0.5),
            told("rounds that it was behind when it was started", behind),
            told("its links are up after (loading PyTorch)", back - began, "s"),
            at_most("and it has caught up after that", caught_up, 60.0, "s"),
        ]


def _left(peers: Peers) -> float:
    """What is left of the gradient at the start, by the newest checkpoints."""
    return gradient_left(peers.exp, peers.models())
