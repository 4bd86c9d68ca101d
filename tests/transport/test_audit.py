"""Attacks on every line of the audit log: what was changed, removed or cut off is noticed."""

import base64
import hashlib
import json
import os
import threading

import pytest

from peerloom.transport import Home, Identity, Member, StopRequested
from peerloom.transport.audit import AuditLog
from tests.command import run_here
from tests.federation import identity

KINDS = ["start", "refused", "alarm", "invitation", "code", "refused", "end"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A log of 70 lines; its lines and its head."""
    folder = tmp_path_factory.mktemp("audit")
    log = AuditLog(folder, identity(0))
    for k in range(70):
        assert log.note(KINDS[k % len(KINDS)], number=k, text="a \u2028 line\n, and \u00fc")
    assert log.findings() == []
    return log.path.read_bytes().split(b"\n")[:-1], log.head_path.read_bytes()


def found(tmp_path, lines, head, key=0):
    log = AuditLog(tmp_path, identity(key))
    log.path.write_bytes(b"".join(line + b"\n" for line in lines))
    if head is not None:
        log.head_path.write_bytes(head)
    return log.findings()


def rechained(lines, first):
    """What an attacker without the key can do: correct all hashes after a change."""
    lines = list(lines)
    for k in range(first, len(lines)):
        entry = json.loads(lines[k])
        entry["before"] = hashlib.sha256(lines[k - 1]).hexdigest()
        lines[k] = json.dumps(entry, separators=(",", ":")).encode()
    return lines


def test_every_line_says_who_when_and_what(written):
    lines = [json.loads(line) for line in written[0]]
    assert [line["n"] for line in lines] == [*range(1, 71)]
    assert all(line["at"].endswith("+00:00") for line in lines)
    assert all("sig" in line for line in lines)


@pytest.mark.parametrize("length", [0, 4096 - 500, 4096, 50_000])
def test_a_line_costs_the_same_however_long_the_log_is(tmp_path, monkeypatch, length):
    log, read = AuditLog(tmp_path, identity(0)), []
    for _ in range(60):
        assert log.note("refused", text="x" * 2000)
    assert log.note("refused", text="x" * length)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *where: read.append(pread(*where)) or read[-1])
    assert log.note("end")
    assert sum(map(len, read)) < 8 * (length + 4096)
    monkeypatch.undo()
    assert log.findings() == []


def test_a_line_added_without_the_key_is_found_whatever_comes_after(written, tmp_path):
    """Also where an honest line follows it, which names its hash and signs a new head."""
    lines, head = written
    before = hashlib.sha256(lines[-1]).hexdigest()
    forged = {"n": 71, "at": "2026-11-18T10:00:00.000+00:00", "what": "backup", "about": {}}
    line = json.dumps(forged | {"before": before}, separators=(",", ":")).encode()
    assert any("line 71" in text for text in found(tmp_path, [*lines, line], head))
    AuditLog(tmp_path, identity(0)).note("start")
    assert any("line 71" in text for text in AuditLog(tmp_path, identity(0)).findings())


def test_a_change_of_any_line_is_found_and_named(written, tmp_path):
    lines, head = written
    for k in range(len(lines)):
        changed = list(lines)
        entry = json.loads(changed[k])
        entry["about"]["number"] = 999
        changed[k] = json.dumps(entry, separators=(",", ":")).encode()
        texts = " ".join(found(tmp_path, changed, head))
        assert f"line {k + 1}" in texts, k
        if k < len(lines) - 1:
            assert found(tmp_path, rechained(changed, k + 1), head), "also with hashes corrected"


def test_the_removal_of_any_line_is_found_and_named(written, tmp_path):
    lines, head = written
    for k in range(len(lines)):
        without = lines[:k] + lines[k + 1 :]
        (first, *_) = found(tmp_path, without, head)
        assert first in (
            f"line {k + 1} was removed before line {k + 1}",
            "line 70 was cut off at the end",
        )
        assert found(tmp_path, rechained(without, k) if k else without, head)


def test_cutting_off_the_end_is_found_anywhere(written, tmp_path):
    lines, head = written
    for k in range(len(lines)):
        (text,) = found(tmp_path, lines[:k], head)
        assert text.endswith("70 were cut off at the end") or k == 69
    (tmp_path / "audit.head").unlink()
    assert found(tmp_path, lines, None) == ["audit.head is missing: lines may have been cut off"]
    (text,) = found(tmp_path, [], None)
    assert "no line" in text


def test_one_bit_anywhere_is_found(written, tmp_path):
    lines, head = written
    data, log = b"".join(line + b"\n" for line in lines), AuditLog(tmp_path, identity(0))
    for at in range(0, len(data), 173):
        spoilt = bytearray(data)
        spoilt[at] ^= 1 << at % 8
        log.path.write_bytes(spoilt)
        log.head_path.write_bytes(head)
        assert log.findings(), at
    for at in range(0, len(head) - 1, 3):
        spoilt = bytearray(head)
        spoilt[at] ^= 1 << at % 8
        assert found(tmp_path, lines, bytes(spoilt)), at


def test_lines_and_heads_of_another_key_are_told(written, tmp_path):
    lines, head = written
    assert any("signed by another key" in text for text in found(tmp_path, lines, head, key=1))
    other = AuditLog(tmp_path / "other", identity(1))
    other.path.parent.mkdir()
    for k in range(70):
        other.note(KINDS[k % len(KINDS)], number=k)
    texts = found(tmp_path, lines, other.head_path.read_bytes())
    assert texts == ["audit.head was changed, or is of another peer: its signature is wrong"]
    mixed = [*lines[:7], *other.path.read_bytes().split(b"\n")[7:-1]]
    assert any("line 8 is signed by another key" in text for text in found(tmp_path, mixed, head))


def test_swapped_and_repeated_lines_are_found(written, tmp_path):
    lines, head = written
    for k in range(0, 68, 5):
        swapped = [*lines[:k], lines[k + 1], lines[k], *lines[k + 2 :]]
        assert found(tmp_path, swapped, head)
        assert found(tmp_path, [*lines[: k + 1], *lines[k:]], head)
    assert found(tmp_path, [*lines, *lines[-2:]], head)


def test_a_last_line_cut_by_a_kill_is_no_tampering(tmp_path):
    """Every place where a kill may cut the newest line, whose head was not written yet."""
    log = AuditLog(tmp_path, identity(0))
    for k in range(8):
        log.note(KINDS[k % len(KINDS)])
    whole, head = log.path.read_bytes(), log.head_path.read_bytes()
    log.note("refused", why="x")
    data = log.path.read_bytes()
    for end in range(len(whole), len(data) + 1):
        log.path.write_bytes(data[:end])
        log.head_path.write_bytes(head)
        assert log.findings() == [], end
        assert log.cut_short() == (len(whole) < end < len(data))
    log.path.write_bytes(data[:-9])
    log.note("end")
    assert (log.findings(), log.cut_short(), len(log.lines())) == ([], False, 9), "it goes on"


def test_processes_of_one_peer_write_in_turn(tmp_path):
    def many(log):
        for _ in range(10):
            log.note("refused")

    threads = [
        threading.Thread(target=many, args=(AuditLog(tmp_path, identity(0)),)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = AuditLog(tmp_path, identity(0))
    assert (len(log.lines()), log.findings()) == (40, [])


def test_a_disk_that_is_full_stops_nobody(tmp_path):
    log = AuditLog(tmp_path / "no-such-folder", identity(0))
    assert log.note("start") is False


def test_how_a_run_ended_is_noted(tmp_path):
    log = AuditLog(tmp_path, identity(0))
    with log.run("a"):
        pass
    for error in (StopRequested(), OSError("full")):
        with pytest.raises(type(error)), log.run("b"):
            raise error
    assert [line["about"].get("how") for line in log.lines()] == [
        None, "done", None, "stopped", None, "failed: full",
    ]  # fmt: skip


def renewed(log, old, new):
    """The log after a change of keys, with lines before and after."""
    AuditLog(log, old).note("start")
    AuditLog(log, old).note_rekey(new)
    AuditLog(log, new).note("end")


def test_a_new_key_goes_on_with_the_log_of_the_old(tmp_path):
    keys = [Identity.create(tmp_path / f"key-{k}") for k in range(3)]
    renewed(tmp_path, keys[0], keys[1])
    renewed(tmp_path, keys[1], keys[2])
    assert AuditLog(tmp_path, keys[2]).findings() == []
    assert AuditLog(tmp_path, keys[1]).findings(), "the newest lines are not of this key"


def test_a_forged_change_of_keys_hides_nothing(tmp_path):
    """An attacker writes a log with its own key and claims that the peer's key followed it."""
    mine, theirs = (Identity.create(tmp_path / name) for name in ("mine", "theirs"))
    AuditLog(tmp_path, theirs).note("start")
    AuditLog(tmp_path, theirs).note(
        "rekey", was=theirs.certificate.decode(), id=mine.id,
        accepted=base64.b64encode(theirs.sign("audit rekey", theirs.id.encode())).decode(),
    )  # fmt: skip
    AuditLog(tmp_path, mine).note("end")
    assert any("another key" in text for text in AuditLog(tmp_path, mine).findings())


def test_commands_note_what_they_do_and_check_it(tmp_path, monkeypatch, capsys):
    at = ("--folder", tmp_path / "peer")
    for words in (["init", "a", "--found"], ["invite"], ["roster", "save", tmp_path / "saved"]):
        assert run_here(monkeypatch, capsys, "peer", *words, *at)[0] == 0
    home = Home.open(tmp_path / "peer")
    (home.folder / "code").mkdir()
    (home.folder / "code" / "hearts.py").write_text("net = 1\n")
    run_here(monkeypatch, capsys, "peer", "allow", "hearts:net", *at)
    home.trust(
        home.roster.with_member(home.identity, Member("b", identity(1).certificate.decode()))
    )
    code, out, _ = run_here(monkeypatch, capsys, "peer", "audit", "show", "--json", *at)
    whats = [line["what"] for line in json.loads(out)["lines"]]
    assert (code, whats) == (0, ["init", "roster", "invitation", "code", "roster"])
    code, out, _ = run_here(monkeypatch, capsys, "peer", "audit", "check", *at)
    assert code == 0
    assert "Nothing was changed" in out
    data = home.audit.path.read_bytes()
    home.audit.path.write_bytes(data[:-20])
    code, out, _ = run_here(monkeypatch, capsys, "peer", "audit", "check", *at)
    assert "cut short" in out
    home.audit.path.write_bytes(data.replace(b"hearts:net", b"nobody:net"))
    code, out, _ = run_here(monkeypatch, capsys, "peer", "audit", "check", *at)
    assert code == 5
    assert "line 4 was changed after it was signed" in out
