"""Kits: what the founder signed arrives whole, and nothing else arrives at all."""

import contextlib
import hashlib
import json
import tracemalloc
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peerloom.errors import ConfigError, PeerError
from peerloom.transport import Kit, Roster, read_kit, write_kit
from peerloom.transport.founders import Signature
from tests.federation import federation, identity

PAIR = federation(2, [(0, 1)])
TEXT = b"rounds = 3\n"


def signing(data):
    return PAIR.amended(identity(0), file=hashlib.sha256(data).hexdigest())


@pytest.fixture
def kit(tmp_path):
    path = tmp_path / "kit.zip"
    write_kit(path, Kit(signing(TEXT), TEXT), identity(0))
    return path


def contents(path):
    with zipfile.ZipFile(path) as source:
        return {name: source.read(name) for name in source.namelist()}


def pack(path, files, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as target:
        for name, data in files.items():
            target.writestr(name, data)


def refused(path, why=None, founder=PAIR.founder, **more):
    with pytest.raises(PeerError, match=why):
        read_kit(path, founder, **more)


def test_a_kit_carries_roster_and_experiment_and_no_key(kit):
    assert read_kit(kit, PAIR.founder) == Kit(signing_as_read(kit), TEXT)
    files = contents(kit)
    assert sorted(files) == [
        "README.txt", "experiment.toml", "kit.json", "kit.sig", "roster.json",
    ]  # fmt: skip
    assert all(b"PRIVATE" not in data for data in files.values())
    secret = identity(0).key_file.read_bytes()
    with pytest.raises(PeerError, match="private key"):
        write_kit(kit, Kit(signing(secret), secret), identity(0))
    with pytest.raises(PeerError, match="not the founder"):
        write_kit(kit, Kit(PAIR, None), identity(1))
    refused(kit, "signed by .* not by", founder=identity(1).id)


def signing_as_read(kit):
    return Roster.from_bytes(contents(kit)["roster.json"], PAIR.founder)


def test_everything_is_checked_before_anything_is_parsed(kit, monkeypatch):
    """Whatever is wrong, no parser of rosters sees a byte."""
    files = contents(kit)
    monkeypatch.setattr(Roster, "from_bytes", lambda *any: pytest.fail("it was parsed"))
    for name in files:
        for data in (files[name] + b" ", files[name][:-1], b"", bytes(len(files[name]))):
            if (name, data) != ("kit.sig", files[name] + b" "):  # a space there means nothing
                pack(kit, files | {name: data})
                refused(kit)
        pack(kit, {kept: data for kept, data in files.items() if kept != name})
        refused(kit)
    manifest = json.loads(files["kit.json"])
    less = json.dumps(manifest | {"files": {}}).encode()
    for forged in (less, files["kit.json"] + b"\n", files["kit.json"].replace(b":", b": ", 1)):
        pack(kit, files | {"kit.json": forged})
        refused(kit, "signature of .* is wrong")


def signed_list(content, *signers, **changes):
    """The files with a list of their own, signed by these."""
    listed = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in content.items()
        if not name.startswith("kit.")
    }
    manifest = json.dumps({"format": 2, "files": listed} | changes).encode()
    found = [Signature.of(identity(k), "kit", manifest).document() for k in signers]
    return content | {"kit.json": manifest, "kit.sig": json.dumps(found).encode()}


def test_signers_are_counted_by_keys_and_must_be_known(kit):
    files = contents(kit)
    pack(kit, signed_list(files, 0))
    assert read_kit(kit, PAIR.founder).experiment == TEXT
    pack(kit, signed_list(files, 1, 0))
    assert read_kit(kit, PAIR.founder).experiment == TEXT, "another signature does no harm"
    for signers, why in (((0, 0), "by one key"), ((1,), "not by"), ((), "nobody")):
        pack(kit, signed_list(files, *signers))
        refused(kit, why)
    for purpose in ("roster", "join"):
        entry = Signature.of(identity(0), purpose, files["kit.json"]).document()
        pack(kit, files | {"kit.sig": json.dumps([entry]).encode()})
        refused(kit, "is wrong")
    pack(kit, signed_list(files, 1))
    assert read_kit(kit, PAIR.founder, founders=(identity(1).id,)).experiment == TEXT
    refused(kit, "not by", founders=(identity(0).id,))


def test_a_signed_list_that_lies_is_refused(kit):
    files = contents(kit)
    for changes in (
        {"format": 1},
        {"files": {}},
        {"files": {"roster.json": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"../evil": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"roster.json": {"size": -1, "sha256": 0}}},
        {"files": []},
        {"more": 1},
    ):
        pack(kit, signed_list(files, 0, **changes))
        refused(kit)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "identity.key", "a/../../b", "roster.json"]
)
def test_a_kit_cannot_choose_where_it_writes(name, kit):
    expected = (
        pytest.warns(UserWarning, match="Duplicate")
        if name == "roster.json"
        else contextlib.nullcontext()
    )
    with zipfile.ZipFile(kit, "a") as archive, expected:
        archive.writestr(name, b"x")
    refused(kit, "which no kit has")
    assert sorted(path.name for path in kit.parent.iterdir()) == ["kit.zip"]


def test_a_kit_that_swells_is_refused(kit):
    files = contents(kit)
    for name in ("kit.json", "kit.sig"):
        pack(kit, files | {name: b"\0" * (64 << 20)}, zipfile.ZIP_DEFLATED)
        refused(kit, "larger than")
    pack(kit, files | {"experiment.toml": b"\0" * (64 << 20)}, zipfile.ZIP_DEFLATED)
    refused(kit, f"larger than {len(TEXT)} bytes")
    kit.write_bytes(b"PK\x03\x04 nonsense")
    refused(kit, "no readable kit")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_kit_that_unpacks_whole_whatever_is_asked_for_is_not_unpacked(kit, method):
    pack(kit, contents(kit) | {"kit.sig": bytes(64 << 20)}, method)
    assert kit.stat().st_size < 65536, "the archive itself is small"
    tracemalloc.start()
    try:
        refused(kit, "no readable kit")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 << 20


@pytest.mark.parametrize(("method", "step"), [(zipfile.ZIP_STORED, 1), (zipfile.ZIP_DEFLATED, 2)])
def test_a_kit_with_any_byte_changed_is_the_same_or_refused(method, step, kit):
    files = contents(kit)
    pack(kit, files, method)
    whole, same = kit.read_bytes(), read_kit(kit, PAIR.founder)
    refusals = 0
    for place in range(0, len(whole), step):
        changed = bytearray(whole)
        changed[place] ^= (0x01, 0xFF)[place % 2]
        kit.write_bytes(changed)
        try:
            assert read_kit(kit, PAIR.founder) == same
        except PeerError:
            refusals += 1
    assert refusals > 0.8 * len(whole) / step, "most bytes mean something"


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["kit.json", "kit.sig", "roster.json", "experiment.toml"]),
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=8,
    ).map(lambda found: json.dumps(found).encode()),
)
def test_any_content_is_refused_in_one_way(kit, name, data):
    files = signed_list(contents(kit) | {name: data}, 0)
    if name.startswith("kit."):
        files[name] = data
    pack(kit, files)
    with pytest.raises((PeerError, ConfigError)):
        read_kit(kit, PAIR.founder)
    write_kit(kit, Kit(signing(TEXT), TEXT), identity(0))
