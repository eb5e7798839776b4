"""Write `__init__.pyi` of every folder with a lazy door, so that type checkers see its names: `make stubs`."""

from pathlib import Path

import foveal
from foveal.lazy import stub

HOME = Path(foveal.__file__).parent
for room in ("layers", "position"):
    (HOME / room / "__init__.pyi").write_text(stub(f"foveal.{room}", HOME / room), encoding="utf-8")
