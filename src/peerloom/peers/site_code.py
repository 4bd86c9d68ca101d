"""Which code an experiment file may name at this site, as the site's `site.toml` says.

    [code.allow]
    "hearts:net" = "SHA-256 of the file that holds the module"

No kit brings such a file. A module is looked for in the peer's folder `code`, then among installed
packages; never in the working directory, nor is what it imports. It is found without importing
anything, and what runs of a file in `code` are the very bytes that were compared with the hash.
Such a file is whole by itself, or imports installed packages.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import tomli_w

from ..errors import ConfigError
from ..transport.files import write_whole

__all__ = ["SiteCode"]

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", flags=re.ASCII)


class _Found(NamedTuple):
    """The file of a module, and its bytes."""

    file: Path
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


class SiteCode:
    """Loads code for one peer: names that its site allowed, from files unchanged since then."""

    def __init__(self, folder: Path) -> None:
        self._file, self._code = folder / "site.toml", folder / "code"

    @property
    def allowed(self) -> dict[str, str]:
        """The names, each with the SHA-256 of its file."""
        code = self._table().get("code", {})
        allow = code.get("allow", {}) if isinstance(code, dict) else None
        if not isinstance(allow, dict) or not all(
            isinstance(value, str) for value in allow.values()
        ):
            raise ConfigError(
                f"{self._file}: code.allow must be a table of names with the SHA-256 of their "
                "files."
            )
        return allow

    def allow(self, name: str) -> tuple[Path, str]:
        """Allow a name, as its file is now; that file and its hash."""
        found = self._find(name)
        self._write(self.allowed | {name: found.sha256})
        return found.file, found.sha256

    def forbid(self, name: str) -> None:
        """Take a permission back."""
        allowed = self.allowed
        if name not in allowed:
            raise ConfigError(
                f"{self._file} does not allow '{name}'. It allows: "
                f"{', '.join(allowed) or 'nothing'}."
            )
        self._write({other: value for other, value in allowed.items() if other != name})

    def __call__(self, name: str) -> Any:
        """Load what an experiment file names, if the site allows it."""
        module, _, attribute = name.partition(":")
        return getattr(self._load(module, self.check(name)), attribute)

    def check(self, name: str) -> _Found:
        """The file of a name; refuses one that is not allowed, or has changed since it was."""
        if name not in (allowed := self.allowed):
            raise ConfigError(
                f"the experiment wants to run code of its own, '{name}', which this site does not "
                f"allow. Read that code; if you trust it, put it into {self._code} and say: "
                f"peerloom peer allow {name}"
            )
        found = self._find(name)
        if found.sha256 != allowed[name]:
            raise ConfigError(
                f"{found.file} has changed since this site allowed '{name}' (SHA-256 "
                f"{found.sha256[:16]}... in place of {allowed[name][:16]}...). Read it again; if "
                f"you trust it, say: peerloom peer allow {name}"
            )
        return found

    def _load(self, module: str, found: _Found) -> ModuleType:
        if found.file.parent != self._code:  # installed: its package is imported as usual
            with _without_working_directory():
                return import_module(module)
        # A name with a dot, such as os.path, may be that of a loaded module no finder knows.
        taken = module in sys.builtin_module_names or module == "__main__" or "." in module
        if taken or _installed(module) is not None:
            raise ConfigError(
                f"{found.file} has the name of an installed module. Give it another, at every site."
            )
        loaded = module_from_spec(ModuleSpec(module, None, origin=str(found.file)))
        loaded.__file__ = str(found.file)
        sys.modules[module] = loaded
        try:
            with _without_working_directory():
                exec(compile(found.data, found.file, "exec"), vars(loaded))  # noqa: S102  (the site allowed these very bytes)
        except BaseException:
            del sys.modules[module]
            raise
        return loaded

    def _find(self, name: str) -> _Found:
        """The file of a name's module. Finders look at folders alone: nothing is imported."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"'{name}' names no code. Write module:Name, such as hearts:net.")
        module = name.partition(":")[0]
        own = self._code / f"{module}.py"
        file = own if own.is_file() else _installed(module)
        if file is None:
            raise ConfigError(
                f"'{name}': there is neither {own} nor an installed module '{module}'."
            )
        return _Found(file, file.read_bytes())

    def _table(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{self._file} cannot be read: {error}.") from error

    def _write(self, allowed: dict[str, str]) -> None:
        table = self._table()
        table["code"] = {**table.get("code", {}), "allow": allowed}
        # It may hold the password of the site's proxy.
        write_whole(self._file, tomli_w.dumps(table).encode(), mode=0o600)


def _elsewhere() -> list[str]:
    """Return `sys.path` without the working directory: anybody may have put a file there."""
    here = Path.cwd()
    return [path for path in sys.path if path and Path(path).resolve() != here]


@contextmanager
def _without_working_directory() -> Iterator[None]:
    before, sys.path = sys.path, _elsewhere()
    try:
        yield
    finally:
        sys.path = before


def _installed(module: str) -> Path | None:
    paths, spec = _elsewhere(), None
    for depth in range(len(parts := module.split("."))):
        spec = PathFinder.find_spec(".".join(parts[: depth + 1]), paths)
        if spec is None:
            return None
        paths = list(spec.submodule_search_locations or [])
    return Path(spec.origin) if spec and spec.origin and spec.has_location else None
