"""docs/deploy.md, command by command: four hospitals without a port, a relay, both killed."""

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

import peerloom as pl
from peerloom.config import comparison_from
from peerloom.datasets import CATALOGUE, locate
from peerloom.peers.metrics import METRICS
from peerloom.peers.samples import with_samples
from peerloom.runtime import iterate
from tests.federation import free_ports
from tests.memory_runs import wait_for

pytestmark = pytest.mark.slow  # starts processes, or runs for long

DOC = Path(__file__).parents[2] / "docs" / "deploy.md"
SITES = {
    "cleveland": "processed.cleveland.data",
    "hungarian": "processed.hungarian.data",
    "switzerland": "processed.switzerland.data",
    "va-long-beach": "processed.va.data",
}
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", DOC.read_text(), flags=re.M | re.S)
SHELL = [text for language, text in BLOCKS if language == "sh"]


def test_the_page_names_every_metric():
    for name, (_, meaning) in METRICS.items():
        assert re.search(
            rf"\| `peerloom_{name}[`{{].*\| {re.escape(meaning)} \|", DOC.read_text()
        ), name


class Walk:
    """The sites as folders, and the commands of the page with names, ports and paths filled in."""

    def __init__(self, root, data):
        self.root, self.data = root, data
        self.relay, *ports = free_ports(5)
        self.metrics = dict(zip(SITES, ports, strict=True))
        self.running, self.seen, self.founder = {}, [], ""
        bin = root / "bin"
        bin.mkdir()
        for name, words in (("peerloom", "-m peerloom"), ("python", "")):
            (bin / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            (bin / name).chmod(0o755)
        self.env = os.environ | {"PATH": f"{bin}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        for site in (*SITES, "relay"):
            (root / site).mkdir()

    def block(self, starts, where):
        """The next block for these sites whose first command starts so; its commands."""
        head, *lines = SHELL[len(self.seen)].splitlines()
        assert head.startswith(f"# at {where}"), head
        assert lines[0].startswith(starts), lines
        self.seen.append(head)
        return lines

    def filled(self, line, site, token=""):
        there = f"127.0.0.1:{self.relay}"
        wanted = {
            "SITE": site, "TOKEN": token, "FOUNDER-ID": self.founder,
            "PUBLIC-FILE": str(self.data / SITES.get(site, "")),
            "0.0.0.0:443": there, "relay.example:443": there,
            "127.0.0.1:9464": f"127.0.0.1:{self.metrics.get(site)}",
        }  # fmt: skip
        for word, value in wanted.items():
            line = line.replace(word, value)
        return line

    def run(self, line, *sites, token=""):
        """At all these sites at once; what they printed."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        started = [
            subprocess.Popen(
                ["bash", "-c", self.filled(line, s, token)],
                cwd=self.root / s,
                env=self.env,
                text=True,
                **pipes,
            )
            for s in sites
        ]
        said = [process.communicate(timeout=180)[0] for process in started]
        assert [process.returncode for process in started] == [0] * len(sites), said
        return said

    def start(self, line, site):
        log = (self.root / site / "log.txt").open("a")
        self.running[site] = subprocess.Popen(
            ["bash", "-c", f"exec {self.filled(line, site)}"], cwd=self.root / site, env=self.env,
            stdout=log, stderr=log,
        )  # fmt: skip
        log.close()

    def scrape(self, site):
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.metrics[site]}/metrics", timeout=5
            ) as page:
                return page.read().decode()
        except OSError:
            return ""

    def log(self, site):
        return (self.root / site / "log.txt").read_text()


def listening(pid):
    """Where a process accepts connections: (address, port) of its listening TCP sockets."""
    held = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            held.add(entry.readlink().name)
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            address, port = words[1].split(":")
            if words[3] == "0A" and f"socket:[{words[9]}]" in held:
                packed = bytes.fromhex(address)[::-1]
                found.add((".".join(map(str, packed)), int(port, 16)))
    return found


def value(page, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", page, flags=re.M)
    return None if found is None else float(found[1])


@pytest.mark.skipif(
    not locate(CATALOGUE["heart-disease"]), reason="the heart disease data are not on this machine"
)
def test_four_hospitals_follow_the_page(tmp_path):
    walk = Walk(tmp_path, locate(CATALOGUE["heart-disease"]).folder)
    try:
        follow(walk)
    finally:
        for process in walk.running.values():
            process.kill()
            process.wait()
    assert len(walk.seen) == len(SHELL), "every block of the page was run"


def follow(walk):
    others = [site for site in SITES if site != "cleveland"]

    # 1 and 2: keys, and a relay that knows no more than whose federation it serves
    said = walk.run(*walk.block("peerloom peer init", "cleveland"), "cleveland")
    walk.founder = said[0].splitlines()[1].strip()
    walk.run(*walk.block("peerloom peer init", "every other site"), *others)
    (relay,) = walk.block("peerloom relay", "the relay")
    walk.start(relay, "relay")
    certificate = walk.root / "relay" / "relay" / "identity.crt"
    wait_for(lambda: "listening" in walk.log("relay"))
    shutil.copy(certificate, walk.root / "cleveland" / "relay.crt")
    walk.run(*walk.block("peerloom peer roster relay", "cleveland"), "cleveland")

    # 3: all join through the relay, one after the other
    (invite,), (join,) = (
        walk.block("peerloom peer invite", "cleveland"),
        walk.block("peerloom peer join", "every other site"),
    )
    for site in others:
        desk = subprocess.Popen(
            ["bash", "-c", f"exec {walk.filled(invite, site)}"], cwd=walk.root / "cleveland",
            env=walk.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        walk.running["desk"] = desk
        token = desk.stderr.readline().strip()
        assert "Waiting on relay" in desk.stderr.readline()
        assert listening(desk.pid) == set()
        assert site in walk.run(join, site, token=token)[0]
        assert f"{site} is a member now" in desk.communicate(timeout=180)[0]
    keys = [walk.root / site / "peer" / "identity.key" for site in SITES]
    assert len({key.read_bytes() for key in keys}) == 4
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}

    # 4 and 5: the experiment, the kit, the data
    experiment = next(text for language, text in BLOCKS if language == "toml")
    (walk.root / "cleveland" / "hearts.toml").write_text(experiment)
    for line in walk.block("peerloom peer roster graph", "cleveland"):
        walk.run(line, "cleveland")
    for site in others:
        shutil.copy(walk.root / "cleveland" / "kit.zip", walk.root / site)
    walk.run(*walk.block("peerloom peer kit open", "every site"), *SITES)
    for text in (text for language, text in BLOCKS if language == "python"):
        name = re.match(r"# (\w+\.py)\n", text)[1]
        for site in SITES:
            (walk.root / site / name).write_text(text)
    walk.run(*walk.block("python export.py", "every site"), *SITES)

    # 6: all is well; all train, and nobody listens
    doctor, backup = walk.block("peerloom peer doctor", "every site")
    walk.run(doctor, *SITES)
    walk.run(backup, *SITES)
    backups = [walk.root / site / f"{site}.backup" for site in SITES]
    assert {stat.S_IMODE(path.stat().st_mode) for path in backups} == {0o600}
    (start,) = walk.block("peerloom peer start", "every site")
    for site in SITES:
        walk.start(start, site)
    wait_for(lambda: (value(walk.scrape("hungarian"), "peerloom_iteration") or 0) > 5)
    page = walk.scrape("cleveland")
    assert value(page, 'peerloom_link_up{peer="hungarian",dir="out"}') == 1
    assert value(page, "peerloom_ledger_imbalance") == 0
    for site in SITES:
        assert listening(walk.running[site].pid) == {("127.0.0.1", walk.metrics[site])}
    (status,) = walk.block("peerloom peer status", "every site")

    # 7: a site dies without a word, and so does the relay; both come back
    walk.run(*walk.block("kill -9", "hungarian"), "hungarian")
    assert walk.running["hungarian"].wait(10) == -9
    assert (
        max(value(walk.scrape(site), "peerloom_iteration") for site in ("cleveland", "switzerland"))
        < 600
    )
    kill, relay_again = walk.block("kill -9", "the relay")
    walk.run(kill, "relay")
    assert walk.running["relay"].wait(10) == -9
    assert relay_again == relay
    walk.start(relay_again, "relay")
    (again,) = walk.block("peerloom peer start", "hungarian")
    assert again == start
    said = walk.run(status, *SITES)
    assert "killed" in said[1]
    assert "running" in said[0]
    walk.start(again, "hungarian")
    for site in SITES:
        assert walk.running[site].wait(180) == 0, walk.log(site)

    # 8: everyone has learnt, and the models are those of an undisturbed run with all patients
    # in one place
    said = walk.run(f"{status} --json", *SITES)
    stands = dict(zip(SITES, (json.loads(text)[0] for text in said), strict=True))
    assert {site: stands[site]["incarnation"] for site in SITES} == {
        site: 1 + (site == "hungarian") for site in SITES
    }
    assert {stand["status"] for stand in stands.values()} == {"done"}
    check_models(walk, comparison_from(tomllib.loads(experiment)).experiments[0], stands)
    assert "14 parameters" in walk.run(*walk.block("peerloom peer export", "every site"), *SITES)[0]
    assert "weigh most" in walk.run(*walk.block("python model.py", "cleveland"), "cleveland")[0]
    assert "link from hungarian is down" in walk.log("cleveland")
    assert walk.log("switzerland").strip().endswith("switzerland end: round 600, done")

    # a member leaves
    walk.run(*walk.block("peerloom peer roster remove", "cleveland"), "cleveland")
    for line in walk.block("sed", "cleveland"):
        walk.run(line, "cleveland")
    for site in SITES:
        for path in (walk.root / site).rglob("*"):
            if path.is_file() and path.name not in ("identity.key", f"{site}.backup"):
                assert b"PRIVATE KEY" not in path.read_bytes(), path


def check_models(walk, exp, stands):
    mine = [
        with_samples(exp, row, str(walk.root / site / "patients.csv")).problem.data
        for row, site in enumerate(SITES)
    ]
    together = pl.problems.Dataset(
        np.concatenate([data.x for data in mine]), np.concatenate([data.y for data in mine]), 2,
        name="together",
        owners=np.concatenate([np.full(len(data.y), row) for row, data in enumerate(mine)]),
    )  # fmt: skip
    *_, last = iterate(
        replace(exp, problem=replace(exp.problem, data=together, partition=pl.problems.Natural())),
        path="links",
    )
    for row, (site, data) in enumerate(zip(SITES, mine, strict=True)):
        (run,) = (walk.root / site / "peer" / "state").iterdir()
        judged = safetensors.numpy.load_file(run / "judged" / "600.safetensors")
        assert np.array_equal(judged["x"], last.x[row].numpy()), site
        scores = torch.from_numpy(data.test_x).double() @ last.x[row, :13] + last.x[row, 13]
        share = ((scores > 0).numpy() == data.test_y).mean()
        assert stands[site]["last"]["accuracy"] == pytest.approx(share)
        assert share > 0.65, (site, share)
