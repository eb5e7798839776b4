"""`foveal bench translate`: every engine is asked for the same sentences,
and each row names what it is compared with.
"""

import pytest
import torch

from foveal.app.cli import main
from foveal.models.zoo import create
from foveal.report.bench import Bench
from foveal.tasks.translate import bench as translate

SIZES = {
    "source_vocab": 97,
    "target_vocab": 97,
    "width": 16,
    "hidden": 24,
    "heads": 2,
    "layers": 1,
    "decoder_layers": 1,
}


def test_all_contenders_generate_the_same_tokens():
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = create("transformer-tiny", **SIZES).eval()
    with torch.no_grad():
        model.tables.of_output[[model.config.pad, model.config.begin]] = 0.0
    bench = Bench("translate", "cpu", 1, 1, 256)
    sources = [[5, 6, 7], [9, 11, 40]]
    with translate.contenders(bench, model) as those:
        names = {str(one) for one in those}
        assert {"foveal fp32", "foveal, TorchEngine fp32", "transformers fp32"} <= names
        exact = [one.decoding(sources, 1, 7) for one in those if one.precision == "fp32"]
        assert all(one == exact[0] for one in exact)
        assert all(len(tokens) == 6 for tokens in exact[0])  # the seventh is the end
        translate._rates(bench, those, sources, 1, 7, evaluated=False)
    rows = {row.what: row for row in bench.rows}
    ours, theirs = rows["batch 2, beam 1: foveal fp32"], bench.timings["batch 2, beam 1"]
    assert ours.ratio == pytest.approx(theirs["transformers fp32"].median / theirs["foveal fp32"].median)
    assert ours.meaning == "× transformers"


def test_without_a_cache_the_same_tokens():
    torch.manual_seed(0)
    model = create("transformer-tiny", **SIZES).eval()
    with torch.no_grad():
        model.tables.of_output[[model.config.pad, model.config.begin, model.config.end]] = 0.0
    cached = translate.searched(translate.engine_of(model))([[5, 6, 7]], 1, 9)[0]
    assert translate._uncached(model, [5, 6, 7], 9)[:8] == cached


@pytest.mark.parametrize("longest", [400, 800])
def test_without_a_cache_as_long_as_was_asked_for(monkeypatch, longest):
    monkeypatch.setattr(translate, "LENGTHS", (2, 5))
    monkeypatch.setattr(translate, "UNCACHED", (2, 5, 800))
    monkeypatch.setattr(translate, "_uncached", lambda model, source, steps: torch.zeros(7).sum())
    bench = Bench("translate", "cpu", 1, 1, 256)
    translate._against_length(bench, create("transformer-tiny", **SIZES).eval(), [[5, 6, 7]], longest)
    assert list(bench.timings["with the cache"]) == ["2", "5"]
    assert list(bench.timings["without a cache"]) == ["2", "5", *(["800"] if longest == 800 else [])]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--batch", "1,x"], "--batch: expected integers from 1 to 4,096, such as 1,4, got 1,x"),
        (["--tokens", "1"], "--tokens: expected an integer, at least 2, got 1"),
        (
            ["transformer-tiny", "other"],
            "foveal bench translate: expected one model at most, got transformer-tiny other",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(flags, message, capsys, tmp_path):
    assert main(["bench", "translate", *flags, "--out", str(tmp_path)]) != 0
    assert message in capsys.readouterr().err
