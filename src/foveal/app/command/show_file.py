"""`foveal show FILE`: what a model file says of itself: its card, and of an exported one the proof.

No code of its author's is run.
"""

import json
from pathlib import Path
from typing import Any

from foveal.deploy.onnx.archive import texts
from foveal.errors import FovealError, expect, expect_plain_file, reading
from foveal.file_names import utf8_name
from foveal.runtime.card import read_card, task_in
from foveal.runtime.onnx_names import CARD, EXPORTED, PROOF, TORCH
from foveal.tasks.task import find_task, task_names

WEIGHTS = ".safetensors"
KINDS = (EXPORTED, *TORCH, WEIGHTS)
LONGEST = 2000  # characters of a fact; a vocabulary has more
TITLES = {CARD: "what the file says of its model", PROOF: "how far the file is from the model it was made of"}


def describe_file(file: Path) -> list[str]:
    """The file in a line, then one line per fact."""
    expect_plain_file(file)
    with reading(file):
        size = file.stat().st_size
        found = _texts(file)
    expect(CARD in found, str(file), "a model that foveal wrote", "a file without foveal's card")
    task = task_in(found[CARD])
    if task in task_names():
        read_card(found[CARD], str(file), find_task(str(task)).card)  # a file may come from anybody
    lines = [f"{file}: {size:,} bytes"]
    for name, title in TITLES.items():
        if name in found:
            lines += [
                "",
                title,
                *(f"  {_value(key)}: {_value(value)}" for key, value in _facts(found[name], file).items()),
            ]
    return lines


def _texts(file: Path) -> dict[str, str]:
    if file.suffix in TORCH:
        return texts(file)
    if file.suffix == EXPORTED:
        from foveal.runtime.exported import metadata

        return metadata(file)
    from safetensors import SafetensorError, safe_open

    try:
        with utf8_name(file) as name, safe_open(name, framework="np") as content:
            return dict(content.metadata() or {})
    except SafetensorError as error:
        raise FovealError(f"{file}: expected a {WEIGHTS} file, got something else: {error}") from None


def _facts(text: str, file: Path) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    expect(isinstance(facts, dict), str(file), "a card and a proof in JSON", "something else; the file is damaged")
    return {key: value for key, value in dict(facts).items() if value not in ("", None, [], {})}


def _value(value: object) -> str:
    # a file may come from anybody: nothing of it steers the terminal
    plain = isinstance(value, str) and value.isprintable()
    text = str(value) if plain else json.dumps(value)
    return f"{len(text):,} characters" if len(text) > LONGEST else text
