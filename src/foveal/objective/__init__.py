"""What a model is held against: metrics, their intervals, thresholds and calibration. Numbers only: numpy, no torch."""
