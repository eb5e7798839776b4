"""Faster forms of a model that exist for inference only; every one is proven to say the same."""
