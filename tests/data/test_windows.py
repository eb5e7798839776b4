"""Windows of images and label maps: image and map move together."""

import pytest
import torch

from foveal.data.augment import VARIATIONS, Variation
from foveal.data.windows import Labelled, drawn_window, reflected, shown, shown_labels


def sample(height=13, width=17):
    """An image whose colour says where a pixel is, and whose label says its column."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    image = torch.stack([columns * 10, rows * 10, torch.zeros_like(rows)], -1).to(torch.uint8)
    return Labelled(image, columns.to(torch.uint8))


def test_a_window_of_the_images_own_size_is_the_image():
    one = sample(11, 11)
    matrix = torch.tensor([[11.0, 0.0, 5.5], [0.0, 11.0, 5.5]])
    image, labels = shown(one, matrix, 11)
    assert torch.allclose(image * 255, one.image.permute(2, 0, 1).float(), atol=1e-3)
    assert torch.equal(labels, one.labels.long())


def test_a_window_inside_is_cut_out():
    one = sample()
    image, labels = shown(one, torch.tensor([[5.0, 0.0, 7.5], [0.0, 5.0, 6.5]]), 5)
    assert torch.equal(labels, one.labels[4:9, 5:10].long())
    assert torch.allclose(image * 255, one.image[4:9, 5:10].permute(2, 0, 1).float(), atol=1e-3)


@pytest.mark.parametrize("name", sorted(name for name, one in VARIATIONS.items() if one is not None))
def test_image_and_labels_move_together(name):
    """Red is ten times the column, and so is the label, wherever the window lies and however it is turned."""
    one, v = sample(23, 23), VARIATIONS[name]
    for seed in range(20):
        torch.manual_seed(seed)
        matrix = drawn_window(one.labels, 16, v)
        image, labels = shown(one, matrix, 16)
        assert image.shape == (3, 16, 16)
        assert labels.shape == (16, 16)
        # the nearest pixel is at most half a pixel away, and at the border a pixel is repeated
        assert (image[0] * 25.5 - labels).abs().max() <= 0.51


def test_a_window_shows_what_it_is_laid_on():
    one, v = sample(40, 60), Variation(turn=30, zoom=0.3, transposed=True, upside_down=True)
    for seed in range(50):
        torch.manual_seed(seed)
        _, labels = shown(one, drawn_window(one.labels, 16, v, (41.0, 20.0)), 16)
        assert labels.min() <= 41 <= labels.max()


def test_windows_lie_everywhere_in_an_image_and_not_outside():
    one = sample(40, 60)
    torch.manual_seed(0)
    middles = torch.stack([drawn_window(one.labels, 16, Variation())[:, 2] for _ in range(300)])
    low, high = middles.min(0)[0], middles.max(0)[0]
    assert (low >= 8).all()
    assert (low < 10).all()
    assert high[0] <= 52
    assert high[0] > 50
    assert 30 < high[1] <= 32


def test_a_small_image_is_reflected():
    one = sample(4, 4)
    _, labels = shown(one, torch.tensor([[8.0, 0.0, 2.0], [0.0, 8.0, 2.0]]), 8)
    assert labels[0].tolist() == [1, 0, 0, 1, 2, 3, 3, 2]


def test_reflections_of_places():
    assert reflected(torch.tensor([-0.5, 0.5, 3.5, 4.5, 8.5]), 4).tolist() == [0.5, 0.5, 3.5, 3.5, 0.5]


def test_without_a_variation_a_window_lies_as_its_image():
    one = sample(23, 29)
    for seed in range(10):
        torch.manual_seed(seed)
        matrix = drawn_window(one.labels, 16)
        assert matrix[:, :2].tolist() == [[16, 0], [0, 16]]


def test_a_crop_shows_a_part_of_the_window():
    """Its area is at least what it says, and its sides differ by at most the stretch."""
    one, v = sample(40, 60), Variation(crop=0.55, stretch=0.25)
    torch.manual_seed(0)
    sides = torch.stack([drawn_window(one.labels, 16, v)[:, :2].abs().sum(1) for _ in range(300)]) / 16
    area, wider = sides.prod(1), sides[:, 0] / sides[:, 1]
    assert sides.max() <= 1
    assert 0.55 * 0.77 < area.min() < 0.6  # what would be wider than the window is cut
    assert wider.min() < 0.85
    assert wider.max() > 1.2
    assert wider.log().abs().max() <= 0.25


def test_a_shift_reaches_over_the_border_by_its_share_of_the_side():
    one, v = sample(40, 60), Variation(shift=0.1)
    torch.manual_seed(0)
    middles = torch.stack([drawn_window(one.labels, 16, v)[:, 2] for _ in range(500)])
    low, high = middles.min(0)[0], middles.max(0)[0]
    assert (low >= 8 - 1.6 - 1e-4).all()
    assert (low < 7).all()
    assert 53 < high[0] <= 53.6 + 1e-4


def test_labels_alone_are_those_beside_the_image():
    one = sample(23, 29)
    torch.manual_seed(0)
    matrix = drawn_window(one.labels, 16, VARIATIONS["strong"])
    assert torch.equal(shown_labels(one.labels, matrix, 16), shown(one, matrix, 16)[1])
