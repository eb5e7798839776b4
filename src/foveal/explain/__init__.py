"""What an attention does, measured: mistakes, maps, and what its weights are worth."""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
