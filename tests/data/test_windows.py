"""Windows of images and label maps: image and map move together, and findings are pasted where they are allowed."""

import pytest
import torch

from foveal.data.augment import VARIATIONS, Variation
from foveal.data.windows import Labelled, drawn_window, pasted, reflected, shown


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
        matrix = drawn_window(one, 16, v)
        image, labels = shown(one, matrix, 16)
        assert image.shape == (3, 16, 16)
        assert labels.shape == (16, 16)
        # the nearest pixel is at most half a pixel away, and at the border a pixel is repeated
        assert (image[0] * 25.5 - labels).abs().max() <= 0.51


def test_a_window_shows_what_it_is_laid_on():
    one, v = sample(40, 60), Variation(turn=30, zoom=0.3, transposed=True, upside_down=True)
    for seed in range(50):
        torch.manual_seed(seed)
        _, labels = shown(one, drawn_window(one, 16, v, (41.0, 20.0)), 16)
        assert labels.min() <= 41 <= labels.max()


def test_windows_lie_everywhere_in_an_image_and_not_outside():
    one = sample(40, 60)
    torch.manual_seed(0)
    middles = torch.stack([drawn_window(one, 16, Variation())[:, 2] for _ in range(300)])
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


def test_findings_are_pasted_with_their_labels():
    images, labels = torch.full((2, 3, 8, 8), 0.5), torch.zeros(2, 8, 8, dtype=torch.long)
    labels[0, 2:4, 3:6] = 2
    images[0, :, 2:4, 3:6] = 0.9
    for seed in range(10):
        torch.manual_seed(seed)
        found, truth = pasted(images, labels, torch.tensor([False, True]))
        assert torch.equal(found[0], images[0])
        assert torch.equal(truth[0], labels[0])
        assert (truth[1] == 2).sum() == 6
        assert torch.allclose(found[1][:, truth[1] == 2], torch.tensor(0.9))
        assert torch.allclose(found[1][:, truth[1] == 0], torch.tensor(0.5))


def test_pasted_findings_are_as_bright_against_their_surroundings_as_before():
    images, labels = torch.full((2, 3, 8, 8), 0.5), torch.zeros(2, 8, 8, dtype=torch.long)
    images[1] = 0.2
    labels[0, :3, :3], images[0, :, :3, :3] = 1, 0.8
    torch.manual_seed(1)
    found, truth = pasted(images, labels, torch.tensor([False, True]))
    assert torch.allclose(found[1][:, truth[1] == 1], torch.tensor(0.5))


def test_a_finding_that_fills_its_window_is_pasted_and_no_number_is_lost():
    images, labels = torch.rand(2, 3, 8, 8), torch.zeros(2, 8, 8, dtype=torch.long)
    labels[0] = 1
    found, truth = pasted(images, labels, torch.tensor([False, True]))
    assert found.isfinite().all()
    assert (truth[1] == 1).all()


@pytest.mark.parametrize("labels", [0, 255])
def test_without_findings_nothing_is_pasted(labels):
    images, maps = torch.rand(2, 3, 8, 8), torch.full((2, 8, 8), labels)
    found, truth = pasted(images, maps, torch.tensor([True, True]))
    assert torch.equal(found, images)
    assert torch.equal(truth, maps)
