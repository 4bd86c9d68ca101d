"""`peer doctor`, `repair`, `backup`, `restore`: a folder spoilt in every way, and put back."""

import errno
import hashlib
import itertools
import json
import os
import shutil
import signal
import stat
import threading
import tracemalloc
import zipfile
from dataclasses import replace

import pytest

from peerloom.errors import PeerError, PeerloomError
from peerloom.peers.asking import ask_neighbours
from peerloom.peers.doctor import examine
from peerloom.peers.folder import PeerFolder
from peerloom.peers.repair import repair
from peerloom.transport import Endpoint, Home, Link, Member, files, join_request
from peerloom.transport.backup import restore_backup, write_backup
from peerloom.transport.files import StateFolder
from tests.command import run_here
from tests.federation import QUICK, RUN, free_ports, identity, until
from tests.peers.test_spoilt_files import trained  # noqa: F401  (a fixture)

pytestmark = pytest.mark.slow


@pytest.fixture
def peer(trained, tmp_path):  # noqa: F811
    """A copy of the folder of a peer that has trained; nobody uses it."""
    shutil.copytree(trained, tmp_path / "peer")
    (tmp_path / "peer" / "site.toml").unlink()
    os.truncate(next(tmp_path.glob("peer/state/*/decisions.jsonl")), 0)
    return tmp_path / "peer"


def bad(folder):
    return [each for each in examine(folder, network=False) if each.level == "bad"]


def worth_a_look(folder):
    return [each.text for each in examine(folder, network=False) if each.level == "note"]


def run_of(folder):
    return next((folder / "state").iterdir())


def test_a_well_folder_is_well(peer, monkeypatch, capsys):
    assert bad(peer) == []
    before = {path: path.read_bytes() for path in peer.rglob("*") if path.is_file()}
    code, out, _ = run_here(monkeypatch, capsys, "peer", "doctor", "--json", "--folder", peer)
    assert code == 0
    seen = {each["what"].split()[0] for each in json.loads(out)["findings"]}
    assert seen >= {"modes", "roster", "run", "audit", "clock", "disk", "port", "neighbour"}
    assert before == {path: path.read_bytes() for path in peer.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("identity.crt", "key"), ("peer.json", "key"), ("roster.json", "roster"),
        ("experiment.toml", "experiment.toml"), ("state/*/experiment.toml", "experiment"),
        ("state/*/roster.json", "roster.json"), ("state/*/began.json", "began.json"),
        ("state/*/status.json", "status.json"), ("state/*/lives.json", "lives.json"),
        ("state/*/metrics.jsonl", "metrics.jsonl"), ("audit.jsonl", "audit log"),
        ("audit.head", "audit log"), ("invitations.json", "invitations.json"),
    ],
)  # fmt: skip
def test_a_spoilt_file_is_named(peer, pattern, what):
    path = next(peer.glob(pattern))
    path.write_bytes(b"[" + path.read_bytes()[3:])
    assert any(what in each.what for each in bad(peer)), bad(peer)


def test_repair_mends_what_cannot_lie_and_nothing_else(peer, monkeypatch, capsys):
    run = run_of(peer)
    peer.chmod(0o755)
    (peer / "identity.key").chmod(0o640)
    spoilt = run / "checkpoint-0.safetensors"
    spoilt.write_bytes(spoilt.read_bytes()[:-5])
    metrics = run / "metrics.jsonl"
    lines = metrics.read_bytes()
    metrics.write_bytes(lines + b'{"round": 9')
    audit = peer / "audit.jsonl"
    audit.write_bytes(audit.read_bytes() + b'{"n":')
    (run / ".status.json.123.draft").write_bytes(b"x")
    (run / "inbox").mkdir(exist_ok=True)
    (run / "inbox" / "7.part").write_bytes(b"x")
    code, _, err = run_here(monkeypatch, capsys, "peer", "repair", "--folder", peer)
    assert (code, err.count("Removing"), err.count("Setting"), err.count("Taking")) == (0, 3, 2, 2)
    assert metrics.read_bytes() == lines
    assert not spoilt.exists()
    assert stat.S_IMODE((peer / "identity.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(peer.stat().st_mode) == 0o700
    assert (bad(peer), worth_a_look(peer)) == ([], [])
    noted = [line for line in Home.open(peer).audit.lines() if line["what"] == "repair"]
    assert len(noted) == 7
    code, _, err = run_here(monkeypatch, capsys, "peer", "repair", "--folder", peer)
    assert "nothing to mend" in err


def test_repair_keeps_the_last_checkpoint_and_refuses_a_running_peer(peer, monkeypatch, capsys):
    run = run_of(peer)
    for k in (0, 1):
        path = run / f"checkpoint-{k}.safetensors"
        if path.exists():
            path.write_bytes(path.read_bytes()[:-1])
    run_here(monkeypatch, capsys, "peer", "repair", "--folder", peer)
    assert list(run.glob("checkpoint-*")), "a spoilt one may be all there is"
    assert any("cannot go on" in each.text for each in bad(peer))
    held = StateFolder(run)
    try:
        code, _, err = run_here(monkeypatch, capsys, "peer", "repair", "--folder", peer)
        assert (code, "runs" in err) == (5, True)
    finally:
        held.close()


def test_doctor_tells_of_a_clock_that_went_back(peer, monkeypatch):
    assert not [each for each in bad(peer) if each.what == "clock"]
    monkeypatch.setattr("peerloom.peers.doctor.time.time", lambda: 1.7e9)
    assert [each.what for each in bad(peer) if each.what == "clock"] == ["clock"]


# -- backups


def test_a_backup_holds_no_state_and_comes_back(peer, tmp_path, monkeypatch, capsys):
    (peer / "code").mkdir()
    (peer / "code" / "hearts.py").write_text("net = 1\n")
    file = tmp_path / "backup"
    code, _, _ = run_here(monkeypatch, capsys, "peer", "backup", file, "--folder", peer)
    assert (code, stat.S_IMODE(file.stat().st_mode)) == (0, 0o600)
    with zipfile.ZipFile(file) as archive:
        assert not [name for name in archive.namelist() if name.startswith("state")]
    code, _, _ = run_here(monkeypatch, capsys, "peer", "restore", file, "--folder", tmp_path / "b")
    assert code == 0
    home = Home.open(tmp_path / "b")
    assert home.roster == Home.open(peer).roster
    assert (home.unasked, home.audit.findings()) == (True, [])
    assert (home.folder / "code" / "hearts.py").read_text() == "net = 1\n"
    assert bad(home.folder) == []
    code, _, err = run_here(
        monkeypatch, capsys, "peer", "roster", "remove", "site-1", "--folder", home.folder
    )
    assert (code, "restored from a backup" in err) == (5, True), "it would sign a version twice"


def test_restoring_refuses_a_state_a_newer_roster_and_another_key(peer, tmp_path):
    file = tmp_path / "backup"
    home = Home.open(peer)
    write_backup(home, file)
    with pytest.raises(PeerError, match="state of a run"):
        restore_backup(file, peer)
    shutil.rmtree(peer / "state")
    home.trust(home.roster.without_member(home.identity, "site-2"))
    before = (peer / "roster.json").read_bytes()
    with pytest.raises(PeerError, match="newer than the backup"):
        restore_backup(file, peer)
    assert (peer / "roster.json").read_bytes() == before
    assert not Home.open(peer).unasked
    other = Home.create(tmp_path / "other", "other", (), found=False)
    with pytest.raises(PeerError, match="another folder"):
        restore_backup(file, other.folder)


def test_a_backup_with_any_byte_changed_is_refused_whole(peer, tmp_path):
    file, folder = tmp_path / "backup", tmp_path / "new"
    write_backup(Home.open(peer), file)
    data = file.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 60)):
        for bad in (data[:at], data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]):
            file.write_bytes(bad)
            try:
                restore_backup(file, folder)
            except PeerloomError:
                assert not folder.exists(), "nothing was written"
            else:  # a byte that nobody reads, such as a date of the archive
                assert Home.open(folder).roster == Home.open(peer).roster
                shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "state/a/incarnation", "code/../../x"])
def test_a_backup_cannot_choose_where_it_writes(peer, tmp_path, name):
    file = tmp_path / "backup"
    write_backup(Home.open(peer), file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(PeerError, match="which no backup has"):
        restore_backup(file, tmp_path / "new")
    assert not (tmp_path / "new").exists()


# -- a restored peer asks first


def federation_of_three(folder, ports):
    home = Home.create(folder, "peer-0", (f"127.0.0.1:{ports[0]}",), found=True)
    roster = home.roster
    for k in (1, 2):
        certificate = identity(k).certificate.decode()
        roster = roster.with_member(
            home.identity, Member(f"peer-{k}", certificate, (f"127.0.0.1:{ports[k]}",))
        )
    me, one, two = (member.id for member in roster.members)
    links = [Link(*pair) for other in (one, two) for pair in ((me, other), (other, me))]
    return home.trust(roster.with_links(home.identity, links))


def test_a_restored_peer_begins_nothing_before_all_neighbours_were_asked(tmp_path):
    """It was restored to before a removal; the member that was removed answers first."""
    ports = free_ports(3)
    home = federation_of_three(tmp_path / "peer", ports)
    write_backup(home, tmp_path / "backup")
    old, gone = home.roster, home.roster.members[2].id
    newer = old.without_member(home.identity, gone)
    back = restore_backup(tmp_path / "backup", tmp_path / "restored")
    patient = replace(QUICK, wait=1.5)

    def open_links(number, roster, folder, **more):
        key = back.identity if number == 0 else identity(number)
        where = ("127.0.0.1", ports[number])
        return Endpoint(key, roster, RUN, tmp_path / folder, where, patient, **more)

    with (
        open_links(2, old, "state-2"),
        open_links(0, back.roster, "restored/state/run", keep=back.keep) as post,
    ):
        run = back.state / "run"
        assert until(lambda: post.unasked() == ["peer-1"])
        with pytest.raises(PeerError, match="peer-1 did not answer"):
            ask_neighbours(back, post, run, old.version)
        assert Home.open(back.folder).unasked
        ends = []

        def ask():
            try:
                ask_neighbours(back, post, run, old.version)
            except PeerError as error:
                ends.append(str(error))

        thread = threading.Thread(target=ask)
        thread.start()
        with open_links(1, newer, "state-1"):
            thread.join(20.0)
        assert "start this peer again" in ends[0]
        assert post.closed("in", gone)
    assert Home.open(back.folder).roster == newer
    assert not Home.open(back.folder).unasked
    assert not PeerFolder(run, "").begun()
    with open_links(0, Home.open(back.folder).roster, "restored/state/run") as post:
        assert post.roster == newer, "nothing of the old one is left"


def test_with_the_newest_roster_it_goes_on(tmp_path):
    ports = free_ports(3)
    home = federation_of_three(tmp_path / "peer", ports)
    write_backup(home, tmp_path / "backup")
    back = restore_backup(tmp_path / "backup", tmp_path / "restored")
    posts = [
        Endpoint(
            home.identity if k == 0 else identity(k), home.roster, RUN, tmp_path / f"state-{k}",
            ("127.0.0.1", ports[k]), QUICK,
        )
        for k in range(3)
    ]  # fmt: skip
    with posts[0], posts[1], posts[2]:
        ask_neighbours(back, posts[0], tmp_path / "state-0", home.roster.version)
    assert not back.unasked


# -- folders and archives that somebody prepared


def test_repair_and_doctor_leave_alone_what_is_not_theirs(tmp_path):
    home = Home.create(tmp_path / "peer", "a", (), found=True)
    run, elsewhere = home.state / "run", tmp_path / "elsewhere"
    for folder in (run / "inbox", home.folder / "code", elsewhere):
        folder.mkdir(parents=True)
    theirs = [
        home.folder / "code" / "images.part", home.folder / ".notes.draft",
        elsewhere / "x.part", elsewhere / "secret", home.state / "notes.txt",
    ]  # fmt: skip
    for path in theirs:
        path.write_text("of the site")
        path.chmod(0o644)
    (run / "inbox" / "dir.part").mkdir()
    (run / "inbox" / "link.part").symlink_to(elsewhere / "x.part")
    (home.folder / "invitations.json").symlink_to(elsewhere / "secret")
    (home.state / "link").symlink_to(elsewhere)
    ours = [run / "inbox" / "3.part", home.folder / ".roster.json.77.draft"]
    for path in ours:
        path.write_text("unfinished")
    assert repair(home.folder, lambda text: None) == len(ours)
    assert not any(path.exists() for path in ours)
    assert all(path.read_text() == "of the site" for path in theirs)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in theirs)


@pytest.mark.parametrize(
    "name",
    ["audit.jsonl", "state/[b]/lock", "state/[b]/experiment.toml", "state/[red]/metrics.jsonl",
     "state/r/checkpoint-0.safetensors", "state/r/status.json", "next/identity.crt"],
)  # fmt: skip
def test_doctor_says_what_cannot_be_read_at_all(tmp_path, name, monkeypatch, capsys):
    home = Home.create(tmp_path / "peer", "a", (), found=True)
    (home.folder / name).unlink(missing_ok=True)
    (home.folder / name).mkdir(parents=True)
    words = ("peer", "doctor", "--offline", "--folder", home.folder)
    code, out, _ = run_here(monkeypatch, capsys, *words)
    assert code == (0 if name.startswith("next") else PeerError.exit_code), out
    assert "disk" in out, "it looked at the rest, too"


def archive(path, files, **more):
    """A backup of these files, whose hashes are right."""
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    about = {"format": 1, "id": "", "files": hashes} | more
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("backup.json", json.dumps(about))
        for name, data in files.items():
            target.writestr(name, data)
    return path


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"roster.json": b"{}"}, "no roster"),
        ({"roster.json": None}, "no roster yet"),
        ({"code/..": b"x"}, "which no backup has"),
        ({"code/.": b"x"}, "which no backup has"),
        ({"code/m.py": bytes(70_000)}, "more than the"),
    ],
)
def test_a_prepared_archive_writes_nothing(tmp_path, change, why, monkeypatch):
    home = Home.create(tmp_path / "peer", "a", (), found=True)
    write_backup(home, tmp_path / "whole")
    with zipfile.ZipFile(tmp_path / "whole") as source:
        files = {name: source.read(name) for name in source.namelist() if name != "backup.json"}
    monkeypatch.setattr("peerloom.transport.backup._LARGEST", 65536)
    files = {name: data for name, data in (files | change).items() if data is not None}
    with pytest.raises(PeerError, match=why):
        restore_backup(archive(tmp_path / "prepared", files), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_an_invitation_of_a_backup_is_not_good_once_more(tmp_path):
    """It was used after the backup was made: whoever finds the token would come in."""
    home = Home.create(tmp_path / "peer", "a", (), found=True)
    token = home.invitations.invite(home.identity, "", 48.0)
    write_backup(home, tmp_path / "backup")
    newcomer = join_request(identity(1), token, "b", ())
    roster = home.invitations.accept(home.identity, home.roster, newcomer)
    again = restore_backup(tmp_path / "backup", tmp_path / "again")
    again.trust(roster)
    thief = join_request(identity(2), token, "c", ())
    with pytest.raises(PeerError, match="expired"):
        again.invitations.accept(again.identity, again.roster, thief)
    fresh = again.invitations.invite(again.identity, "", 48.0)
    request = join_request(identity(2), fresh, "c", ())
    assert again.invitations.accept(again.identity, again.roster, request).has(identity(2).id)


def test_restoring_can_be_done_again_wherever_it_was_ended(tmp_path, monkeypatch):
    home = Home.create(tmp_path / "peer", "a", (), found=True)
    write_backup(home, tmp_path / "backup")
    rename, written = files.rename, list[str]()

    def fails_after(count):
        def put(draft, path):
            if path.parent == tmp_path / "again":
                if len(written) == count:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written.append(path.name)
            rename(draft, path)

        return put

    for count in itertools.count():
        written.clear()
        monkeypatch.setattr(files, "rename", fails_after(count))
        try:
            restore_backup(tmp_path / "backup", tmp_path / "again")
        except OSError:
            continue
        break
    assert count > 5, written
    again = Home.open(tmp_path / "again")
    assert (again.roster, again.unasked) == (home.roster, True)
    assert again.audit.findings() == []


def test_what_holds_a_password_is_restored_for_its_user_alone(tmp_path):
    home = Home.create(tmp_path / "peer", "a", (), found=True)
    (home.folder / "site.toml").write_text('[network]\nproxy = "http://u:p@proxy:3128"\n')
    write_backup(home, tmp_path / "backup")
    again = restore_backup(tmp_path / "backup", tmp_path / "again")
    assert stat.S_IMODE((again.folder / "site.toml").stat().st_mode) == 0o600


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_backup_that_unpacks_whole_whatever_is_asked_for_is_not_unpacked(tmp_path, method):
    file = tmp_path / "prepared"
    with zipfile.ZipFile(file, "w", method) as target:
        target.writestr("code/m.py", bytes(64 << 20))
    assert file.stat().st_size < 65536, "the archive itself is small"
    tracemalloc.start()
    try:
        with pytest.raises(PeerError, match="no readable backup"):
            restore_backup(file, tmp_path / "new")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 << 20


def test_a_backup_spares_the_folder_and_is_never_too_large_to_restore(tmp_path, monkeypatch):
    home = Home.create(tmp_path / "peer", "a", (), found=True)
    for inside in (home.folder / "identity.key", home.folder / "code" / "backup"):
        with pytest.raises(PeerError, match="own folder"):
            write_backup(home, inside)
    assert Home.open(home.folder).identity == home.identity
    monkeypatch.setattr("peerloom.transport.backup._LARGEST", 1000)
    with pytest.raises(PeerError, match="to keep"):
        write_backup(home, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def killed_restore(archive, folder, count):
    """Whether a process that is killed at its so-manieth rename was; else it was done before."""
    if (child := os.fork()) == 0:
        renames, rename = itertools.count(), files.rename

        def put(draft, path):
            if next(renames) == count:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(draft, path)

        files.rename = put
        restore_backup(archive, folder)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def test_no_second_copy_of_the_key_stays_where_a_restore_was_killed(tmp_path):
    home = Home.create(tmp_path / "peer", "a", (), found=True)
    write_backup(home, tmp_path / "backup")
    key = (tmp_path / "peer" / "identity.key").read_bytes()
    there, most = tmp_path / "there" / "peer", 0

    def copies():
        found = (path for path in (tmp_path / "there").rglob("*") if path.is_file())
        return len([path for path in found if path.read_bytes() == key])

    for count in itertools.count():
        shutil.rmtree(tmp_path / "there", ignore_errors=True)
        killed = killed_restore(tmp_path / "backup", there, count)
        most = max(most, copies())
        if not (there / "identity.key").exists():
            restore_backup(tmp_path / "backup", there)
        told = "left over" in {each.what for each in examine(there, network=False)}
        assert told or copies() == 1, count
        repair(there, lambda text: None)
        assert copies() == 1, count
        if not killed:
            break
    assert most == 2, "a kill left a second one, or this would show nothing"
