"""What a notebook shows of a mask and of a record."""

import io
import subprocess
import sys

import pytest
import torch
from PIL import Image

from foveal import attend, watch
from foveal.core.algebra import Given
from foveal.core.notebook import EDGE, INK, PAPER, picture
from foveal.core.watch import Statistics
from foveal.errors import FovealError
from foveal.mask import bigbird, causal, padding, window


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png))


def test_a_map_by_hand():
    image = picture(torch.tensor([[1.0, 0.0, 0.0], [0.5, 2.0, torch.nan]]))
    cell = 320 // 3
    assert image.size == (3 * cell + 2 * EDGE, 2 * cell + 2 * EDGE)
    at = [[image.getpixel((EDGE + j * cell + 5, EDGE + i * cell + 5)) for j in range(3)] for i in range(2)]
    assert at[0] == [INK, PAPER, PAPER]
    assert at[1][1:] == [INK, PAPER]
    assert all(low < value < high for value, low, high in zip(at[1][0], INK, PAPER, strict=True))


def test_labels_stand_beside_the_map():
    bare, image = picture(torch.eye(3)), picture(torch.eye(3), ["the", "quick", "fox"], ["der", "schnelle", "Fuchs"])
    assert image.size[0] > bare.size[0]
    assert image.size[1] > bare.size[1]
    assert len(set(image.crop((0, image.height // 2, 20, image.height)).getdata())) > 1  # something is written there
    assert len(set(image.crop((60, 0, image.width, 20)).getdata())) > 1
    with pytest.raises(FovealError, match="row_labels: expected one for each of 3, got 2"):
        picture(torch.eye(3), ["a", "b"])


@pytest.mark.parametrize(
    "mask", [causal, bigbird(2, 2), ~causal, causal & padding([3, 20]), Given(torch.eye(5, dtype=torch.bool))], ids=repr
)
def test_a_mask_draws_itself(mask):
    image = opened(mask._repr_png_())
    assert image.size == (332, 332)
    assert len(image.getcolors()) >= 2


def test_a_mask_of_another_size_draws_nothing():
    assert window(h=3, w=5, size=2)._repr_png_() is None


def test_a_record_draws_its_weights():
    q = torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(0))
    with watch() as seen:
        attend(q, q, q, mask=causal)
    record = seen["attend"]
    words = list("abcde")
    image = record.picture(words, words, sample=1, head=2)
    assert image.size[0] > 320
    assert record.picture().size == opened(record._repr_png_()).size == (332, 332)
    assert record.picture().getpixel((EDGE + 3, EDGE + 3)) == INK  # the first query looks at itself alone
    assert record.picture().getpixel((EDGE + 300, EDGE + 3)) == PAPER
    assert record.picture(head=0).tobytes() != record.picture(head=1).tobytes()
    with pytest.raises(FovealError, match="the picture's head: expected below 3, got 3"):
        record.picture(head=3)
    with watch(keep=Statistics()) as seen:
        attend(q, q, q)
    assert seen["attend"]._repr_png_() is None


def test_pillow_is_loaded_only_to_draw():
    code = (
        "import sys, foveal; foveal.watch; foveal.mask.causal; assert 'PIL' not in sys.modules; "
        "foveal.mask.causal._repr_png_(); assert 'PIL' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
