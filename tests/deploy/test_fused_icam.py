"""The lean build is the trained model: every step of its algebra, in double precision."""

import pytest
import torch
from cards import classify_card

from foveal.core.watch import watch
from foveal.deploy.prune import prune
from foveal.deploy.twins.fused_icam import Frames, cut_frames
from foveal.explain.saliency import of_queries
from foveal.models.heads import remove_heads
from foveal.models.mbconv import LITE0_START, Stage
from foveal.models.patches import cut
from foveal.models.zoo import create
from foveal.vision.same_shape import SAME_SHAPE

BUILDS = {
    "published": {},
    "two cells a patch": {"pool": 2},
    "no squeeze": {"stages": (Stage(16, expand=1, squeeze=False), Stage(24, stride=2, squeeze=False))},
    "one block": {"stages": (Stage(16, expand=1),)},
    "the first block adds its input": {"stem": 8, "stages": (Stage(8, blocks=2, expand=2),)},
    "three in a row that add": {
        "stem": 8,
        "stages": (Stage(8, blocks=3, expand=2), Stage(6, blocks=2, expand=1), Stage(6, expand=3)),
    },
    "patches of pixels, rectified": {"stem_kernel": 7, "stem_stride": 7, "activation": "relu"},
    "cells": {"pool": 2},
    "cells, no squeeze": {
        "pool": 2,
        "stages": (Stage(16, expand=1, squeeze=False), Stage(24, blocks=2, stride=2, squeeze=False)),
    },
    "cells that overlap": {"pool": 3, "stages": (Stage(16, stride=2, squeeze=False),), "queries": 2},
    "cells of the stem's": {"pool": 7, "stages": ()},
    "hard": {"activation": "hardswish"},
    "padded on one side": {"activation": "relu6", "convolution": "tensorflow", "stages": LITE0_START},
    "cells, padded on one side": {"convolution": "tensorflow", "stages": LITE0_START, "pool": 2},
    "pooled": {"pooled": True, "pool": 2},
    **{f"{name} on the map": {"attention": name} for name in SAME_SHAPE},
    "attention on cells": {"attention": "SelectiveKernel", "pool": 2, "activation": "relu"},
    "attention on the stem's map": {"attention": "NonLocal:embedded_gaussian", "stages": ()},
    "several queries": {"queries": 3, "layers": 1, "heads": 4},
    "adaptive, polar": {"first": "adaptive", "position": "polar", "queries": 2, "mixer": False},
    "static, learned": {"first": "static", "position": "learned"},
    "projected and static": {"first": "projected-static", "queries": 2},
    "positions in keys only": {"value_position": False, "stages": (Stage(17, expand=1),)},
    "adaptive, positions in keys only": {"first": "adaptive", "value_position": False, "queries": 3, "heads": 4},
    "static, positions in keys only": {"first": "static", "position": "learned", "value_position": False},
}


def trained(**settings):
    """With statistics and shifts that are not those of a new BatchNorm."""
    torch.manual_seed(0)
    model = create("icam-31k", classes=3, image=56, patch=14, **settings).train()
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(6, 3, 56, 56) * 2 + 1)
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.5, 0.5)
    return model.eval()


def card_of(**changes):
    return classify_card(
        **{"model": "icam-31k", "family": "icam", "config": {}, "classes": ("a", "b", "c"), "size": 56} | changes
    )


def without_heads(**settings):
    model = trained(heads=4, **settings)
    remove_heads(model, {0: [2], 1: [0, 1, 3]})
    return model


def thin(**settings):
    pytest.importorskip("torch_pruning")
    return prune(without_heads(**settings), 19_001)


PRUNED = {
    "fewer heads": (without_heads, {"queries": 2}),
    "fewer channels and heads": (thin, {}),
    "the same, several queries": (thin, {"queries": 3}),
    "the same, positions in keys only": (thin, {"value_position": False}),
    "the same, pooled": (thin, {"pooled": True, "pool": 2}),
}


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("build", [*BUILDS, *PRUNED])
def test_it_says_the_same(build, runs):
    make, settings = PRUNED.get(build) or (trained, BUILDS[build])
    model, card = make(**settings).double(), card_of()
    frames = torch.randint(0, 256, (3, 56, 56, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    mean, std = (torch.tensor(values, dtype=torch.float64)[:, None, None] for values in (card.mean, card.std))
    lean = Frames(model, card, runs).double()
    assert lean.run == (7 if runs and "patches of pixels" in build else 1)
    lean.mean.copy_(255 * mean)  # float32 until here
    with torch.no_grad():
        expected = model((frames.permute(0, 3, 1, 2) / 255 - mean) / std)
        with watch(model) as seen:
            model((frames.permute(0, 3, 1, 2) / 255 - mean) / std)
        said, looked = lean(frames)
    torch.testing.assert_close(said, expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(
        looked, torch.cat([one.weights for one in of_queries(seen).values()], 1), rtol=1e-6, atol=1e-8
    )
    assert expected.std() > 1e-3


def test_attention_stands_behind_anothers_phi_too():
    pytest.importorskip("transformers")
    model, card = trained(phi="resnet-18:1", attention="CBAM"), card_of()
    frames = torch.randint(0, 256, (2, 56, 56, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    mean, std = (torch.tensor(values)[:, None, None] for values in (card.mean, card.std))
    with torch.no_grad():
        images = (frames.permute(0, 3, 1, 2) / 255 - mean) / std
        said, expected = Frames(model, card)(frames)[0], model(images)
        model.attention = torch.nn.Identity()
        torch.testing.assert_close(said, expected, rtol=1e-4, atol=1e-5)
        assert (model(images) - expected).abs().max() > 1e-3


def test_the_trained_model_is_left_as_it_is():
    model = trained()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    Frames(model, card_of())(torch.zeros(1, 56, 56, 3, dtype=torch.uint8))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_patches_are_those_of_the_model():
    frames = torch.randint(0, 256, (2, 28, 42, 3), dtype=torch.uint8)
    mine = cut_frames(frames, 14)
    theirs, *_ = cut(frames.permute(0, 3, 1, 2).float(), 14)
    assert torch.equal(mine.float(), theirs)


def test_what_was_never_shown_stays_hidden():
    model = trained()
    lean = Frames(model, card_of(recipe={"blank": [[0, 0, 1, 0.5]]}))
    frames = torch.randint(0, 256, (1, 56, 56, 3), dtype=torch.uint8)
    other = frames.clone()
    other[:, :28] = torch.randint(0, 256, (28, 56, 3), dtype=torch.uint8)
    assert torch.equal(lean(frames)[0], lean(other)[0])
    other[:, 28:] = 255 - other[:, 28:]
    assert not torch.equal(lean(frames)[0], lean(other)[0])


def test_any_other_model_is_normalised():
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    said, looked = Frames(model, card_of())(torch.full((2, 8, 8, 3), 255, dtype=torch.uint8))
    assert looked is None
    card = card_of()
    expected = (1 - torch.tensor(card.mean)) / torch.tensor(card.std)
    torch.testing.assert_close(said, expected.expand(2, 3))
