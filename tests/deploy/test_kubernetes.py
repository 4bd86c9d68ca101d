"""The manifests for Kubernetes: one confined pod per site that nobody may call."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.deploy.command_lines import parsed
from tests.deploy.health_checks import judged

ROOT = Path(__file__).parents[2]
MANIFESTS = {
    path.stem: list(yaml.safe_load_all(path.read_text()))
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
}
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
USER = 10001  # as in the image
WORK = "/srv/peerloom"


def of_kind(name, kind):
    (found,) = (one for one in MANIFESTS[name] if one["kind"] == kind)
    return found


def pod(name):
    return of_kind(name, "StatefulSet")["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_pod_is_alone_confined_and_starts_a_command_that_exists(name):
    whole = of_kind(name, "StatefulSet")["spec"]
    assert whole["replicas"] == 1
    (claim,) = whole["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    spec = pod(name)
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == USER
    assert spec["automountServiceAccountToken"] is False
    (main,), (modes,) = spec["containers"], spec["initContainers"]
    for one in (main, modes):
        assert one["image"] == f"peerloom-{name}:{VERSION}"
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"name": claim["metadata"]["name"], "mountPath": WORK} in one["volumeMounts"]
    command, options = parsed(main["args"])
    assert command == {"relay": "relay", "peer": "peer start"}[name]
    assert str(options["folder"]) == name


def test_nobody_may_call_a_site():
    policy = of_kind("peer", "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"] == labels("peer")
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    assert not any(one["kind"] == "Service" for one in MANIFESTS["peer"])


def test_a_relay_is_called_on_the_port_that_it_listens_on_and_calls_nobody():
    policy, service = (of_kind("relay", kind)["spec"] for kind in ("NetworkPolicy", "Service"))
    assert policy["podSelector"]["matchLabels"] == service["selector"] == labels("relay")
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == []
    _, options = parsed(pod("relay")["containers"][0]["args"])
    listens = int(options["listen"][0].rpartition(":")[2])
    ((door,),) = (rule["ports"] for rule in policy["ingress"])
    (port,) = service["ports"]
    assert door["port"] == port["targetPort"] == listens
    site = of_kind("peer", "NetworkPolicy")["spec"]
    leaves = {port["port"] for rule in site["egress"] for port in rule["ports"]}
    assert leaves == {53, listens, port["port"]}


def labels(name):
    return of_kind(name, "StatefulSet")["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_init_container_takes_a_key_back_from_the_group(name, tmp_path):
    key = tmp_path / name / "identity.key"
    check = ["sh", "-c", pod(name)["initContainers"][0]["command"][2]]
    subprocess.run(check, cwd=tmp_path, check=True)  # before the first start there is no folder
    key.parent.mkdir()
    key.touch()
    key.chmod(0o660)
    subprocess.run(check, cwd=tmp_path, check=True)
    assert key.stat().st_mode & 0o777 == 0o600


def typed(manifest):
    """A manifest as kubectl's own types hold it: what they do not know is gone."""
    done = subprocess.run(
        ["kubectl", "set", "image", "--local", "-f", "-", "*=image", "-o", "json"],
        input=yaml.safe_dump(manifest),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def lost(before, after, path=""):
    """The places of a manifest that kubectl did not keep."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{path}.{key}"
            else:
                yield from lost(value, after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        for k, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(one, other, f"{path}[{k}]")
    elif before != after and not path.endswith(".image"):
        yield f"{path}: {before} became {after}"


def test_a_healthy_peer_is_told_from_one_that_hangs(tmp_path):
    line = pod("peer")["containers"][0]["livenessProbe"]["exec"]["command"][2]
    assert judged(line, tmp_path) == (1, 0, 1)


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
@pytest.mark.parametrize("name", MANIFESTS)
def test_kubectl_knows_every_field_of_a_pod(name):
    manifest = of_kind(name, "StatefulSet")
    assert list(lost(manifest, typed(manifest))) == []
    manifest = json.loads(json.dumps(manifest))
    manifest["spec"]["template"]["spec"]["containers"][0]["securityContxt"] = {}
    assert list(lost(manifest, typed(manifest))) == [
        ".spec.template.spec.containers[0].securityContxt"
    ]
