"""Readers for the field's formats, and sets that need no download."""
