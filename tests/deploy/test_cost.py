import pytest
import torch
from torch import nn
from torch.nn import functional as F

from foveal.core.attend import attend
from foveal.core.pattern.causal import causal
from foveal.deploy.measure.cost import flops, parameters
from foveal.errors import FovealError
from foveal.layers.multihead import MultiHead
from foveal.models.zoo import create


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def test_weights_that_are_shared_count_once():
    first = nn.Linear(3, 5)
    assert parameters(nn.Sequential(first, nn.Linear(5, 7, bias=False))) == 3 * 5 + 5 + 5 * 7
    assert parameters(nn.Sequential(first, first)) == 3 * 5 + 5
    assert parameters(nn.BatchNorm2d(3)) == 6  # what it has counted is no weight


def test_products_by_hand():
    image = torch.randn(2, 6, 11, 13)
    assert flops(nn.Linear(3, 5), torch.randn(7, 3)) == 2 * 7 * 3 * 5
    assert flops(nn.Conv2d(6, 5, 3, padding=1), image) == 2 * 2 * 11 * 13 * 5 * 6 * 9
    assert flops(nn.Conv2d(6, 6, 3, padding=1, groups=6), image) == 2 * 2 * 11 * 13 * 6 * 9
    assert flops(nn.Conv2d(6, 5, 1, stride=2), image) == 2 * 2 * 6 * 7 * 5 * 6
    assert flops(nn.Sequential(nn.BatchNorm2d(6), nn.SiLU(), nn.AdaptiveAvgPool2d(1)), image) == 0


@pytest.mark.parametrize("kernel", ["auto", "explicit", "flash", "blocks"])
def test_attention_counts_the_same_by_every_kernel(kernel):
    q, k = torch.randn(2, 6, 11, 8), torch.randn(2, 3, 7, 8)
    work = 2 * 2 * 6 * 11 * 7 * (8 + 8)
    assert flops(Function(lambda q, k: attend(q, k, k, kernel=kernel)), q, k) == work


def test_attention_of_torch_counts_and_a_fused_mask_saves_nothing():
    q, v = torch.randn(2, 3, 11, 8), torch.randn(2, 3, 11, 5)
    assert flops(Function(F.scaled_dot_product_attention), q, q, q) == 2 * 2 * 3 * 11 * 11 * 16
    assert flops(Function(F.scaled_dot_product_attention), q, q, v) == 2 * 2 * 3 * 11 * 11 * 13
    assert flops(Function(lambda q: attend(q, q, q, mask=causal)), q) == 2 * 2 * 3 * 11 * 11 * 16


def test_a_layer_by_hand():
    # q, k, v and out of 14 → 14 for 11 tokens, and 11 × 11 pairs.
    assert flops(MultiHead(14, 7), torch.randn(2, 11, 14)) == 2 * 2 * (4 * 11 * 14 * 14 + 2 * 11 * 11 * 14)


@pytest.mark.filterwarnings("ignore")
def test_what_runs_as_one_operation_is_counted_too():
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(3, 5, 8)
    assert flops(layer.eval(), x) == 2 * 3 * (5 * (4 * 8 * 8 + 2 * 8 * 16) + 2 * 5 * 5 * 8)
    assert torch.backends.mha.get_fastpath_enabled()
    compiled = torch.compile(nn.Linear(3, 5), backend="eager")
    compiled(torch.randn(7, 3))
    assert flops(compiled, torch.randn(7, 3)) == 2 * 7 * 3 * 5


def test_icam():
    # Only products: 0.15 GFLOP, nearly all of them in Φ. Twice the images are twice the work.
    model, image = create("icam-31k"), torch.randn(1, 3, 224, 224)
    cells = 112 * 112
    stem, one = cells * 27 * 32, cells * (9 * 32 + 32 * 16)
    two = cells * 16 * 96 + cells // 4 * (9 * 96 + 96 * 24)
    three = cells // 4 * (24 * 144 + 9 * 144 + 144 * 24)
    squeeze = 16 * 2 * (32 * 8 + 96 * 4 + 144 * 6)
    phi = 2 * (stem + one + two + three + squeeze)
    assert flops(model.phi, torch.randn(16, 3, 56, 56)) == phi
    whole = flops(model, image)
    assert 1 < whole / phi < 1.002
    assert whole == pytest.approx(0.152e9, rel=0.005)
    # Q_latent is projected once for all
    assert flops(model, image.repeat(2, 1, 1, 1)) == pytest.approx(2 * whole, rel=1e-3)


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5)).train()
    model[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flops(model, torch.randn(7, 3))
    assert model.training
    assert model[0].training
    assert not model[1].training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_it_is_left_as_it_was_after_an_error():
    model = nn.Linear(3, 5)
    with pytest.raises(RuntimeError):
        flops(model, torch.randn(7, 4))
    assert model.training
    assert torch.is_grad_enabled()
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("count", [parameters, flops])
def test_what_is_no_model(count):
    with pytest.raises(FovealError, match=r"the model: expected a torch\.nn\.Module, got 3"):
        count(3)
