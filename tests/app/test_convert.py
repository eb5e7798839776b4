import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MarianMTModel

from foveal.app.cli import main
from foveal.models.store import describe, load_model, save_model
from foveal.models.zoo import create
from foveal.tasks.translate.card import TranslateCard

SOURCE, TARGET = torch.tensor([[5, 7, 11, 2, 0]]), torch.tensor([[1, 5, 6]])


@pytest.fixture
def ours(tmp_path):
    torch.manual_seed(0)
    model = create(
        "transformer-tiny", source_words=13, target_words=13, width=8, hidden=11, heads=2, layers=1, decoder_layers=2
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


def test_weights_that_others_wrote_need_settings(ours, tmp_path, capsys):
    theirs, bare, config = tmp_path / "a", tmp_path / "b", tmp_path / "c.json"
    output_of(capsys, ours, "--to", "torch", "--out", theirs, status=0)
    save_file(load_file(theirs), bare)
    assert "expected a header with 'transformer', as foveal convert writes it, got none; give --config" in output_of(
        capsys, bare, "--from", "torch", "--out", tmp_path / "d"
    )
    config.write_text(json.dumps(load_model(ours, TranslateCard)[1].config))
    output_of(capsys, bare, "--from", "torch", "--config", config, "--out", tmp_path / "d", status=0)
    assert near(ours, tmp_path / "d")
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
    model = create("rnn", source_words=5, target_words=5, width=3, hidden=4)
    family, config = describe(model)
    save_model(model, tmp_path / "m", TranslateCard(model="rnn", family=family, config=config))
    assert "expected a Transformer, got a Seq2Seq" in output_of(
        capsys, tmp_path / "m", "--to", "torch", "--out", tmp_path / "out"
    )
