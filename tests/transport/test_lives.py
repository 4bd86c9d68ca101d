"""A copy of a peer's folder never displaces the process that runs; an honest restart goes on."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.errors import ExcludedError, PeerError
from peerloom.transport.lives import MOST_PARENTS, KnownLife, Life, Lives
from tests.federation import endpoint, federation, free_ports, numbers, parcel, until

PAIR = [(0, 1), (1, 0)]


class Site:
    """Peer 0 and its neighbour, and folders of peer 0 that were copied at some time."""

    def __init__(self, folder):
        self.folder, self.ports = folder, free_ports(3)
        # The neighbour finds whoever listens at the original's address, a copy has to dial.
        self.roster = federation(2, PAIR, self.ports)
        self.events = []

    def neighbour(self):
        port = self.ports[1]
        return endpoint(1, self.roster, self.folder, port, on_event=self.events.append)

    def original(self):
        return endpoint(0, self.roster, self.folder, self.ports[0])

    def copy(self, name="copy"):
        """A copy of the folder as it is now; what `start` begins is a process on it."""
        shutil.copytree(self.folder / "state-0", self.folder / name / "state-0")
        (self.folder / name / "state-0" / "lock").unlink()
        return name

    def start(self, name):
        return endpoint(0, self.roster, self.folder / name, self.ports[2])

    @property
    def alarms(self):
        return [event.text for event in self.events if event.kind == "alarm"]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def exchange(a, b, round):
    """One round both ways."""
    a.send(b.me, parcel(round))
    b.send(a.me, parcel(round, value=-round))
    assert (numbers(b.take(a.me, round, 0, 30.0)) == round).all()
    assert (numbers(a.take(b.me, round, 0, 30.0)) == -round).all()


def ends_for_good(copy):
    """It is told why, and every call that waits raises an error of its own from then on."""
    assert until(lambda: copy._table.halted is not None, 8.0)
    with pytest.raises(ExcludedError, match=r"identity_conflict|old_incarnation"):
        copy.take(copy.roster.sources(copy.me)[0], 99, 0, 0.1)


def was_never_heard(copy):
    return not any(link.up or "applied" in link.frames for link in copy.links())


@pytest.mark.parametrize("starts", [1, 3], ids=["the next life", "a caught-up copy"])
def test_a_copy_beside_the_running_one_is_refused(site, starts):
    with site.neighbour() as b, site.original() as a:
        exchange(a, b, 1)
        name = site.copy()
        for _ in range(starts):
            with site.start(name) as copy:
                ends_for_good(copy)
                assert was_never_heard(copy)
        exchange(a, b, 2)
        assert not [link for link in b.links() if "replaced" in link.reconnects]
        assert any("identity_conflict" in text for text in site.alarms)


def test_a_restored_backup_is_refused_even_when_it_has_caught_up(site):
    with site.neighbour() as b:
        with site.original() as a:
            exchange(a, b, 1)
        name = site.copy("backup")
        for round in (2, 3):
            with site.original() as a:
                a.expect(round)
                exchange(a, b, round)
        for _ in range(4):  # the first three have incarnations that were there, the fourth has not
            with site.start(name) as backup:
                ends_for_good(backup)
                assert was_never_heard(backup)
        with site.original() as a:
            a.expect(4)
            exchange(a, b, 4)


def test_an_honest_restart_goes_on_whatever_the_neighbour_missed(site):
    """Several lives pass while the neighbour is away; and both restart in turn."""
    for round in range(1, 4):
        with site.neighbour() as b:
            b.expect(round)
            with site.original() as a:
                a.expect(round)
                exchange(a, b, round)
        for _ in range(MOST_PARENTS + 3):
            site.original().close()
    with site.original() as a, site.neighbour() as b:
        a.expect(4)
        b.expect(4)
        exchange(a, b, 4)
        assert not site.alarms


def test_a_copy_that_starts_while_the_original_is_stopped_takes_its_place(site):
    """As when a folder is moved to another machine; the original is a copy then."""
    with site.neighbour() as b:
        with site.original() as a:
            exchange(a, b, 1)
        name = site.copy()
        with site.start(name) as moved:
            moved.expect(2)
            exchange(moved, b, 2)
            for _ in range(2):
                with site.original() as a:
                    ends_for_good(a)
            exchange(moved, b, 3)


@pytest.mark.parametrize("restarted", [False, True], ids=["cut off", "neighbour restarted"])
def test_the_original_comes_back_after_a_copy_was_greeted(site, restarted):
    """The copy found the neighbour while the original could not reach it."""
    b = site.neighbour()
    b.start()
    with site.original() as a:
        exchange(a, b, 1)
        name = site.copy()
        # For a while the original neither dials nor is found.
        a._table.linked, linked = (lambda peer: False), a._table.linked
        if restarted:
            b.close()
            b = site.neighbour()
            b.start()
        else:
            a._table.cut(a._table.greetings.current(b.me))
        try:
            with site.start(name) as copy:
                b.expect(2)
                copy.expect(2)
                exchange(copy, b, 2)
                a._table.linked = linked
                a._table.rewire()
                a.expect(3)
                assert until(lambda: any(link.up for link in a.links()), 8.0)
                ends_for_good(copy)
                exchange(a, b, 3)
                assert any("runs twice" in text for text in site.alarms)
        finally:
            b.close()


def test_a_dead_process_whose_greeting_lay_unread_takes_no_place(site):
    """Its HELLO is read after the next process was greeted: that one stays."""
    with site.neighbour() as b:
        with site.original() as a:
            exchange(a, b, 1)
            before = a._table.life
        with site.original() as a:
            a.expect(2)
            exchange(a, b, 2)
            talk = a._table.greetings.current(b.me)
            hello = a._table.greetings.hello(talk)
            old = {**hello, "incarnation": before.incarnation, "process_nonce": before.nonce}
            late = type("Late", (), {"peer": a.me, "version": 7, "attempt": 0})()
            judge = b._table.greetings._impostor
            with b._table.lock:
                assert judge(late, {**old, "attempt": 5}) == "second_process"
                assert judge(late, {**old, "attempt": 5}) == "second_process", "the same attempt"
                assert judge(late, {**old, "attempt": 6}) == "", "it dialled once more: it lives"
            exchange(a, b, 3)


# -- what lies in the folder


lives = st.builds(Life, st.integers(1, 50), st.integers(0, 2**62))


@given(st.lists(st.sampled_from(["reached", "unanswered", "away"]), max_size=40))
def test_the_life_that_a_neighbour_has_is_always_among_the_parents(history):
    """Whatever is lost on the way, short of seven greetings in a row that nobody answered."""
    folder, theirs, unanswered = Lives(), None, 0
    for incarnation, event in enumerate(history, 1):
        mine = Life(incarnation, 7 * incarnation)
        said = folder.parents("b", mine)
        assert len(said) <= MOST_PARENTS
        if event == "away":
            continue
        folder.begin(mine, ["b"])
        if theirs is not None and unanswered < MOST_PARENTS - 2:
            assert theirs in said
        theirs = mine
        unanswered = unanswered + 1 if event == "unanswered" else 0
        if event == "reached":
            folder.confirm("b", mine)


def test_the_file_is_read_back_and_a_spoilt_one_is_refused_in_words(tmp_path):
    path, one, two = tmp_path / "lives.json", Life(1, 5), Life(2, 6)
    known = KnownLife(Life(3, 4), 7, (Life(1, 2),))
    kept = Lives(path, "run", 1)
    kept.begin(one, ["b"])
    kept.confirm("b", one)
    kept.learn("b", known)
    again = Lives(path, "run", 2)
    assert (again.known("b"), again.parents("b", two)) == (known, [one])
    assert Lives(path, "another run", 2).known("b") is None
    assert Lives(path, "run", 4).known("b") is None, "another process came between"
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(PeerError, match=r"lives\.json is spoilt"):
            Lives(path, "run", 2)
    for bad in ([], {"run": "run"}, {**json.loads(whole), "theirs": {"b": [[1, -1], 7, []]}}):
        path.write_text(json.dumps(bad))
        with pytest.raises(PeerError, match=r"lives\.json is spoilt"):
            Lives(path, "run", 2)
