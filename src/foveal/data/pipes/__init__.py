"""Pipe interiors as the camera of an inspection robot sees them, rendered from a seed: images with their findings,
and no download.
"""

from foveal.data.pipes.render import KINDS, Finding, Frame, render
from foveal.data.pipes.sheet import contact_sheet

__all__ = ["KINDS", "Finding", "Frame", "contact_sheet", "render"]
