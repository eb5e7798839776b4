"""Readers for the field's formats, and sets that need no download."""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
