"""What a result is worth, in numpy, with intervals."""
