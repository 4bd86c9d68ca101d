"""The compose file: four hospitals that reach a relay and nobody else, and no published port."""

import tomllib
from pathlib import Path

import pytest
import yaml

from tests.deploy.command_lines import parsed
from tests.deploy.health_checks import judged

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
SITES = ["cleveland", "hungarian", "switzerland", "va-long-beach"]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
USER = 10001  # as in the image
WORK = "/srv/peerloom"


def test_no_port_is_published_and_no_hospital_can_reach_another():
    services = COMPOSE["services"]
    assert list(services) == ["relay", *SITES]
    assert not any("ports" in one or "expose" in one for one in services.values())
    assert all(network == {"internal": True} for network in COMPOSE["networks"].values())
    for site in SITES:
        shared = [name for name, one in services.items() if {site} & set(one["networks"])]
        assert services[site]["networks"] == [site]
        assert shared == ["relay", site]
    assert set(COMPOSE["volumes"]) == set(services)


@pytest.mark.parametrize("name", ["relay", *SITES])
def test_a_service_is_confined_and_starts_a_command_that_exists(name):
    one = COMPOSE["services"][name]
    assert one["user"] == f"{USER}:{USER}"
    assert one["read_only"]
    assert one["cap_drop"] == ["ALL"]
    assert one["security_opt"] == ["no-new-privileges:true"]
    assert one["volumes"][0] == f"{name}:{WORK}"
    command, options = parsed(one["command"])
    kind = "relay" if name == "relay" else "peer"
    assert command == {"relay": "relay", "peer": "peer start"}[kind]
    assert one["image"] == f"peerloom-{kind}:{VERSION}"
    assert one["build"]["target"] == kind
    assert str(options["folder"]) == kind
    assert (ROOT / "deploy" / one["build"]["context"] / one["build"]["dockerfile"]).exists()


@pytest.mark.parametrize(
    ("name", "place"), [("relay", "relay"), *((site, "peer/state/run") for site in SITES)]
)
def test_what_runs_is_told_from_what_hangs(name, place, tmp_path):
    line = COMPOSE["services"][name]["healthcheck"]["test"][1]
    assert judged(line.replace("$$", "$"), tmp_path, place) == (1, 0, 1)


def test_a_relay_is_told_the_founder_by_the_environment():
    words = COMPOSE["services"]["relay"]["command"].split()
    assert words[-2:] == ["--founder", "${FOUNDER:-unknown}"]
    assert words[words.index("--listen") + 1] == "0.0.0.0:7443"
