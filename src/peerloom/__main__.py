"""`python -m peerloom` is the command `peerloom`."""

from .cli import main

if __name__ == "__main__":
    main()
