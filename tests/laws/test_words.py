"""The check of words that hooks run: it finds what is banned, in docstrings and comments only."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check_words.py"


def check(*paths):
    return subprocess.run(
        [sys.executable, SCRIPT, *paths], capture_output=True, text=True, check=False
    )


def test_banned_words_are_found_with_their_lines(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text(
        '"""A module.\n\nWhoever reads it."""\n\nX = 1  # the how-manieth\n\n\n'
        'def f():\n    """Fine."""\n'
    )
    done = check(bad)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f'{bad}:3: "whoever"; write: any thread, any peer, the process that',
        f'{bad}:5: "how-manieth"; write: index',
    ]


def test_values_and_parts_of_words_are_left_alone(tmp_path):
    good = tmp_path / "good.py"
    good.write_text('"""Proof of latency; whoevers."""\n\nX = "whoever"\n')
    assert (check(good).returncode, check(good).stdout) == (0, "")


def test_the_reports_keep_to_it():
    done = check(*sorted((ROOT / "src" / "peerloom" / "reports").glob("*.py")))
    assert done.returncode == 0, done.stdout
