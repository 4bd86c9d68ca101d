"""Faults without end: runs of real peers under seeded faults, and a verdict on each of them."""

__all__: list[str] = []
