"""The log of a peer: one form of lines, progress now and then, files that are rotated."""

import json
import logging
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from peerloom.core.events import Evaluated, LinksOpened, LinkUp, RoundDone, Started
from peerloom.errors import DataError
from peerloom.peers.log import EventLog, LogFile
from tests.federation import federation

STAMP = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def log_of(lines, **how):
    log, roster = EventLog(lines.append, **how), federation(2, [(0, 1)])
    log.introduce("peer-0", roster)
    return log, roster.members[1].id


def test_every_line_says_when_who_and_what():
    lines = []
    log, other = log_of(lines)
    log.observe(LinkUp(other, "sending to peer-1", "direct"))
    log.write("error", "one\ntwo")
    with log.warnings():
        logging.getLogger("peerloom.peers").warning("the disk is slow")
    logging.getLogger("peerloom.peers").warning("said by nobody")
    assert re.fullmatch(f"{STAMP} peer-0 up peer-1: sending to peer-1", lines[0])
    assert re.fullmatch(f"{STAMP} peer-0 error: one two", lines[1])
    assert re.fullmatch(f"{STAMP} peer-0 warning: the disk is slow", lines[2])
    assert len(lines) == 3


def test_lines_for_machines_name_run_round_and_way():
    lines = []
    log, other = log_of(lines, as_json=True)
    log.observe(LinksOpened("run-7", 3, 100))
    log.observe(Started(40))
    log.observe(RoundDone(41, 0.1))
    log.observe(LinkUp(other, "sending to peer-1", "relay:a"))
    told = json.loads(lines[0])
    assert re.fullmatch(STAMP, told.pop("at"))
    about = {"peer": "peer-0", "kind": "up", "about": "peer-1", "text": "sending to peer-1"}
    assert told == about | {"round": 41, "run": "run-7", "incarnation": 3, "way": "relay:a"}


def test_progress_is_told_now_and_then_and_not_of_every_round():
    lines, now = [], [0.0]
    log, _ = log_of(lines, clock=lambda: now[0])
    log.observe(LinksOpened("run-7", 1, 1000))
    log.observe(Started(0))
    for t in range(1, 1001):
        now[0] += 1 / 32 if t <= 480 else 1.0
        log.observe(RoundDone(t, 0.0))
        if t == 100:
            log.observe(Evaluated(t, {"loss": 0.25}))
    told = [line.split("progress: ")[1] for line in lines]
    assert told[0] == "round 160 of 1000, 32.0 rounds/s, loss 0.25, 26 s left"
    assert told[2].startswith("round 480 of 1000, 32.0 rounds/s")
    assert told[3] == "round 510 of 1000, 1.0 rounds/s, loss 0.25, 8 min left", "30 s, not 5 %"
    assert len(told) == 3 + 17, "every 30 s; the last round is told as the end"


def test_a_log_file_is_rotated_by_size_and_keeps_some(tmp_path):
    said, path = [], tmp_path / "peer.log"
    path.write_text("before\n")
    log = LogFile(path, 100, 2, said.append)
    for number in range(30):
        log.write(f"line {number:04d} of a log")
    log.close()
    files = [path, tmp_path / "peer.log.1", tmp_path / "peer.log.2"]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    lines = [line for file in reversed(files) for line in file.read_text().splitlines()]
    assert lines == [f"line {number:04d} of a log" for number in range(30 - len(lines), 30)]
    assert all(file.stat().st_size <= 100 for file in files)
    assert not said


def test_a_log_file_that_cannot_be_written_does_not_stop_the_peer(tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        LogFile(tmp_path / "nowhere" / "peer.log", 100, 2, print)
    said = []
    log = LogFile(tmp_path / "full.log", 1 << 20, 2, said.append)
    os.dup2(os.open("/dev/full", os.O_WRONLY), log._file.fileno())
    log.write("one")
    log.write("two")
    log.close()
    (trouble,) = said
    assert "full.log: cannot be written (No space left on device)" in trouble


def test_a_log_file_whose_folder_goes_does_not_stop_the_peer_and_comes_back(tmp_path):
    """Somebody clears the folder of logs, or takes away the right to write there."""
    said, folder = [], tmp_path / "logs"
    folder.mkdir()
    log = LogFile(folder / "peer.log", 20, 2, said.append)
    log.write("the first line")
    shutil.rmtree(folder)
    for number in range(3):
        log.write(f"line {number} of many")
    (trouble,) = said
    assert "peer.log: cannot be written (No such file or directory)" in trouble
    folder.mkdir()
    log.write("back again")
    log.close()
    assert (folder / "peer.log").read_text() == "back again\n"


def test_many_threads_write_to_a_log_file_while_it_is_rotated(tmp_path):
    """Links tell what happens in threads of their own."""
    said, lines = [], [f"line {number:05d}" for number in range(4000)]
    log = LogFile(tmp_path / "peer.log", 500, 200, said.append)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(log.write, lines))
    log.close()
    files = sorted(tmp_path.iterdir())
    assert sorted(line for file in files for line in file.read_text().splitlines()) == lines
    assert not said
