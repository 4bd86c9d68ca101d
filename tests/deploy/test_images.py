"""The Dockerfile: who runs, what is installed, and that what it copies is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
USER = 10001
WORK = "/srv/peerloom"


def stages():
    """The stages of the Dockerfile by name, each as its instructions."""
    found, text = {}, DOCKERFILE.replace("\\\n", " ")
    for line in text.splitlines():
        if stage := re.match(r"FROM (\S+) AS (\S+)$", line):
            found[stage[2]] = [f"FROM {stage[1]}"]
        elif line and not line.startswith("#") and found:
            list(found.values())[-1].append(line)
    return found


def test_images_run_as_nobody_special_and_hold_no_installer():
    made = stages()
    assert made["peer"][0] == made["relay"][0] == "FROM runtime"
    assert f"USER {USER}:{USER}" in made["runtime"]
    assert f"WORKDIR {WORK}" in made["runtime"]
    assert 'ENTRYPOINT ["peerloom"]' in made["runtime"]
    assert not any("pip" in line for name in ("runtime", "peer", "relay") for line in made[name])
    assert not re.search(r"^(EXPOSE|VOLUME|ADD) ", DOCKERFILE, flags=re.M)


def test_the_image_of_a_relay_has_its_short_list_of_packages():
    relay, peer = (" ".join(stages()[name]) for name in ("relay-packages", "peer-packages"))
    assert "--requirement deploy/relay-requirements.txt" in relay
    assert "--no-deps ." in relay
    assert "torch" not in relay.lower()
    assert "'.[peer]'" in peer


def test_what_the_dockerfile_copies_is_there_and_not_ignored():
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    copied = set()
    for line in stages()["source"]:
        if line.startswith("COPY "):
            *names, target = line.split()[1:]
            copied |= set(names)
            assert all(name.startswith(target.removeprefix("./")) for name in names)
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
