import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MarianMTModel

from foveal.app.cli import main
from foveal.models.convert_card import card_fields
from foveal.models.store import describe, load_model, save_model
from foveal.models.zoo import create
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.translate.card import TranslateCard

SOURCE, TARGET = torch.tensor([[5, 7, 11, 2, 0]]), torch.tensor([[1, 5, 6]])


@pytest.fixture
def ours(tmp_path):
    torch.manual_seed(0)
    model = create(
        "transformer-tiny", source_vocab=13, target_vocab=13, width=8, hidden=11, heads=2, layers=1, decoder_layers=2
    ).eval()
    family, config = describe(model)
    path = tmp_path / "ours.safetensors"
    save_model(model, path, TranslateCard(model="transformer-tiny", family=family, config=config))
    return path


def near(path, other):
    one, two = (load_model(name, TranslateCard)[0] for name in (path, other))
    with torch.no_grad():
        return (one(SOURCE, TARGET) - two(SOURCE, TARGET)).abs().max() < 1e-6


def output_of(capsys, *words, status=2):
    assert main(["convert", *map(str, words)]) == status
    out, err = capsys.readouterr()
    assert err.count("\n") == (status > 0)
    return err or out


@pytest.mark.parametrize("kind", ["torch", "marian"])
def test_there_and_back(ours, tmp_path, capsys, kind):
    theirs, again = tmp_path / "new" / "theirs", tmp_path / "again.safetensors"
    assert output_of(capsys, ours, "--to", kind, "--out", theirs, status=0) == f"wrote {theirs}\n"
    line = output_of(capsys, theirs, "--from", kind, "--out", again, status=0)
    assert "parameters, and no vocabulary" in line
    assert near(ours, again)
    _, card = load_model(again, TranslateCard)
    assert (card.model, card.task, card.vocabulary) == ("transformer", "translate", "")
    assert card.origin["weights"] == f"theirs, of {kind}"


def test_transformers_opens_the_folder(ours, tmp_path, capsys):
    output_of(capsys, ours, "--to", "marian", "--out", tmp_path / "marian", status=0)
    theirs = MarianMTModel.from_pretrained(tmp_path / "marian").eval()
    with torch.no_grad():
        logits = theirs(input_ids=SOURCE, attention_mask=(SOURCE != 0).long(), decoder_input_ids=TARGET).logits
        assert (logits - load_model(ours, TranslateCard)[0](SOURCE, TARGET)).abs().max() < 1e-5


def test_weights_that_others_wrote_need_a_config(ours, tmp_path, capsys):
    theirs, bare, config = tmp_path / "a", tmp_path / "b", tmp_path / "c.json"
    output_of(capsys, ours, "--to", "torch", "--out", theirs, status=0)
    save_file(load_file(theirs), bare)
    assert "expected a header with 'transformer', as foveal convert writes it, got none; give --config" in output_of(
        capsys, bare, "--from", "torch", "--out", tmp_path / "d"
    )
    config.write_text(json.dumps(load_model(ours, TranslateCard)[1].config))
    output_of(capsys, bare, "--from", "torch", "--config", config, "--out", tmp_path / "d", status=0)
    assert near(ours, tmp_path / "d")
    text = config.read_text().replace("source_vocab", "source_words").replace("max_length", "longest")
    assert "source_words" in text
    config.write_text(text)  # as files of before have it
    output_of(capsys, bare, "--from", "torch", "--config", config, "--out", tmp_path / "e", status=0)
    assert near(ours, tmp_path / "e")
    config.write_text('{"haeds": 3}')
    assert "no field of a Transformer's config is called 'haeds'; the nearest is 'heads'" in output_of(
        capsys, bare, "--from", "torch", "--config", config, "--out", tmp_path / "d"
    )


def test_what_cannot_be_converted_is_named_in_one_line(ours, tmp_path, capsys):
    out = ("--out", tmp_path / "out")
    assert "convert: expected --to or --from, got neither" in output_of(capsys, ours, *out)
    assert "convert: expected --to or --from, got both" in output_of(
        capsys, ours, "--to", "torch", "--from", "torch", *out
    )
    assert "no kind of weights is called 'mariane'; the nearest is 'marian'" in output_of(
        capsys, ours, "--to", "mariane", *out
    )
    assert "icam-pipes: expected a Transformer, got a Icam" in output_of(capsys, "icam-pipes", "--to", "torch", *out)
    assert "cannot read" in output_of(capsys, tmp_path / "none", "--from", "torch", *out)
    assert "cannot read" in output_of(capsys, tmp_path / "none", "--from", "marian", *out)
    (tmp_path / "config.json").write_text("[]")
    assert "expected a config in JSON" in output_of(capsys, tmp_path, "--from", "marian", *out)
    (tmp_path / "bad").write_bytes(b"bad")
    assert "expected a .safetensors file, got something else" in output_of(
        capsys, tmp_path / "bad", "--from", "torch", *out
    )
    assert "--config: expected to stand with --from torch" in output_of(
        capsys, ours, "--to", "torch", "--config", "c", *out
    )
    assert not (tmp_path / "out").exists()


def test_a_recurrent_model_is_refused(tmp_path, capsys):
    model = create("rnn", source_vocab=5, target_vocab=5, width=3, hidden=4)
    family, config = describe(model)
    save_model(model, tmp_path / "m", TranslateCard(model="rnn", family=family, config=config))
    assert "expected a Transformer, got a Seq2Seq" in output_of(
        capsys, tmp_path / "m", "--to", "torch", "--out", tmp_path / "out"
    )


IMAGE_MODELS = {
    "vit-tiny": {"image": 32, "patch": 8, "width": 12, "heads": 2, "layers": 2, "hidden": 10},
    "swin-tiny": {"image": 32, "width": 4, "depths": (2, 1, 1, 1), "heads": (1, 2, 2, 4), "window": 1},
    "pvt-tiny": {"image": 32, "widths": (4, 6, 8, 10), "heads": (1, 2, 2, 5), "depths": (1, 1, 1, 1)},
}


def image_model(name, path):
    torch.manual_seed(0)
    model = create(name, classes=3, **IMAGE_MODELS[name]).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    family, config = describe(model)
    facts = {"classes": ("crack", "root, wet", "wurzel·ß"), "size": 32, "mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)}
    save_model(model, path, ClassifyCard(model=name, family=family, config=config, **facts))
    return model


@pytest.mark.parametrize("name", IMAGE_MODELS)
@torch.no_grad()
def test_an_image_model_there_and_back_and_transformers_opens_it(name, tmp_path, capsys):
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    model = image_model(name, tmp_path / "a")
    output_of(capsys, tmp_path / "a", "--to", "transformers", "--out", tmp_path / "theirs", status=0)
    theirs = AutoModelForImageClassification.from_pretrained(tmp_path / "theirs").eval()
    x = torch.randn(2, 3, 32, 32)
    assert (theirs(x).logits - model(x)).abs().max() < 1e-5
    assert theirs.config.id2label == {0: "crack", 1: "root, wet", 2: "wurzel·ß"}
    pixels = AutoImageProcessor.from_pretrained(tmp_path / "theirs")
    image = np.full((20, 30, 3), 51, np.uint8)  # a fifth
    found = pixels(image, return_tensors="pt")["pixel_values"]
    assert found.shape == (1, 3, 32, 32)
    assert found[0, :, 7, 5].tolist() == pytest.approx([0.25, 0, -1 / 6], abs=1e-6)
    capsys.readouterr()
    line = output_of(capsys, tmp_path / "theirs", "--from", "transformers", "--out", tmp_path / "b", status=0)
    assert line.endswith("parameters; mean and deviation of pixels are of preprocessor_config.json\n")
    again, card = load_model(tmp_path / "b", ClassifyCard)
    assert torch.equal(again(x), model(x))
    assert (card.classes, card.size) == (("crack", "root, wet", "wurzel·ß"), 32)
    assert (card.mean, card.std, card.note) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6), "")
    assert card.origin["weights"] == "theirs, of transformers"
    (tmp_path / "theirs/preprocessor_config.json").unlink()
    line = output_of(capsys, tmp_path / "theirs", "--from", "transformers", "--out", tmp_path / "c", status=0)
    assert "foveal's own, as there is no preprocessor_config.json" in line


def test_image_models_that_cannot_be_converted_are_named_in_one_line(ours, tmp_path, capsys):
    to, back = ("--to", "transformers", "--out", tmp_path / "out"), ("--from", "transformers", "--out", tmp_path / "o")
    assert "expected a Vit or Swin or Pvt or MaskFormer, got a Transformer" in output_of(capsys, ours, *to)
    assert "the model's stem: expected none" in output_of(capsys, "vit-micro", *to)
    assert not (tmp_path / "out").exists()
    assert "cannot read" in output_of(capsys, tmp_path / "none", *back)
    image_model("vit-tiny", tmp_path / "a")
    output_of(capsys, tmp_path / "a", *to, status=0)
    assert "new or empty folder" in output_of(capsys, tmp_path / "a", *to)
    file = tmp_path / "out" / "config.json"
    facts = json.loads(file.read_text())
    for changes, message in (
        ({"model_type": "marian"}, "no kind of model (model_type) is called 'marian'"),
        ({"id2label": {"0": "a\nb", "1": "c", "2": "d"}}, "expected names of classes in printable letters"),
    ):
        file.write_text(json.dumps(facts | changes))
        assert message in output_of(capsys, tmp_path / "out", *back)
    (tmp_path / "out" / "preprocessor_config.json").write_text('{"image_mean": ["a"]}')
    file.write_text(json.dumps(facts))
    assert "expected a mean of three numbers" in output_of(capsys, tmp_path / "out", *back)
    assert not (tmp_path / "o").exists()


def test_names_that_several_classes_have_get_their_number():
    settings = {"id2label": {"0": "crane", "1": "tench", "2": "crane"}}
    assert card_fields(settings, {}, 3) == {"classes": ("crane (0)", "tench", "crane (2)")}
    assert card_fields(settings, {}, 4) == {}, "names of another model"
    assert card_fields({}, {"image_mean": [1, 2, 3], "image_std": 4}, 4) == {"mean": (1, 2, 3)}
