"""Models: one file per paper, a frozen config for each, and presets by name."""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
