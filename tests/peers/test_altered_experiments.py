"""Altered kits and files, and code that was not allowed: none of it is ever executed."""

import hashlib
import json
import sys
import zipfile

import pytest

from peerloom.errors import ConfigError, PeerError
from peerloom.peers.experiments import only_experiment, signed_experiment
from peerloom.peers.federation import found_on_this_machine
from peerloom.peers.site_code import SiteCode
from peerloom.transport import Identity, Kit, Roster, read_kit, write_kit
from peerloom.transport.founders import Signature
from tests.command import peerloom, run_here

FILE = """
rounds = 3
[graph]
name = "ring"
clients = 3
[problem]
name = "Quadratic"
A = [[[1.0]], [[1.0]], [[1.0]]]
b = [[1.0], [2.0], [3.0]]
[algorithm]
name = "DSpodFL"
lr = 0.1
"""
EVIL = FILE.replace('name = "Quadratic"', 'name = "evil_module:strike"')
MODULE = (
    "from pathlib import Path\n"
    "Path({mark!r}).write_text('struck')\n"
    "def strike(**kwargs): raise SystemExit(99)\n"
)


class Site:
    """The second of three sites, beside a module that leaves a mark when it is imported."""

    def __init__(self, root):
        self.root, self.file, self.mark = root, root / "three.toml", root / "mark"
        self.file.write_text(FILE)
        self.homes = found_on_this_machine(only_experiment(self.file), root / "peers", self.file)
        self.founder, self.home = self.homes[0], self.homes[1]
        self.module = MODULE.format(mark=str(self.mark))
        (root / "evil_module.py").write_text(self.module)

    def sign(self, text):
        """The founder signs this text; the site hears of it."""
        self.file.write_text(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.home = self.home.trust(self.home.roster.amended(self.founder.identity, file=digest))


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the worst place to be in: the module lies here
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Site(tmp_path)
    yield made
    assert not made.mark.exists(), "the module was imported"
    sys.modules.pop("evil_module", None)


def command(monkeypatch, capsys, *words):
    code, _, said = run_here(monkeypatch, capsys, "peer", *words)
    return code, said


def contents(kit):
    with zipfile.ZipFile(kit) as source:
        return {name: source.read(name) for name in source.namelist()}


def pack(kit, files):
    with zipfile.ZipFile(kit, "w") as target:
        for name, data in files.items():
            target.writestr(name, data)


def relisted(files):
    """The kit's list, made anew for changed files."""
    listed = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
        if not name.startswith("kit.")
    }
    return json.dumps({"format": 2, "files": listed}).encode()


def signature(identity, manifest):
    return json.dumps([Signature.of(identity, "kit", manifest).document()]).encode()


def evil_kits(site, files):
    """Kits that would bring other code to the site, by what was done to them."""
    evil = files | {"experiment.toml": EVIL.encode()}
    manifest = relisted(evil)
    thief = Identity.create(site.root / "thief")
    document = json.loads(files["roster.json"])
    document["roster"]["file"] = hashlib.sha256(EVIL.encode()).hexdigest()
    roster = evil | {"roster.json": json.dumps(document).encode()}
    foreign = Roster.found(thief, "thief").amended(
        thief, file=hashlib.sha256(EVIL.encode()).hexdigest()
    )
    member = site.home.identity
    yield "another experiment", evil
    yield "another list", evil | {"kit.json": manifest}
    yield (
        "signed by a thief",
        evil | {"kit.json": manifest, "kit.sig": signature(thief, manifest)},
    )
    yield (
        "signed by a member",
        evil | {"kit.json": manifest, "kit.sig": signature(member, manifest)},
    )
    yield "another roster", roster | {"kit.json": relisted(roster)}
    yield (
        "a whole federation of a thief",
        (theirs := evil | {"roster.json": foreign.to_bytes()})
        | {"kit.json": relisted(theirs), "kit.sig": signature(thief, relisted(theirs))},
    )
    yield "no list", {name: data for name, data in evil.items() if name != "kit.json"}
    yield "no signature", {name: data for name, data in evil.items() if name != "kit.sig"}
    yield "no kit at all", {"roster.json": files["roster.json"], "experiment.toml": EVIL.encode()}
    yield "a module beside it", files | {"evil_module.py": site.module.encode()}
    yield (
        "a policy beside it",
        files | {"site.toml": b'[code]\nallow = {"evil_module:strike" = ""}'},
    )


def test_an_altered_kit_writes_nothing_and_runs_nothing(site, monkeypatch, capsys):
    kit = site.root / "kit.zip"
    write_kit(kit, Kit(site.home.roster, FILE.encode()), site.founder.identity)
    original = contents(kit)
    before = {path: path.read_bytes() for path in site.home.folder.rglob("*") if path.is_file()}
    parsed = []
    monkeypatch.setattr("peerloom.config.parse", lambda *any: parsed.append(any))
    tried = 0
    for what, files in evil_kits(site, original):
        pack(kit, files)
        code, said = command(monkeypatch, capsys, "kit", "open", kit, "--folder", site.home.folder)
        assert code == 5, (what, said)
        now = {path: path.read_bytes() for path in site.home.folder.rglob("*") if path.is_file()}
        assert now == before, what
        tried += 1
    assert tried == 11
    assert not parsed
    pack(kit, original)
    code, said = command(monkeypatch, capsys, "kit", "open", kit, "--folder", site.home.folder)
    assert code == 0
    assert (site.home.folder / "experiment.toml").read_text() == FILE


def test_an_older_kit_does_not_bring_an_older_experiment_back(site, monkeypatch, capsys):
    """A run that began with it names it, so that a start would go on with that run."""
    old, new = site.root / "old.zip", site.root / "new.zip"
    write_kit(old, Kit(site.home.roster, FILE.encode()), site.founder.identity)
    later = FILE.replace("rounds = 3", "rounds = 4")
    site.sign(later)
    write_kit(new, Kit(site.home.roster, later.encode()), site.founder.identity)
    opening = ("kit", "open", "--folder", site.home.folder)
    assert command(monkeypatch, capsys, *opening, new)[0] == 0
    code, said = command(monkeypatch, capsys, *opening, old)
    assert (code, "Nothing of it was read" in said) == (ConfigError.exit_code, True), said
    assert (site.home.folder / "experiment.toml").read_text() == later


def test_a_founder_that_lies_in_a_kit_runs_nothing(site):
    """Its signature opens the kit, but the roster does not name that file."""
    kit = site.root / "kit.zip"
    write_kit(kit, Kit(site.home.roster, FILE.encode()), site.founder.identity)
    evil = contents(kit) | {"experiment.toml": EVIL.encode()}
    manifest = relisted(evil)
    pack(
        kit,
        evil | {"kit.json": manifest, "kit.sig": signature(site.founder.identity, manifest)},
    )
    with pytest.raises(ConfigError, match="Nothing of it was read"):
        read_kit(kit, site.home.founder)


def test_no_kit_is_made_of_a_file_that_nobody_signed(site):
    with pytest.raises(ConfigError, match="The founder signed"):
        Kit(site.home.roster, EVIL.encode())
    unsigned = Roster.found(site.founder.identity, "a")
    with pytest.raises(ConfigError, match="roster graph FILE"):
        Kit(unsigned, FILE.encode())


@pytest.mark.parametrize("text", [EVIL, FILE + "\n", FILE.replace("0.1", "0.2"), "\0", ""])
def test_start_compares_bytes_before_it_reads_them(site, monkeypatch, capsys, text):
    site.file.write_text(text)
    monkeypatch.setattr(
        "peerloom.peers.experiments.parse", lambda *any: pytest.fail("it was parsed")
    )
    monkeypatch.setattr("signal.signal", lambda *any: None)
    code, said = command(monkeypatch, capsys, "start", site.file, "--folder", site.home.folder)
    assert code == 2
    assert "it was changed, or is another one" in said


def test_a_stripped_hash_is_no_roster(site):
    document = json.loads((site.home.folder / "roster.json").read_bytes())
    document["roster"]["file"] = ""
    with pytest.raises(PeerError, match="signature"):
        Roster.from_bytes(json.dumps(document).encode(), site.home.founder)
    del document["roster"]["file"]
    with pytest.raises(PeerError, match="no roster"):
        Roster.from_bytes(json.dumps(document).encode(), site.home.founder)
    for wrong in (0, "0" * 63, "G" * 64, 7):
        document["roster"]["file"] = wrong
        with pytest.raises(PeerError, match="signature"):  # judged before any field
            Roster.from_bytes(json.dumps(document).encode(), site.home.founder)


def test_signed_code_runs_only_where_the_site_allows_it(site):
    """Even the founder cannot run code at a site."""
    site.sign(EVIL)
    policy = SiteCode(site.home.folder)
    with pytest.raises(ConfigError, match="peerloom peer allow evil_module:strike"):
        signed_experiment(site.home, site.file, policy)
    with pytest.raises(ConfigError, match="nor an installed module"):
        # The working directory is not looked at, on the path or not.
        policy.allow("evil_module:strike")


LOOKED_FOR = ("cuda", "pynvml", "torchcomms", "dill", "numexpr", "helper")


def test_no_file_of_the_working_directory_runs_in_a_command_of_a_site(site, tmp_path):
    """Libraries look for modules that are not installed; anybody may have put such a file here."""
    site.sign(FILE)
    code = site.home.folder / "code"
    code.mkdir()
    (code / "own.py").write_text("import helper\n")
    for name in LOOKED_FOR:
        (tmp_path / f"{name}.py").write_text("import os\nos.write(2, b'it ran')\n")
    at = ("--folder", site.home.folder)
    commands = [
        ("peer", "doctor", *at), ("peer", "roster", "graph", site.file, *at),
        ("peer", "allow", "own:net", *at), ("peer", "start", site.file, *at, "--wait", "0.1"),
        ("relay", "--help"),
    ]  # fmt: skip
    for words in commands:
        ended = peerloom(*words, cwd=tmp_path, timeout=60)
        assert "it ran" not in ended.stderr + ended.stdout, words
        assert "Traceback" not in ended.stderr
    with pytest.raises(ImportError, match="helper"):  # on the path here, but not for this code
        SiteCode(site.home.folder)("own:net")


def test_code_that_changed_after_it_was_allowed_is_refused(site):
    site.sign(EVIL)
    policy, code = SiteCode(site.home.folder), site.home.folder / "code"
    code.mkdir()
    (code / "evil_module.py").write_text(
        "def strike(A, b): raise RuntimeError('the allowed one')\n"
    )
    policy.allow("evil_module:strike")
    with pytest.raises(ConfigError, match="the allowed one"):
        signed_experiment(site.home, site.file, policy)
    (code / "evil_module.py").write_text(site.module)
    with pytest.raises(ConfigError, match="has changed since this site allowed"):
        signed_experiment(site.home, site.file, policy)
    policy.forbid("evil_module:strike")
    assert policy.allowed == {}


def test_allowing_imports_nothing(site, monkeypatch, capsys):
    code = site.home.folder / "code"
    code.mkdir()
    (code / "evil_module.py").write_text(site.module)
    assert (
        command(monkeypatch, capsys, "allow", "evil_module:strike", "--folder", site.home.folder)[0]
        == 0
    )
    digest = hashlib.sha256(site.module.encode()).hexdigest()
    assert SiteCode(site.home.folder).allowed == {"evil_module:strike": digest}


@pytest.mark.parametrize(
    "name", ["strike", "a:b:c", "../evil:strike", "evil-module:strike", "os:", ":strike", "a/b:c"]
)
def test_what_is_no_name_of_code_cannot_be_allowed(site, name):
    with pytest.raises(ConfigError, match="names no code"):
        SiteCode(site.home.folder).allow(name)


def test_code_in_the_folder_cannot_take_the_place_of_an_installed_module(site):
    code = site.home.folder / "code"
    code.mkdir()
    (code / "tomli_w.py").write_text(site.module)
    policy = SiteCode(site.home.folder)
    policy.allow("tomli_w:dumps")
    with pytest.raises(ConfigError, match="name of an installed module"):
        policy("tomli_w:dumps")
    policy.allow("json.decoder:JSONDecoder")
    assert policy("json.decoder:JSONDecoder") is json.decoder.JSONDecoder


def test_a_run_that_began_goes_on_after_the_founder_signed_the_next(site):
    began = site.home.state / "run"
    began.mkdir(parents=True)
    (began / "began.json").write_bytes(site.home.roster.to_bytes())
    first = site.file.read_bytes()
    site.sign(FILE.replace("rounds = 3", "rounds = 4"))
    site.file.write_bytes(first)
    assert signed_experiment(site.home, site.file, SiteCode(site.home.folder)).rounds == 3
