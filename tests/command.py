"""The command line, as a process of its own."""

import os
import subprocess
import sys


def peerloom(*words, cwd, more=None, **changes):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"} | (more or {})
    command = [sys.executable, "-W", "error", "-m", "peerloom", *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, **changes
    )
