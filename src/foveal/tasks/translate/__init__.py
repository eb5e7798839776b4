"""Translate: sentences of one language into another."""
