"""Models: one file a paper, a frozen config for each, and presets by name."""
