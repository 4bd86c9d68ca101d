"""What needs Flower is collected only where it is installed: see `tests/flower_environments.py`."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("flwr") else ["in_flower/*"]
