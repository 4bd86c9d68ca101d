"""An endpoint is a `Transport`: the same methods, and nothing of torch behind them."""

import inspect
import subprocess
import sys

from peerloom.transport import Endpoint, Transport


def test_an_endpoint_is_a_transport():
    for name, member in inspect.getmembers(Transport):
        if name.startswith("_"):
            continue
        ours = getattr(Endpoint, name)
        if inspect.isfunction(member):
            wanted, found = inspect.signature(member), inspect.signature(ours)
            assert list(wanted.parameters) == list(found.parameters), name
            defaults = [p.default for p in wanted.parameters.values()]
            assert defaults == [p.default for p in found.parameters.values()], name
        else:
            assert isinstance(ours, property), name


def test_the_transport_needs_no_torch():
    code = (
        "import sys, peerloom.transport\n"
        "heavy = {'torch', 'polars', 'sklearn', 'scipy', 'networkx', 'pydantic', 'typer'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
