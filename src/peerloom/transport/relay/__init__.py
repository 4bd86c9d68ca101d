"""A blind relay and its members' side: two that can only dial out meet there."""

__all__: list[str] = []
