"""A member is removed while the disk is full: it is never let in again, whatever fails."""

import errno
import itertools
import os
import shutil
import subprocess
from contextlib import ExitStack

import pytest

from peerloom.errors import PeerError
from peerloom.peers.floats import float_channel
from peerloom.peers.watch import RosterWatch
from peerloom.peers.wire_plan import WirePlan
from peerloom.transport import Endpoint, Home, Link, Member, RunIdentity, files
from peerloom.transport.reserve import RESERVE, Reserve
from tests.federation import QUICK, identity, until
from tests.memory_runs import experiment

RUN = RunIdentity("run", "spec", {0: float_channel("float64", [1])})


def founded(folder):
    """A founder with two members, linked with both."""
    home = Home.create(folder, "founder", ("127.0.0.1:1",), found=True)
    roster = home.roster
    for number in (1, 2):
        certificate = identity(number).certificate.decode()
        roster = roster.with_member(home.identity, Member(f"peer-{number}", certificate))
    me, one, two = (member.id for member in roster.members)
    links = [Link(*pair) for other in (one, two) for pair in ((me, other), (other, me))]
    return home.trust(roster.with_links(home.identity, links)), two


def open_links(home, events=None):
    heard = (events if events is not None else []).append
    return Endpoint(
        home.identity, home.roster, RUN, home.state / "run", ("127.0.0.1", 0), QUICK, heard,
        keep=home.keep,
    )  # fmt: skip


def let_in(folder, gone):
    """Whether a process that starts on this folder would talk with `gone`; what it says if not."""
    home = Home.open(folder)
    try:
        home.check_current()
        post = open_links(home)
    except (PeerError, OSError) as error:
        return str(error)
    try:
        return not (post.closed("in", gone) and post.closed("out", gone))
    finally:
        post.close()


@pytest.mark.parametrize("next_epoch", [False, True])
@pytest.mark.parametrize("failing", list(itertools.product([False, True], repeat=4)))
def test_a_removed_member_stays_out_whichever_writes_fail(
    tmp_path, monkeypatch, failing, next_epoch
):
    """Writes of a roster: plain, into the reserve, after freeing it, and in the run's folder."""
    home, gone = founded(tmp_path / "peer")
    removed = home.roster.without_member(home.identity, gone)
    if next_epoch:
        removed = removed.with_links(home.identity, removed.links)
    events, plan = [], iter(failing)
    with home.reserve, open_links(home, events) as post:
        rename = files.rename

        def renaming(draft, path):
            if path.name == "roster.json" and next(plan, False):
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            rename(draft, path)

        monkeypatch.setattr(files, "rename", renaming)
        post.consider(removed)
        assert post.closed("in", gone), "used in memory before anything else"
        assert post.closed("out", gone)
        shutil.copytree(tmp_path / "peer", tmp_path / "killed")
        assert let_in(tmp_path / "killed", gone) is not True
        unsaved = post.roster_unsaved
        home_failed = all(failing[:3])
        assert unsaved or not home_failed
        assert unsaved == any(event.kind == "alarm" for event in events)
        if home_failed:
            assert "could not be written" in let_in(tmp_path / "killed", gone)
        monkeypatch.setattr(files, "rename", rename)
        post.save_roster()
        assert not post.roster_unsaved
        assert Home.open(tmp_path / "peer").roster == removed
    assert let_in(tmp_path / "peer", gone) is False, "the mark went with what it stood for"


def test_the_watch_tries_again_until_the_roster_is_on_disk(tmp_path, monkeypatch):
    home, gone = founded(tmp_path / "peer")
    removed, rename = home.roster.without_member(home.identity, gone), files.rename

    def full(draft, path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with (
        open_links(home) as post,
        RosterWatch(home, post, WirePlan.of(experiment("DSpodFL")), home.roster),
    ):
        monkeypatch.setattr(files, "rename", full)
        post.consider(removed)
        assert post.roster_unsaved
        with pytest.raises(OSError, match="No space left"):
            post.save_roster()  # as before every checkpoint
        monkeypatch.setattr(files, "rename", rename)
        assert until(lambda: not post.roster_unsaved)
        assert Home.open(home.folder).roster == removed


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MB; only the superuser can make one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("a file system can be mounted by the superuser only")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(place):
    """Write until there is not one byte left."""
    with (place / "other").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017


def test_two_removals_outlast_a_disk_that_is_really_full(small_disk, tmp_path):
    home, gone = founded(small_disk / "peer")
    first = home.roster.without_member(home.identity, gone)
    second = first.without_member(home.identity, "peer-1")
    with ExitStack() as stack:
        stack.enter_context(home.reserve)
        post = stack.enter_context(open_links(home))
        for removed in (first, second):
            fill(small_disk)
            with pytest.raises(OSError, match="No space left"):
                files.write_whole(small_disk / "any", bytes(4096))
            post.consider(removed)
            assert Home.open(home.folder).roster == removed
            shutil.copytree(home.folder, tmp_path / f"killed-{removed.version}")
            assert let_in(tmp_path / f"killed-{removed.version}", gone) is False


def test_a_reserve_takes_what_room_there_is(small_disk):
    reserve = Reserve(small_disk / "reserve.bin")
    with reserve:
        assert reserve.path.stat().st_blocks * 512 >= RESERVE
    assert not reserve.path.exists()
    with (small_disk / "other").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 21 << 20)
    reserve.fill()
    assert 1 << 20 <= reserve.path.stat().st_size < RESERVE
    fill(small_disk)
    reserve.write_whole(small_disk / "roster.json", b"kept")
    assert (small_disk / "roster.json").read_bytes() == b"kept"
