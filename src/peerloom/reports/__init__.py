"""Reports: from the folders of runs to tables and one page that works without a network."""

from .page import write_report
from .summary import Summary, summary
from .terminal import render

__all__ = ["Summary", "render", "summary", "write_report"]
