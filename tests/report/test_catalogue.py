"""The catalogue: every file that has an example, read without importing it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from foveal.errors import FovealError
from foveal.models.zoo import families, family
from foveal.report import catalogue
from foveal.report.catalogue import KINDS, Entry, Paper, entries, find, read, run_example, samples

GOOD = '''"""Squared score: a square.

    e_ij = (q_i·k_j)²
      where it is finite

Symbols: q a query.
Paper: Ada Lovelace (1843). Notes. arXiv:1234.56789.
Paper: Alan Turing (1936). On computable numbers. doi:10.1112/plms.
Departs from the paper: nothing.
Cost: O(1).
Example: squared(q, k)
"""
'''


def written(home: Path, place: str, text: str) -> Path:
    path = home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_docstring_becomes_an_entry(tmp_path: Path) -> None:
    path = written(tmp_path, "core/score/squared.py", GOOD)
    assert read(path, "score", tmp_path) == Entry(
        name="squared",
        kind="score",
        title="Squared score: a square.",
        equation="e_ij = (q_i·k_j)²\n  where it is finite",
        symbols="q a query.",
        papers=(
            Paper(("Ada Lovelace",), 1843, "Notes", "", "1234.56789"),
            Paper(("Alan Turing",), 1936, "On computable numbers", doi="10.1112/plms"),
        ),
        departs="nothing.",
        cost="O(1).",
        example="squared(q, k)",
        module="foveal.core.score.squared",
    )


def test_symbols_may_be_missing_and_a_file_without_example_is_no_entry(tmp_path: Path) -> None:
    without = written(
        tmp_path, "layers/a.py", "\n".join(line for line in GOOD.split("\n") if not line.startswith("Symbols"))
    )
    entry = read(without, "layer", tmp_path)
    assert entry is not None
    assert entry.symbols == ""
    assert read(written(tmp_path, "layers/b.py", '"""Help."""\n'), "layer", tmp_path) is None
    assert read(written(tmp_path, "layers/c.py", '"""Help."""\nx = """\nExample: 1\n"""\n'), "layer", tmp_path) is None


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("Paper", "Paper"),
        ("Departs from the paper", "Departs from the paper"),
        ("Cost", "Cost"),
        ("    ", "an indented equation"),
    ],
)
def test_a_missing_field_is_named_with_its_file(tmp_path: Path, field: str, says: str) -> None:
    text = "\n".join(line for line in GOOD.split("\n") if not line.startswith(field))
    path = written(tmp_path, "layers/broken.py", text)
    with pytest.raises(FovealError) as caught:
        read(path, "layer", tmp_path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)
    assert "got none" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Cost: O(1).", "Cost: O(1).\nCost: O(2).", "one line 'Cost: …', got 2"),
        ("Cost: O(1).", "Cost: O(1),\nthat is all.", "'that is all.'"),
        ("Cost: O(1).", "Cost:", "'Cost:'"),
        ("(1843)", "1843", "Paper: expected"),
        ('(q, k)\n"""', '(q, k)\n"""\nx = = 1', "invalid syntax"),
    ],
)
def test_a_malformed_docstring_is_refused_with_its_file(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = written(tmp_path, "layers/broken.py", GOOD.replace(old, new))
    with pytest.raises(FovealError) as caught:
        read(path, "layer", tmp_path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_a_name_of_two_rooms_stays_with_the_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (
        "core/score/squared.py",
        "layers/squared.py",
        "core/pattern/only.py",
        "core/attend.py",
        "models/deep/squared.py",
    ):
        written(tmp_path, place, GOOD)
    monkeypatch.setattr(catalogue, "HOME", tmp_path)
    assert [(entry.name, entry.kind) for entry in entries()] == [
        ("only", "mask"),
        ("score.squared", "score"),
        ("attend", "attention"),
        ("squared", "layer"),
        ("model.squared", "model"),
    ]
    assert find("squared").kind == find("layer.squared").kind == "layer"
    assert find("score.squared").kind == "score"
    assert find("model.squared").module == "foveal.models.deep.squared"


def test_further_lines_of_a_field_are_indented(tmp_path: Path) -> None:
    path = written(tmp_path, "layers/long.py", GOOD.replace("Cost: O(1).", "Cost: O(1),\n    that is all."))
    entry = read(path, "layer", tmp_path)
    assert entry is not None
    assert entry.cost == "O(1), that is all."


def test_find_takes_either_dash_and_names_the_nearest() -> None:
    assert find("to-global") == find("to_global") == find("To_Global") == find("mask.to-global")
    with pytest.raises(FovealError, match="no mechanism is called 'cusal'; the nearest is 'causal'"):
        find("cusal")


def test_every_file_reads_well() -> None:
    known = entries()
    assert len({entry.name for entry in known}) == len(known) >= 12
    assert [KINDS.index(entry.kind) for entry in known] == sorted(KINDS.index(entry.kind) for entry in known)
    for entry in known:
        assert entry.title.endswith("."), entry.module
        for paper in entry.papers:  # nothing of the line is lost
            path = (catalogue.HOME.parent / entry.module.replace(".", "/")).with_suffix(".py")
            label = f"Paper, if {paper.condition}" if paper.condition else "Paper"
            assert f"{label}: {paper}" in " ".join(path.read_text(encoding="utf-8").split()), entry.module
            assert 1900 < paper.year < 2100, entry.module
            software = "github.com/" in paper.venue  # whose author may go by one name
            assert software or all(" " in author for author in paper.authors), entry.module


def test_the_same_paper_is_written_the_same_everywhere() -> None:
    by_mark: dict[str, Paper] = {}
    for paper in (paper for entry in entries() for paper in entry.papers):
        mark = paper.arxiv or paper.doi or paper.title
        assert by_mark.setdefault(mark, paper) == paper


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys; from foveal.report.catalogue import entries; assert entries(); "
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_samples_are_those_of_the_contract_and_always_the_same() -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in samples().items()}
    maps = {"maps": (2, 6, 5, 7), "video": (2, 3, 6, 4, 5)}
    heads = {"q": (2, 6, 11, 8), "k": (2, 2, 7, 8), "v": (2, 2, 7, 8)}
    assert shapes == {
        "x": (2, 11, 14),
        "memory": (2, 7, 14),
        "wide": (2, 7, 10),
        "image": (2, 5, 6, 14),
        **maps,
        **heads,
    }
    assert all(
        tensor.dtype == torch.float32 and torch.equal(tensor, samples()[name]) for name, tensor in samples().items()
    )


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_every_example_runs_and_leaves_the_random_state_alone(entry: Entry) -> None:
    state = torch.get_rng_state()
    ran = run_example(entry)
    assert torch.equal(torch.get_rng_state(), state)
    assert ran.output is not None
    if entry.kind == "layer":
        assert isinstance(ran.module, torch.nn.Module)
        assert not ran.module.training
        assert ran.inputs
        again = run_example(entry).output
        for one, other in zip(flat(ran.output), flat(again), strict=True):
            assert torch.equal(one, other)
            assert bool(torch.isfinite(one).all())


def flat(output: object) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    return [tensor for part in output for tensor in flat(part)] if isinstance(output, (tuple, list)) else []


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("Gated(14)(tokens)", "expected names out of its file's names and x, memory, wide, image, maps, video, q, k"),
        ("Gated(14)(tokens, sum(word for row in x))", "got tokens, word"),
        ("Gated(14)(", "expected one Python expression"),
    ],
)
def test_an_example_that_names_what_is_not_there_is_one_line(example: str, says: str) -> None:
    with pytest.raises(FovealError) as caught:
        run_example(replace(find("gated"), example=example))
    assert str(caught.value).startswith("the Example of gated: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_example_may_bind_names_and_use_builtins() -> None:
    bound = "[(lambda one: one + len(x))(two) for two in (1, 2)]"
    assert run_example(replace(find("gated"), example=bound)).output == [3, 4]


def test_a_method_of_a_made_object_is_an_example_too() -> None:
    entry = find("rotary")
    ran = run_example(entry)
    assert type(ran.module).__name__ == "Rotary"
    assert len(ran.inputs) == 2
    assert len(ran.output) == 2
    assert run_example(find("causal")).module is None


@pytest.mark.parametrize("name", ["icam", "transformer", "seq2seq", "peer"])
def test_models_are_entries_and_can_be_cited(name: str) -> None:
    entry = find(name)
    assert entry.kind == "model"
    assert entry.papers


@pytest.mark.parametrize("name", families())
def test_the_presets_of_a_model_are_read_from_its_file(name: str) -> None:
    assert find(name).presets == tuple(family(name).presets)


def test_a_repository_is_cited_as_software() -> None:
    text = find("icam").papers[0].bibtex()
    assert text.startswith("@software{")
    assert "url = {https://github.com/Hannibal730/On-device-Sewer-Defect-Inspection}" in text
