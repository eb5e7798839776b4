"""Hints: a map that learns what another says, against loops and by hand."""

import math

import pytest
import torch

from foveal.losses.hints import Hints, standardised


def pooled(one, rows, columns):
    """The mean of the cells that share a cell of the coarser grid."""
    channels, height, width = len(one), len(one[0]), len(one[0][0])
    down, right = height // rows, width // columns
    return [
        [
            [
                sum(one[c][down * i + a][right * j + b] for a in range(down) for b in range(right)) / (down * right)
                for j in range(columns)
            ]
            for i in range(rows)
        ]
        for c in range(channels)
    ]


def by_loops(grids, maps, weights, biases):
    """The equation of losses/hints.py, image by image, channel by channel, cell by cell."""
    batch, losses = len(grids), [0.0] * len(grids)
    for one, weight, bias in zip(maps, weights, biases, strict=True):
        rows = min(len(grids[0][0]), len(one[0][0]))
        columns = min(len(grids[0][0][0]), len(one[0][0][0]))
        mine = [pooled(grid, rows, columns) for grid in grids]
        theirs = [pooled(image, rows, columns) for image in one]
        cells, wide = rows * columns, len(theirs[0])
        for c in range(wide):
            values = [image[c][i][j] for image in theirs for i in range(rows) for j in range(columns)]
            mean = sum(values) / len(values)
            deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
            for b in range(batch):
                for i in range(rows):
                    for j in range(columns):
                        said = bias[c] + sum(weight[c][k] * mine[b][k][i][j] for k in range(len(mine[b])))
                        wanted = (theirs[b][c][i][j] - mean) / deviation
                        losses[b] += (said - wanted) ** 2 / (cells * wide * len(maps))
    return losses


def test_against_loops():
    torch.manual_seed(0)
    hints = Hints(5, [3, 7]).double()
    grid = torch.randn(2, 5, 6, 4, dtype=torch.float64)
    maps = [torch.randn(2, 3, 12, 8, dtype=torch.float64) * 9 + 4, torch.randn(2, 7, 3, 2, dtype=torch.float64)]
    weights = [layer.weight[:, :, 0, 0].tolist() for layer in hints.linear]
    biases = [layer.bias.tolist() for layer in hints.linear]
    wanted = by_loops(grid.tolist(), [one.tolist() for one in maps], weights, biases)
    # the maps are compared in float32
    torch.testing.assert_close(hints(grid, maps).double(), torch.tensor(wanted, dtype=torch.float64), rtol=1e-5, atol=0)


def test_a_guess_without_looking_costs_one():
    hints, maps = Hints(5, [3]), [torch.randn(11, 3, 4, 4) * 7 - 2]
    for parameter in hints.parameters():
        torch.nn.init.zeros_(parameter)
    assert hints(torch.randn(11, 5, 4, 4), maps).mean().item() == pytest.approx(1.0, abs=1e-5)


def test_a_channel_that_is_the_same_everywhere_is_zero():
    maps = torch.randn(2, 3, 4, 4)
    maps[:, 1] = 3.0
    assert standardised(maps)[:, 1].abs().max() == 0
    assert standardised(maps)[:, 0].square().mean() == pytest.approx(1.0, abs=1e-5)


def test_what_is_a_linear_map_of_it_can_be_learned():
    torch.manual_seed(0)
    grid = torch.randn(7, 5, 4, 4)
    hints, maps = Hints(5, [3]), [torch.nn.functional.conv2d(grid, torch.randn(3, 5, 1, 1))]
    optimizer = torch.optim.LBFGS(hints.parameters(), max_iter=200)

    def closure():
        optimizer.zero_grad()
        loss = hints(grid, maps).mean()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > 0.5
    assert hints(grid, maps).mean().item() < 1e-4
