"""Training: one LightningModule for each task, and what a run leaves behind."""
