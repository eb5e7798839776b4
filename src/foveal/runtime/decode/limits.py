"""What a search may be asked for at most. No numpy here: the options of a command are listed without it."""

LARGEST_BEAM = 1000
STEEPEST = 10  # length penalty: the score of a long sentence must stay a number
MAX_SOURCE = 1024  # tokens of a source, its mark included: attention on more would take memory by their square
