"""The units for systemd: they verify, confine, start commands that exist, and know exit codes."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.command_lines import parsed

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not installed")
each = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)


def read(path):
    """The sections of a unit, with the last value of every key."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read_string(path.read_text())
    return unit


@each
def test_a_unit_starts_at_boot_after_the_network_and_names_a_command_that_exists(path):
    unit = read(path)
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    assert "network-online.target" in unit["Unit"]["After"].split()
    assert "network-online.target" in unit["Unit"]["Wants"].split()
    folder = unit["Service"]["WorkingDirectory"]
    command, options = parsed(unit["Service"]["ExecStart"])
    assert command == {"peerloom-peer": "peer start", "peerloom-relay": "relay"}[path.stem]
    assert unit["Service"]["ReadWritePaths"] == f"{folder}/{options['folder']}"
    assert unit["Service"]["ExecStart"].startswith(f"{folder}/.venv/bin/peerloom ")
    assert unit["Service"]["User"] == unit["Service"]["Group"] == "peerloom"


@each
def test_a_unit_is_started_again_only_where_that_can_help(path):
    """Every code of the page but 5, where a start may help, and those that are no failure."""
    service = read(path)["Service"]
    page = (ROOT / "docs" / "exit-codes.md").read_text()
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", page, flags=re.M)}
    assert codes == {0, 2, 3, 4, 5, 6, 130}
    assert service["Restart"] == "on-failure"
    assert service["SuccessExitStatus"] == "130"
    assert set(map(int, service["RestartPreventExitStatus"].split())) == codes - {0, 5, 130}
    assert int(service["TimeoutStopSec"]) >= 30


def installed(path, folder):
    """A unit whose command is there, as systemd wants it to be before it calls a unit sound."""
    bin = folder / ".venv" / "bin"
    bin.mkdir(parents=True)
    (bin / "peerloom").write_text("#!/bin/sh\n")
    (bin / "peerloom").chmod(0o755)
    copy = folder / path.name
    copy.write_text(path.read_text().replace("/srv/peerloom", str(folder)))
    return copy


def analyze(*words):
    return subprocess.run(
        [ANALYZE, *words], capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip


@needs_systemd
@each
def test_systemd_finds_nothing_to_say_about_a_unit(path, tmp_path):
    done = analyze("verify", "--man=no", installed(path, tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_systemd_would_find_a_misspelled_key(tmp_path):
    copy = installed(UNITS[0], tmp_path)
    copy.write_text(copy.read_text().replace("PrivateTmp=", "PrivatTmp="))
    assert "PrivatTmp" in analyze("verify", "--man=no", copy).stderr


@needs_systemd
@each
def test_a_unit_is_exposed_as_little_as_the_page_says(path, tmp_path):
    done = analyze("security", "--offline=true", "--threshold=20", path)
    assert done.returncode == 0, done.stdout
    loose = tmp_path / path.name
    loose.write_text(re.sub(r"^SystemCallFilter=.*\n", "", path.read_text(), flags=re.M))
    assert analyze("security", "--offline=true", "--threshold=20", loose).returncode == 1
