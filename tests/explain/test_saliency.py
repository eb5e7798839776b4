"""Where a model looked: against weights worked out from its parts, and models whose answer hangs on one place."""

import numpy as np
import pytest
import torch
from torch import nn

from foveal.core.watch import watch
from foveal.errors import FovealError
from foveal.explain.saliency import attention_maps, cell_of, gradient, occlusion, sides_of
from foveal.models.zoo import create
from foveal.runtime.saliency_maps import coarse, finer, shares, square_of


class Cell(nn.Module):
    """Class 1 is the brightness of one cell (rows 7:14, columns 21:28),
    class 0 minus that of the image's first pixel.
    """

    def forward(self, images):
        return torch.stack([-images[:, :, 0, 0].sum(1), images[:, :, 7:14, 21:28].mean((1, 2, 3))], 1)


def sigmoid(logits):
    return torch.sigmoid(logits).double().numpy()


def test_an_icam_looks_as_its_parts_say():
    torch.manual_seed(0)
    model = create("icam-31k", classes=3, image=24, patch=8, queries=5).eval()
    images = torch.randn(2, 3, 24, 56)
    looks = attention_maps(model, images)
    assert looks.layers == ("first query", "layer 1", "layer 2")
    assert [maps.shape for maps in looks.maps.values()] == [(2, 1, 5, 3, 7), (2, 2, 5, 3, 7), (2, 2, 5, 3, 7)]
    with torch.no_grad():
        _, memory = model.remember(images)
        queries = next(values for name, values in model.first.named_parameters() if values.shape == (5, 24))
        scores = model.first.q(queries) @ model.first.k(memory).transpose(1, 2) / 24**0.5
    np.testing.assert_allclose(
        looks.maps["first query"][:, 0], scores.softmax(-1).reshape(2, 5, 3, 7), rtol=1e-5, atol=1e-7
    )
    for maps in looks.maps.values():
        np.testing.assert_allclose(maps.sum((-1, -2)), 1, rtol=1e-5)
    first, one, two = (maps.mean((1, 2)) for maps in looks.maps.values())
    np.testing.assert_allclose(looks.average, (first + one + two) / 3)
    each = list(looks.each(1))
    assert len(each) == 5 + 10 + 10
    assert each[5 + 7][:3] == ("layer 1", 1, 2)
    np.testing.assert_array_equal(each[5 + 7][3], looks.maps["layer 1"][1, 1, 2])


def test_attention_on_its_map_is_no_place_that_a_query_looked_at():
    torch.manual_seed(0)
    build = {"classes": 3, "image": 24, "patch": 8, "attention": "NonLocal:gaussian"}
    model, images = create("icam-31k", **build).eval(), torch.randn(2, 3, 24, 56)
    with watch(model) as seen:
        model(images)
    assert any(name.startswith("attention") for name in seen)
    assert attention_maps(model, images).layers == ("first query", "layer 1", "layer 2")
    blind = create("icam-31k", **build, first="static", layers=0).eval()
    with pytest.raises(FovealError, match="no attention map can be had of this model: expected queries that look"):
        attention_maps(blind, images)


def test_the_map_lies_as_the_image_does():
    """What changes in one patch changes the weights of the others by a common factor:
    the odd one is where the change was.
    """
    torch.manual_seed(1)
    model = create("icam-31k", classes=2, image=24, patch=8, mixer=False).eval()
    images = torch.randn(1, 3, 24, 40)
    changed = images.clone()
    changed[:, :, 8:16, 24:32] += 2  # row 1, column 3
    before, after = (attention_maps(model, some).maps["first query"][0, 0, 0] for some in (images, changed))
    ratio = after / before
    odd = np.abs(ratio - np.median(ratio))
    assert np.unravel_index(odd.argmax(), odd.shape) == (1, 3)
    assert np.sort(odd.ravel())[-2] < 1e-4 * odd.max() + 1e-5


def test_looking_changes_nothing():
    model = create("icam-30k", classes=2, image=32, patch=16).eval()
    images = torch.randn(1, 3, 32, 32)
    before = model(images)
    assert not any(isinstance(maps, torch.Tensor) for maps in attention_maps(model, images).maps.values())
    torch.testing.assert_close(model(images), before)


def test_a_vit_looks_with_its_class_token():
    torch.manual_seed(0)
    model = create("deit-tiny", classes=2, image=96).eval()
    images = torch.randn(1, 3, 96, 96)
    looks = attention_maps(model, images)
    assert looks.sides == (6, 6)
    assert len(looks.layers) == 12
    with torch.no_grad(), watch(model, layers=looks.layers[4]) as seen:
        model(images)
    row = seen[looks.layers[4]].weights[0, 2, 0, 1:].double().numpy()
    np.testing.assert_allclose(looks.maps[looks.layers[4]][0, 2, 0].ravel(), row / row.sum(), rtol=1e-6)


def test_a_model_without_maps_is_named():
    images = torch.randn(1, 3, 35, 35)
    with pytest.raises(FovealError, match=r"no attention map can be had of this model: .*Cell"):
        attention_maps(Cell(), images)
    assert sides_of(Cell(), images) == (7, 7)
    tokens = nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(1225, 5, 7, batch_first=True)).eval()
    with pytest.raises(FovealError, match="3 queries on 3 keys"):
        attention_maps(tokens, images)
    with pytest.raises(FovealError, match=r"\(B, 3, S, S\)"):
        attention_maps(Cell(), images[0])


def test_gradient_by_hand():
    torch.manual_seed(0)
    weight, images = torch.randn(2, 3, 6, 10), torch.randn(2, 3, 6, 10)
    model = nn.Sequential(nn.Flatten(), nn.Linear(180, 2))
    model[1].weight.data = weight.flatten(1)
    found = gradient(model, images, [1, 0], (2, 5))
    by_hand = np.zeros((2, 2, 5))
    for image, target in enumerate((1, 0)):
        for row in range(6):
            for column in range(10):
                for channel in range(3):
                    by_hand[image, row // 3, column // 2] += abs(
                        float(images[image, channel, row, column] * weight[target, channel, row, column])
                    )
        by_hand[image] /= by_hand[image].sum()
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)
    assert model[1].weight.grad is None
    with torch.inference_mode():  # where predictions are made
        np.testing.assert_allclose(gradient(model, images, 1, (2, 5))[0], by_hand[0], rtol=1e-5)


def test_the_one_cell_that_counts():
    images = torch.rand(2, 3, 35, 35) - 0.5
    images[:, :, 7:14, 21:28] += 3
    for found in (
        gradient(Cell(), images, 1, (5, 5)),
        occlusion(lambda some: sigmoid(Cell()(some)), images, (5, 5))[:, 1],
    ):
        expected = np.zeros((2, 5, 5))
        expected[:, 1, 3] = 1
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_many_cells_are_hidden_in_squares():
    images, asked = torch.zeros(1, 3, 56, 56), []
    images[:, :, :4, :4] = 1

    def probability(some):
        asked.append(len(some))
        return some[:, :, :4, :4].mean((1, 2, 3), keepdim=False)[:, None].double().numpy()

    lost = occlusion(probability, images, (28, 28))
    assert sum(asked) == 1 + 14 * 14
    assert lost.shape == (1, 1, 28, 28)
    assert lost[0, 0, :2, :2].sum() == pytest.approx(1)  # all that it sees lies in the first square


@pytest.mark.parametrize(
    ("sides", "squares"),
    [
        ((28, 28), (14, 14)),
        ((14, 16), (14, 8)),
        ((17, 5), (9, 5)),
        ((5, 34), (5, 12)),
        ((64, 15), (13, 8)),
        ((80, 112), (14, 14)),
        ((1, 14), (1, 14)),
    ],
)
def test_no_map_has_more_than_14_squares_a_side(sides, squares):
    assert coarse(sides) == squares
    owner = square_of(3 * sides[0], 2 * sides[1], sides)
    assert sorted(set(owner.ravel().tolist())) == list(range(squares[0] * squares[1]))
    cells = owner.reshape(sides[0], 3, sides[1], 2)
    assert (cells == cells[:, :1, :, :1]).all()  # no cell is cut in two
    for ends, squares_there in ((cells[:, 0, 0, 0], squares[0]), (cells[0, 0, :, 0], squares[1])):
        counts = [ends.tolist().count(one) for one in sorted(set(ends.tolist()))]
        assert len(counts) == squares_there
        assert max(counts) - min(counts) <= 1


def test_cells_share_what_their_square_has():
    # 3 rows in 2 squares, of 2 and 1; 5 columns in 3, of 2, 2 and 1
    found = finer(np.array([[4.0, 8.0, 6.0], [2.0, 6.0, 5.0]]), (3, 5))
    assert found.tolist() == [[1, 1, 2, 2, 3], [1, 1, 2, 2, 3], [1, 1, 3, 3, 5]]
    assert finer(np.array([[[4.0, 8.0]]]), (2, 4)).tolist() == [[[1, 1, 2, 2]] * 2]


def test_unequal_squares_of_a_map_that_is_not_square():
    images, asked = torch.zeros(1, 3, 34, 15), []  # 17 rows of 2 pixels, 5 columns of 3: 9 × 5 squares
    images[:, :, 32:, 12:] = 1  # the last cell, with the one above it in the last square or alone

    def probability(some):
        asked.append(len(some))
        return some[:, :, 32:, 12:].mean((1, 2, 3))[:, None].double().numpy()

    lost = occlusion(probability, images, (17, 5))
    assert sum(asked) == 1 + 9 * 5
    alone = np.zeros((17, 5))
    rows = square_of(17, 1, (17, 5))[:, 0]
    alone[rows == rows[-1], 4] = 1 / (rows == rows[-1]).sum()
    np.testing.assert_allclose(lost[0, 0], alone, atol=1e-12)


def test_occlusion_by_hand():
    images = torch.zeros(1, 3, 35, 35)
    images[0, :, 7:14, 21:28] = 1
    images[0, :, 0, 0] = 4
    lost = occlusion(lambda some: Cell()(some).double().numpy(), images, (5, 5))  # every cell 7 pixels wide
    assert lost.shape == (1, 2, 5, 5)
    assert np.flatnonzero(lost[0, 1]).tolist() == [1 * 5 + 3]
    assert not lost[0, 0].any()  # without its first cell, class 0 gains: that is no loss


def test_what_is_never_given_is_not_lost():
    images = torch.zeros(1, 3, 35, 35)
    images[0, :, 7:14, 21:28] = 1
    blank = torch.zeros(35, 35, dtype=torch.bool)
    blank[7:14, 21:28] = True
    assert not occlusion(lambda some: Cell()(some).double().numpy(), images, (5, 5), blank=blank)[0, 1].any()


def test_cells_and_shares():
    assert cell_of(4, 6, (2, 3)).tolist() == [[0, 0, 1, 1, 2, 2]] * 2 + [[3, 3, 4, 4, 5, 5]] * 2
    assert cell_of(5, 1, (2, 1)).ravel().tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_array_equal(shares(np.array([[[1.0, 3.0]], [[0.0, 0.0]]])), [[[0.25, 0.75]], [[0, 0]]])


@pytest.mark.parametrize("target", [2, -1, [0, 1], 0.5, [True], [[0]]])
def test_answers_that_are_not_there(target):
    with pytest.raises(FovealError, match="from 0 to 1"):
        gradient(Cell(), torch.randn(1, 3, 35, 35), target)
