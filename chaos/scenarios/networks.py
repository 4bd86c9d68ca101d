"""Bad networks between two namespaces: partitions, loss with delay, a slow line."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from peerloom.peers.floats import float_channel
from peerloom.transport import Endpoint, RunIdentity, Settings

from ..ends import FLOATS, RUN, endpoint, federation, holds, incoming, outgoing, parcel, until
from ..figures import Figure, Stage, at_least, at_most, exactly, told
from ..switch import Line, Switch

__all__ = ["lossy", "partitioned", "thin"]

_PORT = 7400


class Traffic:
    """Send parcels at a steady pace, at most `most` in transit, and check each, until `stop`."""

    def __init__(self, a: Endpoint, b: Endpoint, pause: float, most: int) -> None:
        self._a, self._b, self._pause, self._most = a, b, pause, most
        self._over = threading.Event()
        self.sent = self.right = self.wrong = 0
        self.last = time.monotonic()
        self.longest = 0.0  # seconds between two arrivals
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._send, self._take)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> None:
        """Send no more; wait for what is under way."""
        self._over.set()
        self._threads[0].join()
        until(lambda: self.right + self.wrong >= self.sent, seconds)
        self._a.settle(None, seconds)

    def figures(self) -> list[Figure]:
        """The account of all of it."""
        tally = outgoing(self._a).tally
        applied = incoming(self._b).frames.get("applied", 0)
        return [
            exactly(
                "parcels sent, acknowledged, arrived once and whole",
                f"{tally.acked}, {self.right}",
                f"{self.sent}, {self.sent}",
            ),
            exactly("lost, doubled or changed", abs(applied - self.sent) + self.wrong, 0),
            exactly("the ledger balances", tally.balanced, True),
        ]

    def _send(self) -> None:
        while not self._over.wait(self._pause):
            if outgoing(self._a).tally.pending < self._most:
                self.sent += 1
                self._a.send(self._b.me, parcel(self.sent))

    def _take(self) -> None:
        while not (self._over.is_set() and self.right + self.wrong >= self.sent):
            wanted = self.right + self.wrong + 1
            got = self._b.take(self._a.me, wanted, 0, 600.0)
            now = time.monotonic()
            self.longest, self.last = max(self.longest, now - self.last), now
            if holds(got, wanted):
                self.right += 1
            else:
                self.wrong += 1


def partitioned(stage: Stage) -> list[Figure]:
    """Let nothing pass for a while: both ways, then forward only, then back only.

    Backward, only acknowledgements are lost.
    """
    seconds, settings = (6.0, Settings(dead=3.0)) if stage.quick else (30.0, Settings())
    settings = replace(settings, outbox=1000)
    with _two_sides(stage, settings) as (switch, a, b):
        traffic = Traffic(a, b, 0.1, most=900)
        knows, back = list[float](), list[float]()
        for name, lines in (
            ("both ways", list(switch.lines.values())),
            ("one way, there", [switch.lines[0, 1]]),
            ("one way, back", [switch.lines[1, 0]]),
        ):
            stage.say(f"{name}, {seconds:.0f} s")
            until(lambda: outgoing(a).up and outgoing(a).unacked_age < 0.5, 20.0)
            begin = _set(lines, down=True)
            until(lambda: not outgoing(a).up, seconds)
            knows.append(time.monotonic() - begin if not outgoing(a).up else math.inf)
            time.sleep(max(0.0, begin + seconds - time.monotonic()))
            arrived, healed = traffic.right, _set(lines, down=False)
            came = until(lambda arrived=arrived: traffic.right > arrived, 30.0)  # type: ignore[misc]
            back.append(traffic.last - healed if came else math.inf)
        traffic.stop(30.0)
        return [
            told("partitions: both ways, there only, back only; each", seconds, "s"),
            at_most("the sender knows after", max(knows), settings.dead + 0.5, "s"),
            at_most("first delivery after healing", max(back), settings.backoff[1] + 1, "s"),
            *traffic.figures(),
        ]


def lossy(stage: Stage) -> list[Figure]:
    """A fifth of all packets lost and 100 ms of delay, in each direction."""
    seconds = 20.0 if stage.quick else 120.0
    settings = Settings(outbox=1000)
    with _two_sides(stage, settings, loss=0.2, delay=0.1) as (_switch, a, b):
        if not until(lambda: outgoing(a).up, 60.0):
            raise RuntimeError("the link did not come up within a minute")
        drops, begin = sum(outgoing(a).reconnects.values()), time.monotonic()
        traffic = Traffic(a, b, 0.05, most=4)
        stage.say(f"{seconds:.0f} s of traffic")
        time.sleep(seconds)
        arrived, spent = traffic.right, time.monotonic() - begin
        lost = sum(outgoing(a).reconnects.values()) - drops
        congestion = outgoing(a).congestion
        traffic.stop(60.0)
        return [
            at_least(
                "rate at 40 KB", arrived * 4 * FLOATS / spent / 1000, 20.0, f"kB/s ({congestion})"
            ),
            at_most("false disconnects per minute", lost * 60 / spent, 1.0),
            *traffic.figures(),
            told("longest time between two arrivals", traffic.longest, "s"),
        ]


def thin(stage: Stage) -> list[Figure]:
    """Send a vector that a slow line needs long for: nobody may take that for silence."""
    floats = 2_500_000 if stage.quick else 12_500_000
    run = replace(RUN, channels={0: float_channel("float32", [floats])})
    settings = Settings(dead=3.0)
    with _two_sides(stage, settings, run, rate=1e6, delay=0.02) as (_switch, a, b):
        until(lambda: outgoing(a).up, 30.0)
        drops, begin = sum(outgoing(a).reconnects.values()), time.monotonic()
        a.send(b.me, parcel(1, floats))
        stage.say(f"{floats * 4 / 1e6:.0f} MB at 1 MB/s")
        got = b.take(a.me, 1, 0, 240.0)
        spent = time.monotonic() - begin
        a.settle(None, 10.0)
        return [
            exactly(f"{floats * 4 // 10**6} MB over 1 MB/s arrive whole", holds(got, 1), True),
            told("time", spent, "s"),
            at_least("use of the line", floats * 4 / 1e6 / spent * 100, 70.0, "%"),
            exactly(
                "false disconnects (silence borne for 3 s)",
                sum(outgoing(a).reconnects.values()) - drops,
                0,
            ),
        ]


@contextlib.contextmanager
def _two_sides(
    stage: Stage, settings: Settings, run: RunIdentity = RUN, **line: float
) -> Iterator[tuple[Switch, Endpoint, Endpoint]]:
    """peer-0 and peer-1, each in its namespace, with a link from the first to the second."""
    roster = federation(2, [(0, 1)], [f"{Switch.address(side)}:{_PORT}" for side in (0, 1)])
    with Switch(2) as switch, contextlib.ExitStack() as ends:
        _set(list(switch.lines.values()), **line)
        posts = []
        for side in (0, 1):
            with switch.inside(side):
                posts.append(
                    ends.enter_context(endpoint(side, roster, Path(stage.folder), run, settings))
                )
        yield switch, posts[0], posts[1]


def _set(lines: list[Line], **values: float) -> float:
    """Change lines; when that was."""
    for line in lines:
        for name, value in values.items():
            setattr(line, name, value)
    return time.monotonic()
