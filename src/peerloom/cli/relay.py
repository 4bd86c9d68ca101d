"""`peerloom relay`: a place where peers meet that can only dial out. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from .console import tell

__all__ = ["relay_command"]


def relay_command(listen: list[str], folder: Path, founder: str, rate: float | None) -> None:
    """Serve until a signal ends it."""
    from ..transport import read_id, spelled_id
    from ..transport.relay.limits import Limits
    from ..transport.relay.service import RelayService

    limits = Limits(rate=None if rate is None else rate * 1e6)
    service = RelayService(folder, tuple(listen), read_id(founder), limits, tell)
    service.tell("key", "", f"this relay is {spelled_id(service.identity.id)}")
    if service.server.roster is None:
        service.tell(
            "key", "", f"the founder needs its certificate: {service.identity.certificate_file}"
        )
    service.run()
