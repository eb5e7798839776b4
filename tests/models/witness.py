"""transformers' image models beside ours, with weights carried over both ways."""

import copy
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import transformers
from safetensors.torch import load_file, save_file

from foveal.deploy.onnx.silence import quiet
from foveal.models.convert_vision import from_transformers, to_transformers


def spread(model, seed=0):
    """Every parameter moved, so that no bias is 0, no gain is 1, and images differ in their logits."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model.eval()


def images(*sides, batch=2):
    return torch.randn(batch, 3, *sides, generator=torch.Generator().manual_seed(3))


def carried(theirs):
    """Our model with the weights of theirs, from memory."""
    return from_transformers(theirs.config.to_dict(), theirs.state_dict())


def from_file(theirs):
    """The same by way of the files that transformers writes."""
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return from_transformers(theirs.config.to_dict(), load_file(Path(folder) / "model.safetensors"))


def given_back(ours):
    """transformers' model with our weights, as from_pretrained opens them."""
    settings, weights = to_transformers(ours)
    with tempfile.TemporaryDirectory() as folder:
        save_file(weights, Path(folder) / "model.safetensors", {"format": "pt"})
        kind = getattr(transformers, settings["architectures"][0])
        config = kind.config_class(**settings)
        config.save_pretrained(folder)
        model, facts = kind.from_pretrained(folder, output_loading_info=True)
    assert not facts["missing_keys"]
    assert not facts["unexpected_keys"]
    return model.eval()


@torch.no_grad()
def apart(ours, theirs, pixels, **named):
    """The largest difference between logits; an error if they do not depend on the image."""
    mine = ours(pixels)
    logits = copy.deepcopy(theirs)(pixels, **named).logits  # Swin remembers the sizes that it was given
    assert logits.std(0).min() > 1e-3, "one answer for every image proves nothing"
    return float((mine - logits).abs().max())


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


@torch.no_grad()
def by_onnx(model, pixels):
    """What onnxruntime makes of an exported graph for a batch of another size than the one that it was made with."""
    with quiet():
        program = torch.onnx.export(
            model, (pixels[:2],), dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True, verbose=False
        )
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (logits,) = session.run(None, {session.get_inputs()[0].name: pixels.numpy()})
    return torch.from_numpy(np.asarray(logits))
