"""Parameters around core, for tokens. One file per mechanism; `foveal.layers.MultiHead` is found by its file."""

from foveal.lazy import door

__getattr__, __dir__ = door(__name__, "layer")
