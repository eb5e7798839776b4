"""What things are called in an exported file. No torch here: the runtime reads this, too."""

CARD, PROOF = "foveal", "foveal.proof"  # in the metadata
INPUT = "frames"
OUTPUTS = ("probability", "found", "logits")
LOOKED = "attention"
EXPORTED = ".onnx"
TORCH = (".pt", ".pt2")  # TorchScript and torch.export
