"""`python -m foveal` is the command `foveal`."""

import sys

from foveal.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
