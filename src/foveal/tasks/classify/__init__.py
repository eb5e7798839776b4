"""Classify: which classes an image shows, one label or several."""
