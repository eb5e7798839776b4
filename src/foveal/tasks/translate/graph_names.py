"""What inputs and outputs are called in an exported translator: graph.py says what they hold.

No torch here: the runtime reads this, too.

The names in the file are those of the first exported files, so that these still open.
"""

SOURCE, TOKENS, TOP_K, BANNED, LENGTHS = "source", "said", "top", "banned", "lengths"
SOURCE_KEYS, SOURCE_VALUES, PAST_KEYS, PAST_VALUES = (
    "source_keys.{}",
    "source_values.{}",
    "said_keys.{}",
    "said_values.{}",
)  # per layer
LOG_P, NEXT, ENDS, KEYS, VALUES = "likely", "word", "ends", "keys.{}", "values.{}"
