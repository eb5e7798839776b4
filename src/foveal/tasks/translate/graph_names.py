"""What inputs and outputs are called in an exported translator: graph.py says what they hold.

No torch here: the runtime reads this, too.

The names in the file are those of the first exported files, so that these still open.
"""

SOURCE, TOKENS, TOP_K, BANNED, LENGTHS = "source", "said", "top", "banned", "lengths"
LOG_P, NEXT, ENDS = "likely", "word", "ends"
# {}: the layer
SOURCE_KEYS, SOURCE_VALUES = "source_keys.{}", "source_values.{}"
PAST_KEYS, PAST_VALUES = "said_keys.{}", "said_values.{}"
KEYS, VALUES = "keys.{}", "values.{}"
