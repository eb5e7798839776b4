"""Training: one LightningModule for each task, and what a run leaves behind."""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
