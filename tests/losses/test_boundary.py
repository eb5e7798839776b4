"""Losses of where labels meet: against loops, by hand, and where nothing meets."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from oracle import boundary as oracle
from oracle import segmentation as pixels
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.losses.boundary import boundary_loss, edge_cross_entropy, edges, signed_distances

label_maps = arrays(
    np.int64, array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.sampled_from([0, 0, 1, 2, 255])
)


def some(seed=0, shape=(2, 7, 5), dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(shape[0], 4, *shape[1:], generator=generator, dtype=dtype)
    labels = torch.zeros(shape, dtype=torch.int64)
    labels[0, 1:4, 1:4], labels[0, 5:], labels[1, :, 4], labels[1, 0] = 1, 2, 2, 255
    return logits.requires_grad_(), labels


LOSSES = {
    "edges": lambda x, y: edge_cross_entropy(x[:, :1], y),
    "boundary": boundary_loss,
}
every = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


def test_edges_by_hand():
    labels = torch.tensor([[[0, 0, 1, 1, 1], [0, 0, 1, 1, 255]]])
    assert edges(labels, 0).tolist() == [[[0, 1, 1, 0, 0], [0, 1, 1, 0, 255]]]
    assert edges(labels, 1).tolist() == [[[1, 1, 1, 1, 0], [1, 1, 1, 1, 255]]]
    # what nobody labelled has no edge
    assert edges(torch.tensor([[[0, 255, 1]]]), 0).tolist() == [[[0, 255, 0]]]


@given(label_maps, st.sampled_from([0.0, 1.0, 1.5, 2.0, 9.0]))
def test_edges_equal_loops(label_map, radius):
    found = edges(torch.from_numpy(label_map)[None], radius)
    assert found[0].tolist() == oracle.edges(label_map.tolist(), radius)


@pytest.mark.parametrize("radius", [0.0, 1.0])
def test_edge_cross_entropy_equals_loops(radius):
    logits, labels = some()
    wanted = [oracle.edges(one, radius) for one in labels.tolist()]
    found = edge_cross_entropy(logits[:, :1], labels, radius)
    assert found.item() == pytest.approx(oracle.edge_cross_entropy(logits[:, 0].tolist(), wanted))


def test_both_sides_of_an_edge_count_the_same():
    """However rare it is: a guess of one half costs log 2, and leaning to either side costs as much."""
    _, labels = some()
    zero = torch.zeros(2, 1, 7, 5)
    assert edge_cross_entropy(zero, labels, 0).item() == pytest.approx(math.log(2))
    torch.testing.assert_close(edge_cross_entropy(zero + 2, labels, 0), edge_cross_entropy(zero - 2, labels, 0))
    # without an edge, half of what the others cost
    alone = edge_cross_entropy(zero, torch.zeros_like(labels))
    assert alone.item() == pytest.approx(math.log(2) / 2)


def test_signed_distance_by_hand():
    """A line of 4 × 1: the edge runs between the second and the third pixel."""
    found = signed_distances(torch.tensor([[[0, 0, 1, 1]]]), 2)
    np.testing.assert_allclose(found[0, 0, 0] * math.hypot(1, 4), [1.5, 0.5, -0.5, -1.5], rtol=1e-6)
    assert (found[0, 1] == 0).all()  # class 2 is not there
    assert (signed_distances(torch.ones(1, 2, 3, dtype=torch.int64), 2) == 0).all()  # class 1 is everywhere


@given(label_maps)
def test_signed_distances_equal_loops(label_map):
    found = signed_distances(torch.from_numpy(label_map)[None], 3)
    wanted = [oracle.signed_distance(label_map.tolist(), label) for label in (1, 2, 3)]
    np.testing.assert_allclose(found[0], wanted, atol=1e-6)


def test_boundary_loss_equals_loops():
    logits, labels = some()
    signed = [[oracle.signed_distance(one, label) for label in (1, 2, 3)] for one in labels.tolist()]
    wanted = oracle.boundary_loss(pixels.softmax(logits.tolist()), signed, labels.tolist())
    assert boundary_loss(logits, labels).item() == pytest.approx(wanted, rel=1e-6)
    torch.testing.assert_close(
        boundary_loss(logits, labels, signed_distances(labels, 3)), boundary_loss(logits, labels)
    )


def test_boundary_loss_is_least_where_the_labels_are():
    labels = some()[1].clamp(max=2)
    right = F.one_hot(labels, 4).movedim(-1, 1) * 50.0
    least = boundary_loss(right, labels)
    for seed in range(5):
        assert least < boundary_loss(some(seed)[0] * 9, labels)
    grown = labels.clone()
    grown[0, 4, 1:4] = 1  # a row too much
    assert least < boundary_loss(F.one_hot(grown, 4).movedim(-1, 1) * 50.0, labels)


@every
def test_gradients(loss):
    logits, labels = some()
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), logits)
    (gradient,) = torch.autograd.grad(loss(logits, labels), logits)
    assert gradient.abs().sum() > 0
    assert (gradient[(labels == 255)[:, None].expand_as(gradient)] == 0).all()


@every
def test_nothing_labelled_is_no_loss_and_no_gradient(loss):
    logits, labels = some()
    value = loss(logits, torch.full_like(labels, 255))
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.item() == 0
    assert (gradient == 0).all()


@every
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_half_precision_logits_are_widened_and_finite(loss, scale):
    logits, labels = some(dtype=torch.float32)
    half = (logits.detach() * scale).bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(half, labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(half.float(), labels))
    assert torch.autograd.grad(value, half)[0].isfinite().all()


def test_no_number_of_a_tensor_is_read():
    """So that a GPU can record a step, with distances that were made before it."""
    logits, labels = (one.to("meta") for one in some(dtype=torch.float32))
    assert edge_cross_entropy(logits[:, :1], labels).shape == ()
    assert boundary_loss(logits, labels, logits[:, 1:]).shape == ()


def test_bad_input():
    logits, labels = some()
    with pytest.raises(FovealError, match=r"logits of edges: expected \(B, 1, H, W\)"):
        edge_cross_entropy(logits, labels)
    with pytest.raises(FovealError, match="radius: expected at least 0"):
        edges(labels, -1)
    with pytest.raises(FovealError, match="logits and labels"):
        boundary_loss(logits, labels[:, 1:])
