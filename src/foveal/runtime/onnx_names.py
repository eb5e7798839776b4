"""What things are called in an exported file. No torch here: the runtime reads this, too."""

CARD, PROOF = "foveal", "foveal.proof"  # in the metadata
INPUT = "frames"
OUTPUTS = ("probability", "found", "logits")
LOOKED = "attention"
EXPORTED = ".onnx"
TORCH = (".pt", ".pt2")  # TorchScript and torch.export

# Of a model that translates: deploy/translator.py says what they hold.
SOURCE, SAID, TOP, BANNED, LENGTHS = "source", "said", "top", "banned", "lengths"
SOURCE_KEYS, SOURCE_VALUES, SAID_KEYS, SAID_VALUES = "source_keys.{}", "source_values.{}", "said_keys.{}", "said_values.{}"  # of a layer
LIKELY, WORD, ENDS, KEYS, VALUES = "likely", "word", "ends", "keys.{}", "values.{}"
