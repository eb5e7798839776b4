"""A non-local block in its four forms, by hand, beside torch and beside MONAI.

What holds for all modules: tests/test_every.py.
"""

import math

import onnxruntime
import pytest
import torch
from case import error
from grid import first_is_quick
from layers.carry import scatter
from oracle.non_local import like
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from foveal.core.watch import watch
from foveal.errors import FovealError
from foveal.report.catalogue import find
from foveal.vision.non_local import FORMS, Concatenation, DotProduct, EmbeddedGaussian, NonLocal


def maps(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@torch.no_grad()
def set_to_identity(layer, form):
    """θ, φ, g and W_z pass on what they are given; w_f = (1, 1)."""
    projections = [layer.value, layer.out, *([] if form == "gaussian" else [layer.form.query, layer.form.key])]
    for part in projections:
        part.weight.copy_(torch.eye(*part.weight.shape))
        part.bias.zero_()
    if form == "concatenation":
        layer.form.joint.fill_(1.0)


@pytest.mark.parametrize(
    ("form", "y"),
    [
        # Two places that say 0 and r = √ln 3: f is (e⁰, e⁰) and (e⁰, e^{r²}) = (1, 3), so y = r/2 and 3r/4.
        ("gaussian", (1 / 2, 3 / 4)),
        ("embedded_gaussian", (1 / 2, 3 / 4)),
        # f is (0, 0) and (0, r²); y = 0 and r²·r/2.
        ("dot_product", (0.0, math.log(3) / 2)),
        # f is (0, r) and (r, 2r); y = r·r/2 and 2r·r/2.
        ("concatenation", (math.log(3) ** 0.5 / 2, math.log(3) ** 0.5)),
    ],
)
def test_by_hand(form, y):
    layer = NonLocal(1, 1, form=form, norm=nn.Identity()).double()
    set_to_identity(layer, form)
    root = math.log(3) ** 0.5
    z = layer(torch.tensor([[[[0.0, root]]]], dtype=torch.float64))
    assert error(z, torch.tensor([[[[y[0] * root, root + y[1] * root]]]], dtype=torch.float64)) < 1e-12


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("shape", "pool"), [((2, 6, 3, 7), 1), ((2, 6, 3, 7), 2), ((2, 3, 6, 2, 5), 1), ((2, 3, 6, 2, 5), 3)]
)
@pytest.mark.parametrize("norm", [nn.Identity(), nn.GroupNorm(3, 6), nn.BatchNorm2d(6)])
def test_it_is_the_oracle(form, shape, pool, norm):
    layer = scatter(NonLocal(6, 5, form=form, pool=pool, norm=norm).double()).eval()
    x = 0.5 * maps(*shape)
    with torch.no_grad():
        assert error(layer(x), torch.tensor(like(layer, x), dtype=torch.float64)) < 1e-10


@pytest.mark.parametrize("shape", [(2, 6, 3, 7), (2, 3, 6, 2, 5)])
def test_it_equals_monai(shape):
    """Its spatial attention, of maps and of volumes: our frames. It norms what it reads, and we what we add."""
    from monai.networks.blocks import SpatialAttentionBlock

    theirs = scatter(SpatialAttentionBlock(spatial_dims=len(shape) - 2, num_channels=6, norm_num_groups=1).double())
    theirs.norm = nn.Identity()
    ours = NonLocal(6, 6, norm=nn.Identity()).double()
    with torch.no_grad():
        attention = theirs.attn
        for part, linear, scale in (
            (ours.form.query, attention.to_q, 6**-0.5),
            (ours.form.key, attention.to_k, 1),
            (ours.value, attention.to_v, 1),
            (ours.out, attention.out_proj, 1),
        ):
            part.weight.copy_(linear.weight * scale)
            part.bias.copy_(linear.bias * scale)
    x = maps(*shape)
    want = theirs(x) if len(shape) == 4 else theirs(x.transpose(1, 2)).transpose(1, 2)
    assert error(ours(x), want) < 1e-12


def test_it_equals_torch():
    # torch's own attention with one head, whose scale 1/√D is taken out of W_q.
    theirs = scatter(nn.MultiheadAttention(6, 1, batch_first=True).double())
    ours = NonLocal(6, 6, norm=nn.Identity()).double()
    q, k, v = zip(theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True)
    with torch.no_grad():
        for part, (weight, bias), scale in ((ours.form.query, q, 6**-0.5), (ours.form.key, k, 1), (ours.value, v, 1)):
            part.weight.copy_(weight * scale)
            part.bias.copy_(bias * scale)
    ours.out.load_state_dict(theirs.out_proj.state_dict())
    x = maps(2, 6, 3, 7)
    tokens = x.flatten(2).transpose(1, 2)
    change = theirs(tokens, tokens, tokens)[0].transpose(1, 2).view(2, 6, 3, 7)
    assert error(ours(x), x + change) < 1e-12


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("norm", [None, nn.GroupNorm(2, 6), nn.Identity(), nn.BatchNorm2d(6, affine=False)])
def test_it_begins_as_the_identity_and_can_learn(form, norm):
    layer, x = NonLocal(6, form=form, norm=norm), maps(2, 6, 3, 7).float()
    z = layer(x)
    assert error(z, x) == 0
    (z * maps(2, 6, 3, 7).float()).sum().backward()
    first = layer.out.weight if getattr(layer.norm, "weight", None) is None else layer.norm.weight
    assert first.grad.any()


def test_the_norm_is_batch_norm_over_places_and_frames():
    layer = scatter(NonLocal(6, norm=nn.Identity()).double())
    normed = NonLocal(6).double()
    normed.load_state_dict(layer.state_dict(), strict=False)
    with torch.no_grad():
        normed.norm.weight.copy_(maps(6))
        normed.norm.bias.copy_(maps(2, 6)[1])
    for x in (maps(5, 6, 3, 7), maps(5, 3, 6, 2, 7)):
        change = (layer(x) - x).movedim(-3, 1).flatten(2)
        expected = nn.functional.batch_norm(change, None, None, normed.norm.weight, normed.norm.bias, training=True)
        found = (normed(x) - x).movedim(-3, 1).flatten(2)
        assert error(found, expected) < 1e-12


@pytest.mark.parametrize("form", ["gaussian", "embedded_gaussian"])
def test_watch_sees_its_weights(form):
    layer, x = scatter(NonLocal(6, form=form, pool=2).double()), 0.3 * maps(2, 6, 3, 7)
    with watch(layer) as seen:
        layer(x)
    tokens = x.flatten(2).transpose(1, 2)
    keys = nn.functional.max_pool2d(x, 2, ceil_mode=True).flatten(2).transpose(1, 2)
    q, k = (tokens, keys) if form == "gaussian" else (layer.form.query(tokens), layer.form.key(keys))
    assert error(seen["form"].weights, (q @ k.transpose(1, 2)).softmax(-1)[:, None]) < 1e-12


def test_a_video_sees_all_of_its_frames():
    layer = scatter(NonLocal(6, norm=nn.Identity()).double())
    frames = maps(2, 5, 6, 3, 2)
    # all frames as one map, which a block without pooling cannot tell
    tall = frames.transpose(1, 2).reshape(2, 6, 15, 2)
    assert error(layer(frames).transpose(1, 2).reshape(2, 6, 15, 2), layer(tall)) < 1e-12


@pytest.mark.parametrize(("places", "others"), [(2, 2), (13, 13), (13, 2), (3, 13)])
def test_the_dot_product_takes_the_cheaper_order(places, others):
    form, x, keys, values = (
        scatter(DotProduct(6, 5).double()),
        maps(2, places, 6),
        maps(2, others, 6),
        maps(2, others, 7),
    )
    expected = form.query(x) @ form.key(keys).mT @ values / others
    with FlopCounterMode(display=False) as counter:
        y = form(x, keys, values)
    assert error(y, expected) < 1e-12
    pairs, sums = places * others * (5 + 7), (places + others) * 5 * 7
    assert counter.get_total_flops() == 2 * 2 * (6 * 5 * (places + others) + min(pairs, sums))


def test_an_exported_dot_product_decides_nothing_by_the_size_of_its_example():
    few, places = (maps(2, 3, 6), maps(2, 3, 6), maps(2, 3, 7)), torch.export.Dim("places")
    form = scatter(DotProduct(6, 5).double())
    graph = torch.export.export(form, few, dynamic_shapes=({1: places},) * 3).module()
    many = maps(2, 13, 6), maps(2, 13, 6), maps(2, 13, 7)
    with FlopCounterMode(display=False) as counter:
        y = graph(*many)
    assert error(y, form(*many)) < 1e-12
    assert counter.get_total_flops() == 2 * 2 * 26 * (6 * 5 + 5 * 7)


def test_a_form_is_a_part():
    class Mean(nn.Module):
        def forward(self, x, keys, values):
            return values.mean(1, keepdim=True).expand(-1, x.shape[1], -1)

    layer, x = NonLocal(6, 6, form=Mean(), norm=nn.Identity()).double(), maps(2, 6, 3, 7)
    set_to_identity(layer, "gaussian")
    assert error(layer(x), x + x.mean((2, 3), keepdim=True)) < 1e-12
    assert isinstance(NonLocal(6, form="concatenation").form, Concatenation)
    given = EmbeddedGaussian(6, 5)
    assert NonLocal(6, 3, form=given).form is given


@pytest.mark.parametrize("form", first_is_quick(FORMS))
@torch.no_grad()
def test_it_exports_for_maps_of_any_size(form, tmp_path):
    layer = scatter(NonLocal(6, form=form, pool=2)).eval()
    path = str(tmp_path / "map.onnx")
    sizes = {axis: torch.export.Dim(name) for axis, name in ((0, "batch"), (2, "height"), (3, "width"))}
    torch.onnx.export(
        layer,
        (torch.randn(2, 6, 5, 7),),
        path,
        dynamo=True,
        verbose=False,
        input_names=["maps"],
        dynamic_shapes=(sizes,),
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in ((1, 6, 4, 4), (3, 6, 9, 5)):
        x = 0.3 * maps(*shape).float()
        (z,) = session.run(None, {"maps": x.numpy()})
        assert error(torch.from_numpy(z), layer(x)) < 1e-5


@pytest.mark.parametrize("form", FORMS)
def test_it_runs_under_autocast_and_on_no_maps(form):
    layer, x = scatter(NonLocal(6, form=form, pool=2)).eval(), 0.3 * maps(2, 6, 3, 7).float()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert error(layer(x), layer.double()(x.double())) < 0.05
    assert layer.float()(torch.rand(0, 6, 3, 7)).shape == (0, 6, 3, 7)


def test_it_can_be_cited():
    assert "Girshick, Ross" in find("non_local").papers[0].bibtex()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: NonLocal(0), "NonLocal's width: expected an integer, at least 1, got 0"),
        (lambda: NonLocal(6, 0), "NonLocal's hidden: expected an integer, at least 1, got 0"),
        (lambda: NonLocal(6, pool=0), "NonLocal's pool: expected an integer, at least 1, got 0"),
        (
            lambda: NonLocal(6, form="embeded_gaussian"),
            "no form of NonLocal is called 'embeded_gaussian'; the nearest is",
        ),
        (
            lambda: NonLocal(6, form=DotProduct),
            "NonLocal's form: expected a layer (torch.nn.Module), got the class DotProduct",
        ),
        (lambda: NonLocal(6, form=DotProduct(5, 3)), "NonLocal's form: expected one of width 6, got 5"),
        (lambda: NonLocal(6, norm=nn.BatchNorm2d), "NonLocal's norm: expected a layer"),
        (lambda: NonLocal(6)(torch.rand(2, 5, 3, 3)), "NonLocal's maps: expected (B, 6, h, w), got (2, 5, 3, 3)"),
        (
            lambda: NonLocal(6)(torch.rand(2, 6, 5, 3, 3)),
            "NonLocal's video: expected (B, T, 6, h, w), got (2, 6, 5, 3, 3)",
        ),
        (lambda: NonLocal(6)(torch.rand(2, 6, 0, 3)), "got (2, 6, 0, 3)"),
        (lambda: NonLocal(6)(None), "NonLocal's maps: expected (B, 6, h, w), got None"),
        (
            lambda: NonLocal(6)(torch.rand(2, 6, 3, 3).double()),
            "expected torch.float32, as its weights, got torch.float64",
        ),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
