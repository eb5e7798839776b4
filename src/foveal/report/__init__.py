"""What a person looks at: tables, plots, pictures and pages that every task fills."""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
