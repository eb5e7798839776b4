"""Files as they should not be: models with edited cards, pipes, folders of somebody else's."""

import json
import os

from foveal.runtime.onnx_names import CARD


def with_card(change, source="model.safetensors", to="bad.safetensors"):
    """Makes a copy of a model file whose card was changed by this function."""

    def make(place):
        import torch
        from safetensors import safe_open
        from safetensors.torch import save_file

        with safe_open(place / source, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — no dict
            card = json.loads(file.metadata()[CARD])
        card = change(card) or card
        save_file(
            {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()},
            place / to,
            {CARD: json.dumps(card)},
        )

    return make


def with_weights(value, source="model.safetensors", to="bad.safetensors"):
    """Makes a copy of a model file with this value in every tensor of numbers."""

    def make(place):
        from safetensors import safe_open
        from safetensors.torch import save_file

        with safe_open(place / source, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — no dict
            facts = file.metadata()
        for tensor in tensors.values():
            if tensor.is_floating_point():
                tensor.view(-1)[0] = value
        save_file(tensors, place / to, facts)

    return make


def with_onnx_card(change, source="model.onnx", to="bad.onnx"):
    """The same of an exported file."""

    def make(place):
        import onnx

        model = onnx.load(place / source)
        for entry in model.metadata_props:
            if entry.key == CARD:
                card = json.loads(entry.value)
                entry.value = json.dumps(change(card) or card)
        onnx.save(model, place / to)

    return make


def set_field(**fields):
    return lambda card: card.update(fields)


def set_config(**fields):
    return lambda card: card["config"].update(fields)


def cut(name, to, share=0.5):
    """Makes a copy of a file that ends early."""

    def make(place):
        whole = (place / name).read_bytes()
        (place / to).write_bytes(whole[: int(len(whole) * share)])

    return make


def pipe(name):
    return lambda place: os.mkfifo(place / name)


def file(name, content=b""):
    """Makes a file with this content, and the folders on the way."""

    def make(place):
        path = place / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return make


def together(*makers):
    def make(place):
        for one in makers:
            one(place)

    return make
