"""What an attention does, measured: mistakes, maps, and what its weights are worth."""
