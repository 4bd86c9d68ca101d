"""What rounds need of the process that runs them."""

from .process import ProcessFacts, keep_freed_memory, prepare_process

__all__ = ["ProcessFacts", "keep_freed_memory", "prepare_process"]
