"""The classifier of torch: preprocessing and decisions by hand, batches that do not matter,
and a stream that nothing ends.
"""

import dataclasses

import numpy as np
import pytest
import torch
from cards import classify_card
from PIL import Image
from torch import nn

from foveal.errors import FovealError
from foveal.models.store import describe, save_model
from foveal.models.zoo import create
from foveal.runtime.image_predictor import Problem
from foveal.tasks.classify.predict import Prediction
from foveal.tasks.classify.predict_torch import TorchClassifier
from foveal.tasks.load import load


class Means(nn.Module):
    """The logits are the means of the three channels."""

    def forward(self, images):
        return images.mean((2, 3))


def card(**changes):
    return dataclasses.replace(
        classify_card(
            "means", "icam", {}, ("a", "b", "c"), multi_label=True, size=7, mean=(0.5, 0.25, 0.0), std=(0.5, 0.5, 2.0)
        ),
        **changes,
    )


def grey(*colour, side=7):
    return np.full((side, side, 3), colour, np.uint8)


def one(classifier, pixels):
    (answer,) = classifier.predict([pixels])
    assert isinstance(answer, Prediction)
    return answer


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


def test_by_hand():
    answer = one(TorchClassifier(Means(), card()), grey(255, 51, 0))  # 1, 0.2, 0 → 1, −0.1, 0
    np.testing.assert_allclose(answer.probability, [sigmoid(1), sigmoid(-0.1), 0.5], rtol=1e-6)
    assert answer.found == ("a", "c")  # 0.5 reaches 0.5
    np.testing.assert_allclose(
        one(TorchClassifier(Means(), card(temperature=2.0)), grey(255, 51, 0)).probability[0], sigmoid(0.5), rtol=1e-6
    )


def test_thresholds_of_the_card_and_of_the_caller():
    strict = card(threshold=(0.8, 0.4, 0.6))
    assert one(TorchClassifier(Means(), strict), grey(255, 51, 0)).found == ("b",)
    # the most probable first
    assert one(TorchClassifier(Means(), strict, threshold=0.45), grey(255, 51, 0)).found == ("a", "c", "b")
    assert one(TorchClassifier(Means(), strict, threshold=1), grey(255, 51, 0)).found == ()


def test_one_label():
    answer = one(TorchClassifier(Means(), card(multi_label=False, temperature=0.5)), grey(255, 51, 0))
    np.testing.assert_allclose(answer.probability, np.exp([2, -0.2, 0]) / np.exp([2, -0.2, 0]).sum(), rtol=1e-6)
    assert answer.found == ("a",)
    two = nn.Sequential(Means(), nn.Linear(3, 2, bias=False))
    two[1].weight.data = torch.tensor([[1.0, 0, 0], [0.0, 0, 0]])  # softmax(1, 0): class 1 has 0.27
    pair = card(multi_label=False, classes=("fine", "bad"))
    assert one(TorchClassifier(two, pair), grey(255, 0, 0)).found == ("fine",)
    assert one(TorchClassifier(two, dataclasses.replace(pair, threshold=(0.25,))), grey(255, 0, 0)).found == ("bad",)
    assert one(TorchClassifier(two, pair, threshold=0.28), grey(255, 0, 0)).found == ("fine",)


def test_any_size_is_resized_as_a_file_would_be():
    pixels = np.random.default_rng(0).integers(0, 256, (31, 17, 3), np.uint8)
    small = np.asarray(Image.fromarray(pixels).resize((7, 7), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(
        one(TorchClassifier(Means(), card()), pixels).probability,
        one(TorchClassifier(Means(), card()), small).probability,
    )


def test_batches_do_not_matter():
    torch.manual_seed(0)
    model, own = create("icam-31k", classes=3, image=32, patch=8), card(size=32)
    random = np.random.default_rng(1)
    images = [random.integers(0, 256, (11 + number, 37, 3), np.uint8) for number in range(17)]
    alone = list(TorchClassifier(model, own, batch=1).predict(images))
    together = list(TorchClassifier(model, own, batch=7).predict(iter(images)))
    assert (
        [answer.file for answer in alone]
        == [f"image {number}" for number in range(17)]
        == [answer.file for answer in together]
    )
    for left, right in zip(alone, together, strict=True):
        np.testing.assert_allclose(left.probability, right.probability, rtol=1e-5)
        assert left.found == right.found
    assert len({answer.probability[0] for answer in alone}) == 17


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_what_is_bad_stays_at_its_place(tmp_path, batch):
    (tmp_path / "1.png").write_bytes(b"")
    bad = str(tmp_path / "1.png")
    stream = [grey(0, 0, 0), bad, grey(9, 9, 9).astype(float), grey(1, 2, 3), bad, np.zeros((0, 7, 3), np.uint8)]
    answers = list(TorchClassifier(Means(), card(), batch=batch).predict(stream))
    assert [answer.file for answer in answers] == ["image 0", bad, "image 2", "image 3", bad, "image 5"]
    assert [type(answer) for answer in answers] == [Prediction, Problem, Problem, Prediction, Problem, Problem]
    assert answers[1] == Problem(bad, "is empty (0 bytes)")
    assert answers[2].error.endswith("got float64 (7, 7, 3)")
    assert [bool(answer.error) for answer in answers] == [False, True, True, False, True, True]


def test_an_answer_that_is_no_number_is_a_problem_of_its_image():
    class Fragile(nn.Module):
        def forward(self, images):
            return images.mean((2, 3)) / (images.amax((1, 2, 3)) > 0)[:, None]

    answers = list(TorchClassifier(Fragile(), card()).predict([grey(255, 0, 0), grey(0, 0, 0), grey(255, 0, 0)]))
    assert [type(answer) for answer in answers] == [Prediction, Problem, Prediction]
    assert "no number" in answers[1].error


def test_nothing_is_tracked_and_dropout_is_off():
    seen = []

    class Asks(nn.Module):
        def forward(self, images):
            seen.append((self.training, torch.is_grad_enabled(), images.requires_grad))
            return images.mean((2, 3))

    one(TorchClassifier(Asks().train(), card()), grey(1, 2, 3))
    assert seen == [(False, False, False)]


def test_out_of_a_file(tmp_path):
    model = create("icam-30k", classes=3, image=32, patch=16)
    family, config = describe(model)
    save_model(
        model, tmp_path / "model.safetensors", classify_card("icam-30k", family, config, ("a", "b", "c"), True, size=32)
    )
    for path in (tmp_path, tmp_path / "model.safetensors"):
        loaded = load(path, device="cpu")
        (answer,) = loaded.predict(grey(9, 80, 200), batch=2)
        expected = one(TorchClassifier(model, loaded.card, "cpu"), grey(9, 80, 200))
        np.testing.assert_allclose(answer.probability, expected.probability, rtol=1e-6)


ROWS = {
    "csv": ("file,found,a,b,c,error\n", 'image 0,a;c,0.731059,0.475021,0.500000,\n', '"x,y",,,,,bad\n'),
    "jsonl": ("", '{"file": "image 0", "found": ["a", "c"], "probability": {"a": 0.731059, "b": 0.475021, "c": 0.5}}\n',
              '{"file": "x,y", "error": "bad"}\n'),
    "table": ("image     found\n", "image 0   a 0.73, c 0.50\n", "x,y       error: bad\n"),
}  # fmt: skip


@pytest.mark.parametrize("form", ROWS)
def test_rows(form):
    classifier = TorchClassifier(Means(), card(), "cpu")
    head, row = classifier.rows(form, 8)
    assert (head, row(one(classifier, grey(255, 51, 0))), row(Problem("x,y", "bad"))) == ROWS[form]
    with pytest.raises(FovealError, match="no format is called 'xml'"):
        classifier.rows("xml", 8)


@pytest.mark.parametrize(
    ("changes", "words", "says"),
    [
        ({}, {"device": "tpu:0"}, "device"),
        ({}, {"device": "cuda:77"}, "device"),
        ({}, {"batch": 0}, "batch"),
        ({}, {"threshold": 1.5}, "a probability from 0 to 1"),
        ({"multi_label": False}, {"threshold": 0.5}, "two classes"),
    ],
)
def test_what_does_not_fit(changes, words, says):
    with pytest.raises(FovealError, match=says):
        TorchClassifier(Means(), card(**changes), **words)


def test_a_model_of_other_classes():
    with pytest.raises(FovealError, match=r"logits \(1, 2\)"):
        one(TorchClassifier(Means(), card(classes=("a", "b"))), grey(1, 2, 3))


def test_what_was_blank_in_training_is_blank_in_use():
    card = classify_card(
        "x", "icam", {}, ("a", "b"), size=8, mean=(0.0,) * 3, std=(1.0,) * 3, recipe={"blank": [[0.0, 0.0, 0.5, 1.0]]}
    )
    image = np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8)
    kept = image.copy()
    prepared = TorchClassifier(torch.nn.Identity(), card).prepare([image])
    assert torch.allclose(prepared[..., :4], torch.tensor(128 / 255))
    assert torch.allclose(prepared[0, :, :, 4:], torch.from_numpy(image[:, 4:]).permute(2, 0, 1) / 255)
    assert (image == kept).all()
