"""How a site dials out, as its `site.toml`, the environment and the command line say.

    [network]
    proxy = "http://user:password@proxy.example:3128"
    wrapped = true

The command line comes first, then the file, then the environment. A password on a command line
can be read by every user of the machine, so none is taken from there.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..transport.files import refuse_loose_permissions
from ..transport.outbound import PROXY_VARIABLE, Outbound, Proxy

__all__ = ["outbound_of"]


def outbound_of(folder: Path, proxy: str = "", wrapped: bool = False) -> Outbound:
    """How the peer of this folder dials out; `proxy` and `wrapped` are the command line's."""
    file = folder / "site.toml"
    table = _network(file)
    written = table.get("proxy", "")
    if not isinstance(written, str) or not isinstance(table.get("wrapped", False), bool):
        raise ConfigError(f'{file}: write [network] proxy = "http://HOST:PORT", wrapped = true.')
    if proxy:
        given = Proxy.read(proxy)
        if given.login:
            raise ConfigError(
                "--proxy: a password on the command line can be read by every user of this "
                f"machine. Write it into {file} ([network] proxy) or into {PROXY_VARIABLE}."
            )
        chosen: Proxy | None = given
    elif written:
        chosen = Proxy.read(written)
        if chosen.login:
            refuse_loose_permissions(file)
    else:
        chosen = Proxy.of_environment()
    return Outbound(chosen, wrapped or table.get("wrapped", False))


def _network(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("network", {})
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from error
    unknown = set(table) - {"proxy", "wrapped"} if isinstance(table, dict) else {"network"}
    if unknown:
        raise ConfigError(f"{file}: [network] does not know {', '.join(sorted(unknown))}.")
    return dict(table)
