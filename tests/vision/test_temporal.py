"""Attention along time by hand, beside torch, and with masks. What holds for all modules: tests/test_every.py."""

import math

import pytest
import torch
from case import error
from layers.carry import fill, fill_from_torch, parts, scatter
from oracle.temporal import temporal
from torch import nn

from foveal.core.watch import watch
from foveal.errors import FovealError
from foveal.mask import causal, padding
from foveal.position.learned import Learned
from foveal.position.rotary import Rotary
from foveal.position.sinusoidal_2d import Sinusoidal2d
from foveal.vision.temporal import TemporalAttention


def video(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_by_hand():
    # One channel, two frames of two places; every projection is the identity. At the left place the frames say 0 and
    # ln 3: frame 0 scores (0, 0) and takes the mean, frame 1 scores (0, ln² 3). At the right place both say 5.
    time = TemporalAttention(1, 1).double()
    fill(time.attention, *[(torch.ones(1, 1), torch.zeros(1))] * 4)
    three = math.log(3.0)
    y = time(torch.tensor([[[[[0.0, 5.0]]], [[[three, 5.0]]]]], dtype=torch.float64))
    second = three * math.exp(three**2) / (1 + math.exp(three**2))
    assert error(y, torch.tensor([[[[[three / 2, 5.0]]], [[[second, 5.0]]]]], dtype=torch.float64)) < 1e-12


def test_it_equals_torch_at_every_place():
    theirs = scatter(nn.MultiheadAttention(6, 3, batch_first=True).double())
    ours = TemporalAttention(6, 3).double()
    fill_from_torch(ours.attention, theirs)
    frames = video(2, 5, 6, 3, 7)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])  # torch's True: not to be seen
    y = ours(frames, mask=padding([5, 3]))
    for i in range(3):
        for j in range(7):
            place = frames[..., i, j]
            assert error(y[..., i, j], theirs(place, place, place, key_padding_mask=hidden)[0]) < 1e-12


def test_a_position_is_added_or_works_inside():
    frames = video(2, 5, 6, 3, 2)
    added = scatter(TemporalAttention(6, 2, position=Learned(6, length=5)).double())
    assert added.attention.position is None
    places = added.position.table.tolist()
    expected = [temporal(sample, *parts(added.attention), 2, places) for sample in frames.tolist()]
    assert error(added(frames), torch.tensor(expected, dtype=torch.float64)) < 1e-12
    inside = scatter(TemporalAttention(6, 1, position=Rotary()).double())
    assert inside.position is None
    # With the frames turned round, a layer without position gives the same turned round; rotary positions do not.
    plain = scatter(TemporalAttention(6, 1).double())
    assert error(plain(frames.flip(1)), plain(frames).flip(1)) < 1e-12
    assert error(inside(frames.flip(1)), inside(frames).flip(1)) > 1e-3


@pytest.mark.parametrize(
    ("mask", "keeps"),
    [
        (causal, [lambda t, s: s <= t] * 2),
        (padding([4, 2]), [lambda t, s: s < 4, lambda t, s: s < 2]),
        (causal & padding([5, 2]), [lambda t, s: s <= t, lambda t, s: s <= t and s < 2]),
        (torch.eye(5, dtype=torch.bool), [lambda t, s: t == s] * 2),
        (
            torch.arange(5).expand(2, 1, 5, 5) < torch.tensor([5, 3]).view(2, 1, 1, 1),
            [lambda t, s: s < 5, lambda t, s: s < 3],
        ),
    ],
)
def test_a_mask_counts_frames_of_each_sample(mask, keeps):
    layer, frames = scatter(TemporalAttention(6, 2).double()), video(2, 5, 6, 3, 2)
    expected = [
        temporal(sample, *parts(layer.attention), 2, keeps=seen)
        for sample, seen in zip(frames.tolist(), keeps, strict=True)
    ]
    assert error(layer(frames, mask=mask), torch.tensor(expected, dtype=torch.float64)) < 1e-12


def test_watch_tells_which_frames_matter():
    # Keys answer to the first channel alone, and only frame 3 of the second sample has any of it.
    layer = TemporalAttention(2, 1).double()
    key = torch.tensor([[9.0, 0.0], [0.0, 0.0]])
    fill(
        layer.attention,
        (torch.zeros(2, 2), torch.ones(2)),
        (key, torch.zeros(2)),
        *[(torch.eye(2), torch.zeros(2))] * 2,
    )
    frames = torch.zeros(2, 5, 2, 3, 7, dtype=torch.float64)
    frames[1, 3, 0] = 1.0
    with watch(layer) as seen:
        layer(frames)
    weights = seen["attention"].weights
    assert weights.shape == (2 * 3 * 7, 1, 5, 5)
    matters = weights.view(2, 3 * 7, 1, 5, 5).mean((1, 2, 3))  # (B, T)
    loud = math.exp(9 / math.sqrt(2))
    assert error(matters[0], torch.full((5,), 0.2, dtype=torch.float64)) < 1e-12
    assert float(matters[1, 3]) == pytest.approx(loud / (loud + 4))


def test_it_exports_for_a_batch_of_any_size(tmp_path):
    import onnxruntime

    layer, frames = scatter(TemporalAttention(6, 3)).eval(), video(2, 5, 6, 3, 7).float()
    path = str(tmp_path / "time.onnx")
    batch = {0: torch.export.Dim("batch")}
    torch.onnx.export(
        layer, (frames,), path, dynamo=True, verbose=False, input_names=["video"], dynamic_shapes=(batch,)
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    more = video(3, 5, 6, 3, 7).float()
    (y,) = session.run(None, {"video": more.numpy()})
    assert error(torch.from_numpy(y), layer(more)) < 1e-5


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: TemporalAttention(6, 4), "heads: expected a divisor of the width 6, got 4"),
        (lambda: TemporalAttention(6, 2, position="learned"), "position: expected one of foveal.position"),
        (lambda: TemporalAttention(6, 2)(torch.rand(2, 6, 3, 3)), "video: expected (B, T, 6, h, w), got (2, 6, 3, 3)"),
        (lambda: TemporalAttention(6, 2)(torch.rand(2, 6, 5, 3, 3)), "expected (B, T, 6, h, w), got (2, 6, 5, 3, 3)"),
        (lambda: TemporalAttention(6, 2)(torch.rand(2, 0, 6, 3, 3)), "expected (B, T, 6, h, w), got (2, 0, 6, 3, 3)"),
        (lambda: TemporalAttention(6, 2)([1]), "expected (B, T, 6, h, w), got [1]"),
        (lambda: TemporalAttention(6, 2)(torch.rand(2, 5, 6, 3, 3).double()), "expected torch.float32"),
        (
            lambda: TemporalAttention(6, 2)(torch.rand(2, 5, 6, 3, 3), mask=padding([5])),
            "expected 2, one for each sample",
        ),
        (lambda: TemporalAttention(6, 2)(torch.rand(2, 5, 6, 3, 3), mask="causal"), "mask: expected a mask"),
        (
            lambda: TemporalAttention(6, 2)(torch.rand(2, 5, 6, 3, 3), mask=torch.ones(2, 1, 1, 4).bool()),
            "mask: expected a shape that broadcasts to (2, H, 5, 5), got (2, 1, 1, 4)",
        ),
        (
            lambda: TemporalAttention(6, 2, position=Sinusoidal2d(6))(torch.rand(2, 5, 6, 3, 3)),
            "Sinusoidal2d's tokens: expected",
        ),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_video_is_no_video():
    assert TemporalAttention(6, 2)(torch.rand(0, 5, 6, 3, 3), mask=padding([])).shape == (0, 5, 6, 3, 3)
