"""Scenarios that break machines, networks, disks and members, and measure the effect.

This room is not part of the package that is installed. It uses the package as a site would,
through its commands and its public names, and `make chaos` runs it.
"""

__all__: list[str] = []
