"""`python -m peerloom` is the command `peerloom`."""

import sys
from pathlib import Path

from .cli import main

if __name__ == "__main__":
    # Python puts the working directory first; which code of it may run, the command decides.
    if Path.cwd() == Path(sys.path[0]) and not Path(__file__).is_relative_to(sys.path[0]):
        del sys.path[0]
    main()
