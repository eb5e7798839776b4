"""Models: one file per paper, a frozen config for each, and presets by name."""
