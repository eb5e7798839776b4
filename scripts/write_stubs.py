"""Write the stub files of every lazy door, so that type checkers see its names: `make stubs`."""

from pathlib import Path

import foveal
from foveal.lazy import stubs

for file, text in stubs(Path(foveal.__file__).parent).items():
    file.write_text(text, encoding="utf-8")
