"""The loss of mask classification: against all assignments, transformers' MaskFormer, and by hand."""

import itertools
from functools import partial

import pytest
import torch
from oracle import set_prediction as oracle
from torch.nn import functional as F
from transformers.models.mask2former import modeling_mask2former
from transformers.models.maskformer import modeling_maskformer

from foveal.errors import FovealError
from foveal.losses.assignment import assign
from foveal.losses.presence import present
from foveal.losses.set_prediction import (
    MASK2FORMER,
    MASKFORMER,
    SetWeights,
    _labels_at,
    _shares,
    _uncertain_places,
    assigned,
    costs,
    set_loss,
)

BATCH, QUERIES, CLASSES, HEIGHT, WIDTH = 3, 5, 4, 6, 7


def some(seed=0, shrink=1, dtype=torch.float64):
    """Of two layers: classes and masks. Labels: one class more in each image, and the last is not labelled."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    sides = HEIGHT // shrink, WIDTH // shrink
    queries = [(normal(BATCH, QUERIES, CLASSES + 1), normal(BATCH, QUERIES, *sides)) for _ in range(2)]
    labels = torch.zeros(BATCH, HEIGHT, WIDTH, dtype=torch.int64)
    labels[0, 1:4, 2:5], labels[1, 2:, 1:3], labels[1, 1, 5:] = 1, 3, 2
    labels[0, 5], labels[2] = 255, 255
    return queries, labels


def by_loops(queries, labels, weights):
    total = 0.0
    for classes, masks in queries:
        images = [
            oracle.set_losses(*one, weights)
            for one in zip(classes.tolist(), masks.flatten(2).tolist(), labels.flatten(1).tolist(), strict=True)
        ]
        said, weight, of_masks, count = (sum(image[place] for image in images) for place in range(4))
        total += weights.classes * said / weight + of_masks / count
    return total


@pytest.mark.parametrize("weights", [MASKFORMER, MASK2FORMER, SetWeights(0.0, 1.0, 0.0, True, 1.0)])
def test_it_equals_loops_over_all_assignments(weights):
    queries, labels = some()
    assert set_loss(queries, labels, weights=weights).item() == pytest.approx(by_loops(queries, labels, weights))
    assert set_loss(queries, labels).item() == pytest.approx(by_loops(queries, labels, MASKFORMER))


def witness(module, labels, *more):
    """transformers' own loss, to which SciPy's assignment is given; the labels as masks, as it wants them."""
    matcher = getattr(module, f"{more[0]}HungarianMatcher")(*more[1])
    names = dict(zip(("cross_entropy", "mask", "dice"), more[1], strict=True))
    masks, classes = [], []
    for one in labels:
        classes.append(one.unique())
        masks.append((one == classes[-1][:, None, None]).double())
    return matcher, {f"loss_{name}": weight for name, weight in names.items()}, masks, classes


@pytest.mark.parametrize("larger", [1, 2])
def test_it_equals_maskformer_of_transformers(monkeypatch, larger):
    """Also where masks are coarser than labels, whose pixels are alike in each cell: theirs asks one of each."""
    monkeypatch.setattr(modeling_maskformer, "linear_sum_assignment", lambda cost: assign(cost.numpy()), raising=False)
    monkeypatch.setattr(modeling_maskformer, "requires_backends", lambda *_: None)
    queries, labels = some()
    labels = labels.clamp(max=CLASSES - 1)  # it knows nothing of unlabelled pixels
    labels = labels.repeat_interleave(larger, 1).repeat_interleave(larger, 2)
    matcher, weights, masks, classes = witness(modeling_maskformer, labels, "MaskFormer", (1.0, 20.0, 1.0))
    theirs = modeling_maskformer.MaskFormerLoss(CLASSES, matcher, weights, 0.1).double()
    deeper = {"class_queries_logits": queries[1][0], "masks_queries_logits": queries[1][1]}
    parts = theirs(queries[0][1], queries[0][0], masks, classes, [deeper])
    total = sum(value * weights[name.removesuffix("_0")] for name, value in parts.items())
    torch.testing.assert_close(set_loss(queries, labels), total)
    inputs = [one for layer in queries for one in layer]
    for mine, other in zip(
        torch.autograd.grad(set_loss(queries, labels), inputs), torch.autograd.grad(total, inputs), strict=True
    ):
        torch.testing.assert_close(mine, other)


def test_points_are_those_of_mask2former(monkeypatch):
    """Of masks and labels that are the same everywhere, every point is alike, so both draw what they want; theirs must
    not let a mask fade at its border.
    """
    sample = modeling_mask2former.sample_point
    monkeypatch.setattr(modeling_mask2former, "sample_point", partial(sample, padding_mode="border"))
    monkeypatch.setattr(modeling_mask2former, "linear_sum_assignment", lambda cost: assign(cost.numpy()), raising=False)
    monkeypatch.setattr(modeling_mask2former, "requires_backends", lambda *_: None)
    queries, _ = some(dtype=torch.float32)
    classes, level = queries[0][0], torch.tensor([-2.0, 0.3, 1.1, 4.0, -0.7])
    masks = level[None, :, None, None].expand(BATCH, QUERIES, HEIGHT, WIDTH)
    labels = torch.arange(BATCH)[:, None, None].expand(BATCH, HEIGHT, WIDTH)
    matcher, weights, wanted, names = witness(modeling_mask2former, labels, "Mask2Former", (2.0, 5.0, 5.0))
    config = modeling_mask2former.Mask2FormerConfig(num_labels=CLASSES, train_num_points=64, no_object_weight=0.1)
    theirs = modeling_mask2former.Mask2FormerLoss(config, weights)
    theirs.matcher = matcher
    parts = theirs(masks, classes, [one.float() for one in wanted], names)
    total = sum(value * weights[name] for name, value in parts.items())
    torch.testing.assert_close(set_loss([(classes, masks)], labels, points=64), total)


def test_points_are_most_where_a_mask_is_least_sure():
    """Of a mask that is sure on its right side only: three quarters of the points, and half of the others, are left."""
    masks = torch.full((2, 8, 8), 9.0)
    masks[0, :, :4] = 0.0
    torch.manual_seed(0)
    places = _uncertain_places(masks, 400)
    assert places.shape == (2, 400, 2)
    assert ((places >= 0) & (places <= 1)).all()
    left = (places[..., 0] < 0.5).float().mean(1)
    assert left[0].item() == pytest.approx(7 / 8, abs=0.05)
    assert left[1].item() == pytest.approx(1 / 2, abs=0.1)


@pytest.mark.parametrize("weights", [MASKFORMER, MASK2FORMER])
def test_costs_equal_loops(weights):
    """Of all pixels; of points, about: they are many, and a pixel of masks and labels is as large as many of them."""
    queries, labels = some()
    classes, masks = queries[0]
    expected = torch.zeros(2, QUERIES, CLASSES, dtype=torch.float64)
    for image, query, label in itertools.product(range(2), range(QUERIES), range(CLASSES)):
        mask = masks[image, query].flatten().tolist()
        wanted = [None if one == 255 else int(one == label) for one in labels[image].flatten().tolist()]
        of_mask = weights.masks * oracle.mask_loss(mask, wanted, weights.focal)
        p = oracle.softmax(classes[image, query].tolist())[label]
        expected[image, query, label] = of_mask + weights.dice * oracle.dice_loss(mask, wanted) - weights.classes * p
    torch.testing.assert_close(costs(classes, masks, labels, None, weights)[:2], expected)
    torch.manual_seed(0)
    large = [one.repeat_interleave(16, -2).repeat_interleave(16, -1) for one in (masks, labels)]
    by_pixels, by_points = (costs(classes, *large, points, weights)[:2] for points in (None, 20_000))
    torch.testing.assert_close(by_points, by_pixels, rtol=0, atol=0.03 * weights.masks)


def test_labels_at_points_by_hand():
    labels = torch.arange(24).reshape(2, 3, 4)
    places = torch.tensor([[[0.0, 0.0], [0.99, 0.0], [0.3, 0.5]], [[1.0, 1.0], [0.5, 0.1], [0.0, 0.99]]])
    assert _labels_at(labels, torch.tensor([1, 0]), places).tolist() == [[12, 15, 17], [11, 2, 8]]


def test_many_points_are_all_pixels():
    """In the mean: drawn anywhere, and compared with the mask between its pixels' centres."""
    queries, labels = some()
    labels = labels[:2]
    queries = [(queries[0][0][:2], F.interpolate(queries[0][1][:2], scale_factor=8, mode="nearest"))]
    large = labels.repeat_interleave(8, 1).repeat_interleave(8, 2)
    there = present(large, CLASSES)
    torch.manual_seed(1)
    by_points, by_pixels = (assigned(*queries[0], large, there, points, MASK2FORMER) for points in (4000, None))
    for one, other in zip(by_points, by_pixels, strict=True):
        assert one.tolist() == other.tolist()


def test_every_class_of_an_image_has_a_query_of_its_own():
    queries, labels = some()
    image, query, label = assigned(*queries[0], labels, present(labels, CLASSES), None, MASKFORMER)
    assert list(zip(image.tolist(), label.tolist(), strict=True)) != []
    assert sorted(zip(image.tolist(), label.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 0), (1, 2), (1, 3)]
    assert len(set(zip(image.tolist(), query.tolist(), strict=True))) == 5


def test_fewer_queries_than_classes():
    queries, labels = some()
    few = [(classes[:, :2], masks[:, :2]) for classes, masks in queries]
    value = set_loss(few, labels)
    assert value.isfinite()
    image, _, _ = assigned(*few[0], labels, present(labels, CLASSES), None, MASKFORMER)
    assert image.tolist() == [0, 0, 1, 1]


def test_a_crack_is_in_the_cost_of_coarse_masks():
    """One pixel wide, it has a share of every cell that it crosses, whichever pixel of it is asked."""
    labels = torch.zeros(1, 32, 32, dtype=torch.int64)
    labels[0, :, 13] = 1
    masks = torch.full((1, 2, 8, 8), -9.0)
    masks[0, 1, :, 3] = 9.0  # the cells that the crack crosses
    masks[0, 0, :, :3], masks[0, 0, :, 4:] = 9.0, 9.0
    classes = torch.zeros(1, 2, 3)
    _, query, label = assigned(classes, masks, labels, present(labels, 2), None, MASKFORMER)
    assert dict(zip(label.tolist(), query.tolist(), strict=True)) == {0: 0, 1: 1}


def test_shares_of_cells_by_hand():
    """Two by two cells of six or nine pixels; of a cell that is unlabelled in part, the part that is labelled."""
    labels = torch.zeros(1, 5, 6, dtype=torch.int64)
    labels[0, :3, 1], labels[0, 3, 3], labels[0, :2, 3:] = 1, 2, 255
    shares = _shares(labels.to(torch.uint8), 3, 2, 2)
    expected = [[6 / 9, 3 / 9, 1, 5 / 6], [3 / 9, 0, 0, 0], [0, 0, 0, 1 / 6]]
    torch.testing.assert_close(shares, torch.tensor([expected]))


def test_the_right_answer_has_no_loss():
    _, labels = some()
    labels = labels.clamp(max=CLASSES - 1)
    masks = torch.stack([labels == k for k in range(CLASSES)] + [labels < 0], 1).double() * 80 - 40
    there = present(labels, CLASSES)
    classes = torch.full((BATCH, QUERIES, CLASSES + 1), -40.0, dtype=torch.float64)
    classes[..., -1] = 40
    for k in range(CLASSES):
        classes[there[:, k], k, k] = 120
    assert set_loss([(classes, masks)], labels).item() == pytest.approx(0, abs=1e-4)
    wrong = classes.roll(1, 1)  # each query says the next one's class
    assert set_loss([(wrong, masks)], labels).item() > 1


@pytest.mark.parametrize("points", [None, 17])
@pytest.mark.parametrize("shrink", [1, 2])
def test_gradients(points, shrink):
    queries, labels = some(shrink=shrink)
    inputs = [one for layer in queries for one in layer]

    def loss(*flat):
        torch.manual_seed(0)
        return set_loss([flat[:2], flat[2:]], labels, points)

    assert torch.autograd.gradcheck(loss, inputs, fast_mode=True)
    for gradient in torch.autograd.grad(loss(*inputs), inputs):
        assert (gradient[2] == 0).all()  # of the image that nobody labelled
        assert gradient[:2].abs().sum() > 0


@pytest.mark.parametrize("points", [None, 17])
def test_nothing_labelled_is_no_loss_and_no_gradient(points):
    queries, labels = some()
    value = set_loss(queries, torch.full_like(labels, 255), points)
    (gradient,) = torch.autograd.grad(value, queries[0][0])
    assert value.item() == 0
    assert (gradient == 0).all()


@pytest.mark.parametrize("points", [None, 17])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_half_precision_logits_are_widened_and_finite(points, scale):
    queries, labels = some(dtype=torch.float32)
    half = [tuple((one.detach() * scale).bfloat16().requires_grad_() for one in layer) for layer in queries]
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        value = set_loss(half, labels, points)
    assert value.dtype == torch.float32
    torch.manual_seed(0)
    torch.testing.assert_close(value, set_loss([[one.float() for one in layer] for layer in half], labels, points))
    for gradient in torch.autograd.grad(value, [one for layer in half for one in layer]):
        assert gradient.isfinite().all()


def test_bad_input():
    queries, labels = some()
    with pytest.raises(FovealError, match="queries: expected those of one layer at least"):
        set_loss([], labels)
    with pytest.raises(FovealError, match=r"queries: expected \(B, N, K \+ 2\) and \(B, N, h, w\)"):
        set_loss([(queries[0][0][:, 1:], queries[0][1])], labels)
    with pytest.raises(FovealError, match="points: expected at least 1, got 0"):
        set_loss(queries, labels, points=0)
