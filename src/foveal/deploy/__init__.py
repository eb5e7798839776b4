"""What it takes to ship a model, and to know what it costs: clock, memory, origin of a figure."""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
