"""Health checks of containers, run as the container's shell would."""

import os
import subprocess
import time


def judged(line, folder, place="peer/state/run"):
    """What a check says before the first start, of a status that is new, and of an old one."""
    status = folder / place / "status.json"
    found = [_code(line, folder)]
    status.parent.mkdir(parents=True)
    status.write_text("{}")
    found.append(_code(line, folder))
    long_ago = time.time() - 600
    os.utime(status, (long_ago, long_ago))
    return (*found, _code(line, folder))


def _code(line, folder):
    done = subprocess.run(["sh", "-c", line], cwd=folder, stderr=subprocess.DEVNULL, check=False)
    return done.returncode
