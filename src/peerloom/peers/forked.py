"""What peers are forked with. Only the server that they are forked from loads this.

Each collection of garbage writes to all objects that it looks at, and what a process writes to is
no longer shared. Frozen, what was loaded stays so: 40 MB a peer.
"""

from __future__ import annotations

import gc

from . import start

__all__ = ["start"]

gc.collect()
gc.freeze()
