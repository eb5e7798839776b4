"""A stage knows no task: the names of tasks stand in tasks/ only, so that a further task is one folder,
one model and one reader.
"""

import re
from importlib import metadata
from pathlib import Path

import pytest

import foveal
from foveal.app.cli import main
from foveal.tasks import task as tasks
from foveal.tasks.task import find_task, task_names

HOME = Path(foveal.__file__).parent
ROOMS = (
    "app",
    "training",
    "deploy",
    "explain",
    "runtime",
    "models",
    "report",
    "losses",
    "metrics",
    "core",
    "layers",
    "vision",
    "position",
    "data",
)
# Words with a task's name in them that are not the task's: the field's, and names that others gave. All else is found
# by the name without its last letter, so that `evaluate_translate`, a Translator and a classification are found, too.
ALLOWED = {
    "deploy/measure/origin.py": ("ctranslate2",),
    "deploy/prune_way.py": ("net.classifier",),  # a layer of others' models
    "explain/faithfulness.py": ("A classifier of torch's",),
    "models/convert_*.py": ("ForImageClassification", "ForInstanceSegmentation", '"classifier"', "classify"),
    "models/*.py": ("segmenting",),  # a set of models, by what they give: label maps
    "models/icam_seg.py": ("a very small segmenter", "queries classify"),
    "models/map_backbone.py": ("A backbone of a segmenter",),
    "models/maskformer.py": ("self.classify",),
    "models/segformer_peer.py": ("SemanticSegmentation", "decode_head.classifier"),
    "models/segmenter.py": ("Segmenter", "segmenter"),  # the paper's name
    "models/segmenting.py": ("the models that segment share", "mask classification"),
    "models/peer.py": ("ForImageClassification", "a layer `classifier`"),
    "models/xie.py": ("self.classifier",),
    "models/mobilenet.py": ("self.classifier", "before the classifier"),
    "models/icam.py": ("image classifier",),
    "models/imagenet.py": ("a classifier of other classes",),
    "losses/set_prediction.py": ("mask classification",),
    "losses/*.py": ("losses.segmentation", "losses.classification"),
    "losses/classification.py": ("Losses of classifiers", "classification_loss"),
    "metrics/classification.py": ("What a classifier got right",),
    "metrics/segmentation.py": ("What a segmenter got right",),
    "metrics/*.py": (
        "foveal.metrics.segmentation",
        "foveal.metrics.classification",
        "translations",
        "translation_scores",
    ),
    # a set whose images have label maps, and what formats of others call a label map or an outline
    "data/*.py": (
        "SegmentSource",
        "read_segments",
        "segments_of",
        "foveal.data.segments",
        "segmentation",
        "YOLO segments",
    ),
    "data/windows.py": ("a model that segments",),
    "data/annotations/windows.py": ("foveal train classify",),  # what the windows are for
    "data/annotations/*.py": ("segmentation", "Segmentation", "segmented", "YOLO segments"),
    "app/command/data.py": ("SegmentSource", "foveal.data.segments"),
    "app/command/render.py": ('"segmentation"',),  # COCO's
    "data/grammar/words.py": ("translate translates translated",),  # a verb of the grammar
    "data/grammar/__init__.py": ("a set to translate", "right translation"),
    "data/filter_pairs.py": ("no translation", "a translation to compare"),
    "data/parallel_files.py": ("is the translation of", '"translation"'),
    "data/parallel.py": ("their translations", "its translation", "nothing to translate"),
}


def without_papers(source: str) -> str:
    """Titles are the authors' own; lines keep their numbers."""
    return re.sub(r"^Papers?[:,].*(\n    .*)*", lambda paper: "\n" * paper[0].count("\n"), source, flags=re.MULTILINE)


def lines_that_name_a_task(file: Path) -> list[str]:
    names = re.compile("|".join(name[:-1] for name in task_names()), re.IGNORECASE)
    allowed = [word for place, words in ALLOWED.items() if file.match(place) for word in words]
    found = []
    for number, line in enumerate(without_papers(file.read_text(encoding="utf-8")).splitlines(), 1):
        rest = line
        for word in sorted(allowed, key=len, reverse=True):
            rest = rest.replace(word, "")
        if names.search(rest):
            found.append(f"{file}:{number}: {line.strip()}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_below_or_beside_tasks_names_one(room):
    assert (HOME / room).is_dir()
    found = [line for file in sorted((HOME / room).rglob("*.py")) for line in lines_that_name_a_task(file)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("word", ["evaluate_translate", "Translator", "CLASSIFY", "the classifier's", "preclassified"])
def test_a_name_within_a_word_is_found(word, tmp_path):
    (tmp_path / "some.py").write_text(f"one = 1\n# {word}\n", encoding="utf-8")
    assert lines_that_name_a_task(tmp_path / "some.py") == [f"{tmp_path / 'some.py'}:2: # {word}"]


@pytest.mark.parametrize("place", ALLOWED)
def test_every_word_that_is_allowed_is_needed(place):
    source = "\n".join(without_papers(file.read_text(encoding="utf-8")) for file in HOME.glob(place))
    assert [word for word in ALLOWED[place] if word not in source] == []


def test_every_task_is_found_by_its_folder():
    folders = sorted(file.parent.name for file in (HOME / "tasks").glob("*/task.py"))
    assert set(folders) <= set(task_names())
    for folder in folders:
        assert (HOME / "tasks" / folder / "__init__.py").read_text(encoding="utf-8").count(
            "import"
        ) == 0  # it imports nothing


def test_a_broken_package_costs_its_own_task_only(tmp_path, monkeypatch, capsys):
    (tmp_path / "broken_task.py").write_text("raise RuntimeError('two\\nlines')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    points = [metadata.EntryPoint(name, "broken_task:TASK", tasks.GROUP) for name in ("broken", "classify")]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == tasks.GROUP else [])
    for found in (task_names, find_task):
        found.cache_clear()
    try:
        assert main(["--help"]) == 0
        out, err = capsys.readouterr()
        assert "translate lines as they come" in out
        assert err == (
            "foveal: left out: foveal.tasks broken: expected the package broken_task:TASK to bring it, got "
            "RuntimeError: two lines; mend or remove the package\n"
        )
        assert find_task("classify").kind == "images to logits"  # and not what calls itself so
        assert main(["train", "broken"]) == 2
        assert "foveal: error: foveal.tasks broken: expected the package" in capsys.readouterr().err
    finally:
        for found in (task_names, find_task):
            found.cache_clear()


def test_no_task_imports_another():
    folders = {file.parent.name for file in (HOME / "tasks").glob("*/task.py")}
    assert len(folders) > 1
    for folder in folders:
        others = re.compile(rf"foveal\.tasks\.({'|'.join(folders - {folder})})\b")
        found = [
            str(file) for file in (HOME / "tasks" / folder).rglob("*.py") if others.search(file.read_text("utf-8"))
        ]
        assert not found
