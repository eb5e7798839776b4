"""Tasks: one folder each, found by its folder. task.py is the protocol between them and the stages."""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
