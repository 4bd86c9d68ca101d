"""How a site dials out: directly, or through its HTTP proxy."""

from __future__ import annotations

import base64
import os
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from ..errors import ConfigError
from .roster import parse_address

__all__ = ["PROXY_VARIABLE", "Outbound", "Proxy", "WayError"]

PROXY_VARIABLE = "PEERLOOM_PROXY"
_LONGEST_ANSWER = 8192  # bytes of a proxy's answer


class WayError(ConnectionError):
    """There is no way to a peer now; `why` is a word of `reasons`."""

    def __init__(self, why: str, detail: str = "") -> None:
        super().__init__(f"{why}{f': {detail}' if detail else ''}")
        self.why = why


@dataclass(frozen=True)
class Proxy:
    """A site's HTTP proxy. Its login is in no text of this class, so that no log can show it."""

    host: str
    port: int
    login: str = field(default="", repr=False)
    """User and password as 'user:password'; empty if the proxy asks for none."""

    @classmethod
    def read(cls, text: str) -> Proxy:
        """The proxy of 'http://user:password@host:port' or 'host:port'. Refuses anything else."""
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port or parts.scheme != "http" or parts.path not in ("", "/"):
            # The text may hold a password, so it is not repeated.
            raise ConfigError(
                "This is no proxy. Write http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT in "
                f"site.toml or in the environment ({PROXY_VARIABLE})."
            )
        login = (
            f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
        )
        return cls(host, port, login)

    @classmethod
    def of_environment(cls) -> Proxy | None:
        """The proxy that the environment names, if it does."""
        text = os.environ.get(PROXY_VARIABLE, "")
        return cls.read(text) if text else None

    def connect(self, host: str, port: int, late: float) -> socket.socket:
        """A connection through the proxy (HTTP CONNECT)."""
        sock = socket.create_connection((self.host, self.port), timeout=_left(late))
        try:
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
            if self.login:
                coded = base64.b64encode(self.login.encode()).decode()
                lines.append(f"Proxy-Authorization: Basic {coded}")
            sock.sendall("\r\n".join([*lines, "", ""]).encode())
            _check_answer(_answer(sock, late))
        except BaseException:
            sock.close()
            raise
        return sock


@dataclass(frozen=True)
class Outbound:
    """What a site says about dialling out."""

    proxy: Proxy | None = None
    wrapped: bool = False
    """Whether streams through a relay run inside TLS, for firewalls that let nothing else pass."""

    def connect(self, addresses: tuple[str, ...], late: float) -> socket.socket:
        """A socket connected with the first address that answers."""
        failure: OSError = WayError("no_address")
        for address in addresses:
            host, port = parse_address(address)
            try:
                if self.proxy is not None:
                    return self.proxy.connect(host, port, late)
                return socket.create_connection((host, port), timeout=_left(late))
            except OSError as error:
                failure = error
        raise failure


def _left(late: float) -> float:
    left = late - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time is over")
    return left


def _answer(sock: socket.socket, late: float) -> bytes:
    """The head of the proxy's answer, read byte by byte: what follows belongs to the tunnel."""
    head = bytearray()
    while not head.endswith(b"\r\n\r\n"):
        sock.settimeout(_left(late))
        byte = sock.recv(1)
        if not byte:
            raise WayError("proxy", "it closed the connection")
        head += byte
        if len(head) > _LONGEST_ANSWER:
            raise WayError("proxy", "its answer is too long")
    return bytes(head)


def _check_answer(head: bytes) -> None:
    words = head.split(None, 2)
    code = words[1].decode("ascii", "replace") if len(words) > 1 else ""
    if not code.isdigit() or not words[0].startswith(b"HTTP/1."):
        raise WayError("proxy", "it does not speak HTTP")
    if code == "407":
        raise WayError("proxy_login")
    if not code.startswith("2"):
        raise WayError("proxy", f"it answers {code[:3]}")
