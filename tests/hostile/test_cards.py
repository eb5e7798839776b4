"""Model files from anybody: cards that promise too much, or carry names that steer a terminal."""

import pytest
from hostile.broken import set_config, set_field, with_card, with_onnx_card
from hostile.situation import Situation, check, params

ESCAPE = "\x1b[31mred"


def many_stages(card):
    card["config"]["stages"] = card["config"]["stages"] * 100_000


def many_blocks(card):
    stages = [list(stage) if isinstance(stage, list) else dict(stage) for stage in card["config"]["stages"]]
    for stage in stages:
        if isinstance(stage, dict):
            stage["blocks"] = 10**7
        else:
            stage[:] = [10**7 if isinstance(one, int) and not isinstance(one, bool) else one for one in stage]
    card["config"]["stages"] = stages


CHANGES = {
    "classes with line breaks": (set_field(classes=["a\nb", "c"]), "printable"),
    "classes with escape signs": (set_field(classes=[ESCAPE, "c"]), "printable"),
    "classes twice": (set_field(classes=["a", "a"]), "every class once"),
    "a class called error": (set_field(classes=["a", "error"]), "no class that is called"),
    "a class that is a formula": (set_field(classes=["a", "=HYPERLINK(1)"]), "formula"),
    "too few classes": (set_field(classes=["a"]), "names of classes"),
    "a threshold of 2": (set_field(threshold=[2.0]), "threshold"),
    "a threshold that is NaN": (set_field(threshold=[float("nan")]), "threshold"),
    "a temperature near 0": (set_field(temperature=1e-300), "temperature"),
    "a temperature below 0": (set_field(temperature=-1), "temperature"),
    "a size of 8000": (set_field(size=8000), "size"),
    "a size of 4096 of a model for 32": (set_field(size=4096), "a size of at most 1024 beside the config's image 32"),
    "a size of 0": (set_field(size=0), "size"),
    "no size": (lambda card: {key: value for key, value in card.items() if key != "size"}, "without size"),
    "a std of 0": (set_field(std=[0, 1, 1]), "std"),
    "a model's name with escape signs": (set_field(model=ESCAPE), "model is printable"),
    "a task that nobody has": (set_field(task="fly"), "task"),
    "a format of the future": (set_field(format=99), "upgrade"),
    "blank that is no box": (set_field(recipe={"blank": [[1]]}), "blank"),
}
WEIGHTS = {
    "a million layers": (set_config(layers=1_000_000), "blocks|layers|fields"),
    "three thousand layers": (set_config(layers=3000), "blocks|layers|fields"),
    "many stages": (many_stages, "blocks|stages|fields"),
    "many blocks": (many_blocks, "blocks|stages|fields|expected"),
    "queries without end": (set_config(queries=10**12), ""),
    "queries that overflow": (set_config(queries=10**20), ""),
    "a pool that overflows": (set_config(pool=10**12), ""),
    "a width below 0": (set_config(width=-1), ""),
    "an image that overflows": (set_config(image=2**40), ""),
    "a field that is text": (set_config(patch="x"), ""),
}
SITUATIONS = [
    Situation(
        f"{stage} {name}",
        (stage, "bad.safetensors", *more),
        line,
        with_card(change),
        quick=stage == "predict" and "escape" in name,
    )
    for name, (change, line) in (CHANGES | WEIGHTS).items()
    for stage, more in (("predict", ("one.png",)), ("explain", ("one.png",)), ("show", ()))
    if stage == "predict" or (name in CHANGES and name != "a task that nobody has")
] + [
    Situation(f"{stage} exported, {name}", (stage, "bad.onnx", *more), line, with_onnx_card(change))
    for name, (change, line) in CHANGES.items()
    for stage, more in (("predict", ("one.png",)), ("show", ()), ("explain", ("one.png",)))
    if (stage == "predict" or "escape" in name)
]


TRAIN = ("train", "classify", "--data", "{data}", "{bare}", "--out", "new")
CONFIGS = [
    Situation(f"train: {config}", (*TRAIN, "--config", config), line, talks=True, apart=True)
    for config, line in (
        ("{image: 32, patch: 8, queries: 100000000}", "memory|--size|queries"),
        ("{image: 32, patch: 8, layers: -1}", "layers"),
        ("{image: 32, patch: 8, no_such: 1}", "no_such"),
        ("{image: 0}", "image|size"),
        ("{image: 32, patch: x}", "patch|fields"),
        ("{classes: 3}", "classes"),
        ("3", "--config"),
    )
]


@pytest.mark.parametrize("situation", params([*SITUATIONS, *CONFIGS]))
def test_card(situation, bench, capfd):
    made = bench("classify")
    check(situation, made.place, capfd, made.words)
