"""`foveal convert MODEL --to torch|marian|transformers --out PATH`, and `--from`: weights for others' code,
and theirs for ours.

A Transformer goes to torch and to Marian; a ViT, a Swin and a PVT go to transformers' models of these names. Of
torch.nn.Transformer a .safetensors file, whose header says what the weights do not (heads, norm, marks) under the
name `transformer`; a file that others wrote needs --config, a JSON file with these fields. Of Marian and of image
models a folder as transformers writes it, config.json and model.safetensors; of image models preprocessor_config.json,
too. A vocabulary is not carried over: neither torch nor Marian has it in these files.
"""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from foveal.app.command.flags import expect_not_input
from foveal.atomic import expect_folder, write_atomic
from foveal.errors import FovealError, expect, expect_plain_file, reading, unknown
from foveal.file_names import utf8_name

if TYPE_CHECKING:
    from torch import Tensor

    from foveal.models.transformer import Transformer, TransformerConfig
    from foveal.runtime.card import ImageCard
    from foveal.tasks.model import Model

KINDS = ("torch", "marian", "transformers")
FOLDERS = ("marian", "transformers")  # these are folders, as transformers writes them
HEADER = "transformer"
SETTINGS, WEIGHTS, PIXELS = "config.json", "model.safetensors", "preprocessor_config.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = "|".join(KINDS)
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="with --to: a model of foveal's, a file or a run's folder; with --from: theirs",
    )
    parser.add_argument(
        "--to", metavar=kinds, help="carry foveal's weights over to these; without it, --from is needed"
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar=kinds,
        help="carry their weights over to foveal; without it, --to is needed",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="with --from torch: the config of the model in JSON, such as heads (default: what the file's header says)",
    )
    parser.add_argument(
        "--out",
        metavar="PATH",
        type=Path,
        required=True,
        help="the file to write, or the folder for --to marian and transformers",
    )


def run(args: argparse.Namespace) -> int:
    expect((args.to is None) != (args.source is None), "convert", "--to or --from", "both" if args.to else "neither")
    kind = args.to or args.source
    if kind not in KINDS:
        raise unknown("kind of weights", kind, KINDS)
    expect(args.config is None or args.source == "torch", "--config", "to stand with --from torch", f"it with {kind}")
    folder = args.out if args.to in FOLDERS else None
    expect_not_input(args.out, [args.model, Path(args.model) / WEIGHTS, args.config])
    empty = folder is None or not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    expect(empty, "--out", "a new or empty folder", f"{args.out}, which has files in it", "choose another name")
    expect_folder(args.out.parent)
    if args.to:
        return _give(args.model, kind, args.out)
    return _take(Path(args.model), kind, args.config, args.out)


def _give(name: str, kind: str, out: Path) -> int:
    from safetensors.torch import save

    from foveal.models.convert import to_torch
    from foveal.models.marian import to_marian
    from foveal.models.store import describe
    from foveal.models.transformer import Transformer
    from foveal.tasks.load import load

    loaded = load(name, device="cpu")
    if kind == "transformers":
        return _give_images(loaded, name, out)
    model = loaded.network
    expect(isinstance(model, Transformer), name, "a Transformer", f"a {type(model).__name__}")
    assert isinstance(model, Transformer)
    if kind == "torch":
        content = save(
            {key: tensor.contiguous() for key, tensor in to_torch(model).items()},
            {HEADER: json.dumps(describe(model)[1])},
        )
        write_atomic(out, content)
    else:
        settings, weights = to_marian(model)
        write_atomic(out / WEIGHTS, save(weights, {"format": "pt"}))
        write_atomic(out / SETTINGS, json.dumps(settings, indent=1).encode())
    print(f"wrote {out}")
    return 0


def _give_images(loaded: "Model", name: str, out: Path) -> int:
    from safetensors.torch import save

    from foveal.models.convert_card import labels_of, preprocessor_of
    from foveal.models.convert_vision import KINDS as IMAGE_MODELS
    from foveal.models.convert_vision import to_transformers

    known = tuple(one.model for one in IMAGE_MODELS.values())
    named = " or ".join(one.__name__ for one in known)
    expect(isinstance(loaded.network, known), name, f"a {named}", f"a {type(loaded.network).__name__}")
    settings, weights = to_transformers(loaded.network)
    card = cast("ImageCard", loaded.card)
    write_atomic(out / WEIGHTS, save(weights, {"format": "pt"}))
    write_atomic(out / PIXELS, json.dumps(preprocessor_of(card), indent=1).encode())
    write_atomic(out / SETTINGS, json.dumps(settings | labels_of(card), indent=1).encode())
    print(f"wrote {out}")
    return 0


def _take_images(path: Path, out: Path) -> int:
    from foveal.deploy.measure.origin import origin
    from foveal.models.convert_card import card_fields
    from foveal.models.convert_vision import from_transformers
    from foveal.models.store import describe, save_model
    from foveal.models.zoo import families_of
    from foveal.tasks.task import all_tasks

    settings = _object(_read_text(path / SETTINGS), path / SETTINGS)
    model = from_transformers(settings, _read_weights(path / WEIGHTS)[0])
    pixels = _object(_read_text(path / PIXELS), path / PIXELS) if (path / PIXELS).exists() else {}
    family, config = describe(model)
    task = next(one for one in all_tasks() if family in families_of(one.kind))
    fields = card_fields(settings, pixels, config["classes"])
    source = origin() | {"weights": f"{path.name}, of transformers"}
    card = dataclasses.replace(task.new_card(family, model), note="", origin=source, **fields)
    card.check(str(path))
    save_model(model, out, card)
    whose = f"of {PIXELS}" if "mean" in fields else f"foveal's own, as there is no {PIXELS}"
    count = sum(weight.numel() for weight in model.parameters())
    print(f"wrote {out}: {count:,} parameters; mean and deviation of pixels are {whose}")
    return 0


def _take(path: Path, kind: str, config: Path | None, out: Path) -> int:
    if kind == "transformers":
        return _take_images(path, out)
    from foveal.deploy.measure.origin import origin
    from foveal.models.convert import from_torch
    from foveal.models.marian import from_marian
    from foveal.models.store import describe, save_model
    from foveal.models.zoo import families_of
    from foveal.tasks.task import all_tasks

    if kind == "torch":
        weights, header = _read_weights(path)
        text = header.get(HEADER) if config is None else _read_text(config)
        expect(
            text is not None,
            str(path),
            f"a header with {HEADER!r}, as foveal convert writes it",
            "none",
            "give --config",
        )
        model: Transformer = from_torch(weights, _config(text or "", path if config is None else config))
    else:
        settings = _object(_read_text(path / SETTINGS), path / SETTINGS)
        model = from_marian(settings, _read_weights(path / WEIGHTS)[0])
    family, facts = describe(model)
    task = next(one for one in all_tasks() if family in families_of(one.kind))
    card = task.card(
        model="transformer", family=family, config=facts, origin=origin() | {"weights": f"{path.name}, of {kind}"}
    )  # type: ignore[call-arg]
    save_model(model, out, card)
    print(f"wrote {out}: {sum(weight.numel() for weight in model.parameters()):,} parameters, and no vocabulary")
    return 0


def _read_weights(file: Path) -> "tuple[dict[str, Tensor], dict[str, str]]":
    from safetensors import SafetensorError, safe_open

    try:
        expect_plain_file(file)
        with reading(file), utf8_name(file) as name, safe_open(name, framework="pt") as content:
            tensors = {key: content.get_tensor(key) for key in content.keys()}  # noqa: SIM118 — no dict
            return tensors, content.metadata() or {}
    except SafetensorError as error:
        raise FovealError(f"{file}: expected a .safetensors file, got something else: {error}") from None


def _read_text(file: Path) -> str:
    expect_plain_file(file)
    with reading(file):
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise FovealError(f"{file}: expected JSON, got something else") from None


def _object(text: str, file: Path) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise FovealError(f"{file}: expected a config in JSON, names and values, got something else")
    return facts


def _config(text: str, file: Path) -> "TransformerConfig":
    from foveal.models.transformer import TransformerConfig
    from foveal.tasks.task import all_tasks

    old: dict[str, str] = {}
    for task in all_tasks():
        old |= task.card.renamed_config.get("transformer", {})
    facts = {old.get(name, name): value for name, value in _object(text, file).items() if name != "family"}
    known = {field.name for field in dataclasses.fields(TransformerConfig) if field.init}
    for name in facts:
        if name not in known:
            raise unknown("field of a Transformer's config", name, known)
    return TransformerConfig(**facts)
