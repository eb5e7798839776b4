"""The task `segment`: which class each pixel of an image shows."""
