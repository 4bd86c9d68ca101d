"""The command line, as a process of its own or in this one."""

import json
import os
import subprocess
import sys

import pytest

from peerloom.cli import main


def peerloom(*words, cwd, more=None, **changes):
    """Run a command in a process of its own, in which warnings are errors."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"} | (more or {})
    command = [sys.executable, "-W", "error", "-m", "peerloom", *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, **changes
    )


def run_here(monkeypatch, capsys, *words):
    """Run a command in this process; its exit code, and what it wrote to stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["peerloom", *map(str, words)])
    with pytest.raises(SystemExit) as done:
        main()
    printed = capsys.readouterr()
    return done.value.code, printed.out, printed.err


def printed_by(monkeypatch, capsys, *words, code=0):
    """What a command in this process printed; parsed where that was asked for with --json."""
    ended, out, err = run_here(monkeypatch, capsys, *words)
    assert ended == code, err
    return json.loads(out) if "--json" in words else out + err
