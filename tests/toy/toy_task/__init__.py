"""A task in a package of its own: read the value that a disc in an image shows."""
