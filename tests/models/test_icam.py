import contextlib
import copy
import io
import math

import onnxruntime
import pytest
import torch
from grid import first_is_quick
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near, scatter
from oracle.icam import adaptive, like
from torch import nn

import foveal
from foveal.errors import FovealError
from foveal.models.first_queries import FIRST
from foveal.models.icam import POSITIONS, Icam, IcamConfig
from foveal.models.mbconv import Stage
from foveal.models.patches import cut, grid_of
from foveal.models.zoo import create, presets
from foveal.vision.same_shape import SAME_SHAPE

SMALL = {
    "classes": 5,
    "image": 21,
    "patch": 7,
    "stem": 3,
    "stages": (Stage(13, expand=2),),
    "width": 15,
    "heads": 3,
    "hidden": 11,
    "queries": 2,
}


def small(**changes):
    """A model in float64 whose weights are all stirred, counted statistics of BatchNorm too."""
    model = scatter(Icam(IcamConfig(**{**SMALL, **changes})).double().eval())
    generator = torch.Generator().manual_seed(5)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.copy_(torch.randn(part.num_features, generator=generator))
            part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
    return model


def images(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


# --- the presets ------------------------------------------------------------------------------------------------------


def test_the_plain_build_has_its_weights():
    model = create("icam-30k")
    parts = {name: count(part) for name, part in model.named_children() if count(part)}
    assert parts == {
        "phi": 19_090,
        "norm": 48,
        "embed": 600,
        "position": 384,
        "first": 24,
        "layers": 8_592,
        "out": 600,
        "head": 353,
    }
    assert count(model) == 29_691


def test_the_published_build_has_its_weights():
    model = create("icam-31k")
    assert count(model) == 31_371
    assert count(model.phi) + count(model.mixer) + count(model.norm) == 19_402
    assert count(model.embed) + count(model.first) + count(model.layers) + count(model.out) == 11_616
    assert count(model.head) == 353


def test_the_fast_build_has_its_weights():
    model = create("icam-fast")
    assert count(model) == 42_797
    assert model.remember(torch.zeros(1, 3, 224, 224))[1].shape == (1, 196, 24)


def test_the_build_for_imagenet_has_the_start_of_lite0():
    model, lite = create("icam-lite"), create("efficientnet-lite0")
    assert count(model) == 42_055
    assert [str(part) for part in model.phi] == [str(part) for part in list(lite.stages)[:5]]  # padding, ε and all
    for name in ("position", "first", "mixer", "width", "heads", "hidden"):
        assert getattr(model.config, name) == getattr(create("icam-31k").config, name), name
    assert model.remember(torch.zeros(1, 3, 224, 224))[1].shape == (1, 784, 24)
    assert model.normalisation == lite.normalisation == ((127 / 255,) * 3, (128 / 255,) * 3)


@torch.no_grad()
def test_a_pooled_build_begins_with_what_its_pools_say():
    model, image = Icam(IcamConfig(**SMALL, pooled=True)).eval(), images(2, 3, 14, 21, dtype=torch.float32)
    cells = model.see(image).flatten(1, 2)
    pools = torch.cat([cells.mean(1), cells.amax(1)], 1)
    assert torch.equal(model(image), model.pooled.linear(model.pooled.norm(pools)))


def test_what_pools_answer_does_not_hang_on_the_scale_of_phi():
    """Φ of ImageNet's weights gives maps that reach 49: the logits begin as small as those of other models."""
    torch.manual_seed(0)
    model = Icam(IcamConfig(**SMALL, pooled=True))
    image = images(7, 3, 14, 21, dtype=torch.float32)
    see = model.see
    model.see = lambda x: 40 * see(x) + 30
    assert model(image).std() < 1.5
    with pytest.raises(
        FovealError, match="Icam's images: expected 2 or more at once to train `pooled`, got 1; raise the batch"
    ):
        model(image[:1])


@pytest.mark.parametrize("name", list(presets("icam")))
def test_a_preset_takes_images_of_224_and_knows_its_classes(name):
    model = create(name, classes=18).eval()
    with torch.no_grad():
        assert model(torch.randn(2, 3, 224, 224)).shape == (2, 18)


# --- the patches ------------------------------------------------------------------------------------------------------


def test_patches_are_cut_row_by_row():
    # Two images of 2 × 3 patches of 2 × 2 pixels; a pixel is worth 1000·image + 100·channel + 10·row + column.
    b, c, y, x = (torch.arange(size) for size in (2, 3, 4, 6))
    image = 1000 * b[:, None, None, None] + 100 * c[:, None, None] + 10 * y[:, None] + x
    patches, rows, columns = cut(image, 2)
    assert (rows, columns) == (2, 3)
    assert patches.shape == (12, 3, 2, 2)
    assert patches[0, 0].tolist() == [[0, 1], [10, 11]]
    assert patches[1, 0].tolist() == [[2, 3], [12, 13]]
    assert patches[3, 2].tolist() == [[220, 221], [230, 231]]
    assert patches[6 + 5, 1].tolist() == [[1124, 1125], [1134, 1135]]


@pytest.mark.parametrize("pool", [1, 2])
def test_every_cell_stands_where_the_image_has_it(pool):
    """Φ that passes pixels on, on an image whose pixels tell their place:
    the tokens must lie as the pooled image does.
    """

    class Same(nn.Module):
        width = 3

        def forward(self, x):
            return x

    model = Icam(
        IcamConfig(
            **{**SMALL, "image": 12, "patch": 4, "pool": pool, "heads": 1, "width": 3, "position": "sinusoidal"}
        ),
        Same(),
    )
    model.norm, model.embed = nn.Identity(), nn.Identity()
    model.norm.normalized_shape, model.embed.weight = (3,), model.out.weight
    image = images(2, 3, 8, 12, dtype=torch.float32)
    content, _ = model.eval().remember(image)
    pooled = nn.functional.avg_pool2d(image, 4 // pool)  # (B, 3, 2·pool, 3·pool)
    assert near(content, pooled.flatten(2).transpose(1, 2), 1e-6)


# --- the oracle -------------------------------------------------------------------------------------------------------


def features(model, image):
    """Φ of each patch by itself, pooled, laid out in one grid [row][column][channel] for each image."""
    patch, pool = model.config.patch, model.config.pool
    rows, columns = image.shape[2] // patch, image.shape[3] // patch
    grids = []
    for one in image:
        grid = [[None] * (columns * pool) for _ in range(rows * pool)]
        for r in range(rows):
            for c in range(columns):
                piece = one[None, :, r * patch : (r + 1) * patch, c * patch : (c + 1) * patch]
                cells = model.pool(model.phi(piece))[0]
                for y in range(pool):
                    for x in range(pool):
                        grid[r * pool + y][c * pool + x] = cells[:, y, x].tolist()
        grids.append(grid)
    return grids


@pytest.mark.parametrize("value_position", [True, False])
@pytest.mark.parametrize("mixer", [False, True])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("first", FIRST)
@torch.no_grad()
def test_it_is_the_oracle(first, position, mixer, value_position):
    model = small(first=first, position=position, mixer=mixer, queries=2 if mixer else 1, value_position=value_position)
    image = images(2, 3, 14, 21)  # 2 × 3 patches: the learned table of 3 × 3 is stretched
    want = torch.tensor(like(model, features(model, image)), dtype=torch.float64)
    assert near(model(image), want, 1e-9)


@torch.no_grad()
def test_it_is_the_oracle_with_cells_in_its_patches_and_on_its_own_grid():
    model, image = small(pool=2, layers=3, mixer=True, pooled=True), images(2, 3, 21, 21)
    assert model.position.table.shape == (6, 6, 15)
    want = torch.tensor(like(model, features(model, image)), dtype=torch.float64)
    assert near(model(image), want, 1e-9)


@torch.no_grad()
def test_the_first_queries_are_the_formula():
    model, image = small(queries=7, layers=0), images(2, 3, 14, 21)
    content, memory = model.remember(image)
    embed = model.embed.weight.tolist(), model.embed.bias.tolist()
    formula = adaptive(model.first.latent.tolist())
    want = [formula(embed, one, None, one) for one in memory.tolist()]
    assert near(model.queries(image), torch.tensor(want, dtype=torch.float64), 1e-12)
    assert not near(content, memory)


def test_adaptive_queries_by_hand():
    # One channel of width 1: W_emb = 1, Q_latent = ln 3, tokens 0 and 1: weights 1/4 and 3/4, so Q⁰ = 3/4.
    first = FIRST["adaptive"](1, 1, 1).double()
    first.latent.data.fill_(float(torch.log(torch.tensor(3.0, dtype=torch.float64))))
    memory = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
    assert near(first(nn.Identity(), memory, memory), torch.tensor([[[0.75]]], dtype=torch.float64))


def test_values_without_positions_by_hand():
    # Tokens 0 and 1 stand at positions that say 0 and ln 3 to a query of 1: weights 1/4 and 3/4, so Q⁰ = 3/4, and
    # not 3/4 · (1 + ln 3).
    first, far = FIRST["adaptive"](1, 1, 1).double(), math.log(3)
    first.latent.data.fill_(1.0)
    content = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
    keys = torch.tensor([[[0.0], [far]]], dtype=torch.float64)
    assert near(first(nn.Identity(), keys, content, content), torch.tensor([[[0.75]]], dtype=torch.float64))
    assert near(first(nn.Identity(), keys, content), torch.tensor([[[0.75 * far]]], dtype=torch.float64))


# --- properties -------------------------------------------------------------------------------------------------------


@torch.no_grad()
@given(order=st.permutations(range(9)))
def test_patches_may_stand_anywhere_if_their_positions_move_along(order):
    model, image = small(), images(2, 3, 21, 21)
    tiles = image.reshape(2, 3, 3, 7, 3, 7).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)[:, order]  # (B, 9, 3, 7, 7)
    moved = tiles.unflatten(1, (3, 3)).permute(0, 3, 1, 4, 2, 5).reshape(2, 3, 21, 21)
    other = copy.deepcopy(model)
    other.position.table.copy_(model.position.table.flatten(0, 1)[order].unflatten(0, (3, 3)))
    assert near(other(moved), model(image))
    if list(order) != sorted(order):
        assert not near(model(moved), model(image))


@torch.no_grad()
def test_static_queries_are_the_same_for_every_image_and_adaptive_ones_are_not():
    one, two = images(1, 3, 21, 21), images(1, 3, 21, 21, seed=2)
    for first in FIRST:
        model = small(first=first, layers=0)
        assert torch.equal(model.queries(one), model.queries(two)) == first.endswith("static")


@pytest.mark.parametrize("position", POSITIONS)
@torch.no_grad()
def test_images_of_another_size_work(position):
    model = small(position=position)
    for height, width in ((7, 7), (35, 14), (49, 21)):
        assert model(images(2, 3, height, width)).shape == (2, 5)


@torch.no_grad()
def test_positions_in_values_have_no_weights_of_their_own():
    """An old card, which does not know the field, and its seed give the model that they gave."""
    assert IcamConfig().value_position
    for name in presets("icam"):
        torch.manual_seed(0)
        with_them = create(name).state_dict()
        torch.manual_seed(0)
        without = create(name, value_position=False).state_dict()
        assert list(with_them) == list(without)
        assert all(torch.equal(with_them[key], without[key]) for key in without)


@pytest.mark.parametrize("first", FIRST)
@torch.no_grad()
def test_without_positions_in_values_they_decide_where_to_look_and_nothing_else(first):
    """One token is all there is to look at, so a position cannot matter where values have none."""
    model, image = small(first=first, value_position=False), images(2, 3, 7, 7)
    moved = copy.deepcopy(model)
    moved.position.table.add_(images(*model.position.table.shape, seed=4))
    assert near(moved(image), model(image))
    for one in (model, moved):
        object.__setattr__(one.config, "value_position", True)
    assert not near(moved(image), model(image))


@torch.no_grad()
def test_images_of_a_batch_do_not_see_each_other():
    model, image = small(first="projected", mixer=True), images(3, 3, 21, 21)
    assert near(model(image), torch.cat([model(one[None]) for one in image]))


@torch.no_grad()
def test_evaluation_is_deterministic_and_dropout_falls_in_training_only():
    model, image = small(dropout=0.5), images(2, 3, 21, 21)
    exact = model(image)
    assert torch.equal(model(image), exact)
    assert torch.equal(small(dropout=0.0)(image), exact)
    torch.manual_seed(0)
    for part in model.modules():
        part.training = not isinstance(part, nn.BatchNorm2d)
    assert not near(model(image), exact)
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.eval()
    assert not near(model(image), exact)  # dropout on the weights, and on what a layer adds


@pytest.mark.parametrize(
    ("first", "value_position"), [*((first, True) for first in FIRST), ("adaptive", False), ("projected", False)]
)
def test_gradients_are_right_and_reach_every_weight(first, value_position):
    model = small(first=first, mixer=True, queries=1, value_position=value_position)
    image = images(1, 3, 14, 21).requires_grad_()
    names, weights = zip(*model.named_parameters(), strict=True)

    def run(image, *weights):
        return torch.func.functional_call(model, dict(zip(names, weights, strict=True)), image)

    assert torch.autograd.gradcheck(run, (image, *weights), fast_mode=True)
    (model(image) * images(1, 5, seed=3)).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in model.parameters())


# --- what a model is used for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value_position", [True, False])
def test_watch_sees_every_cross_attention(value_position):
    model, image = small(layers=3, value_position=value_position), images(2, 3, 14, 21)
    with foveal.watch(model) as seen, torch.no_grad():
        model(image)
    assert list(seen) == ["first", *(f"layers.{layer}.attention.layer" for layer in range(3))]
    for name, record in seen.items():
        assert record.weights.shape == (2, 1 if name == "first" else 3, 2, 6)
        assert near(record.weights.sum(-1), torch.ones(2, 1 if name == "first" else 3, 2, dtype=torch.float64))


@pytest.mark.parametrize(("first", "value_position"), [("adaptive", True), ("projected", True), ("adaptive", False)])
@torch.no_grad()
def test_it_compiles_without_a_graph_break(first, value_position):
    torch._dynamo.reset()
    model = small(first=first, mixer=first == "projected", value_position=value_position).float()
    image = images(2, 3, 14, 21, dtype=torch.float32)
    assert near(torch.compile(model, backend="eager", fullgraph=True)(image), model(image), 1e-6)


@pytest.mark.filterwarnings("ignore")  # those of the exporter about itself
@pytest.mark.parametrize(
    ("first", "position", "changes"),
    first_is_quick(
        [
            ("adaptive", "polar", {}),
            ("projected", "learned", {"mixer": True}),
            ("adaptive", "learned", {"value_position": False}),
        ]
    ),
)
@torch.no_grad()
def test_it_is_exported_for_any_batch_and_onnxruntime_agrees(first, position, changes):
    model, file = small(first=first, position=position, layers=1, **changes).float(), io.BytesIO()
    sizes = {"images": {0: torch.export.Dim("batch")}}
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(
            model,
            (torch.randn(2, 3, 21, 21),),
            file,
            dynamo=True,
            verbose=False,
            input_names=["images"],
            dynamic_shapes=sizes,
        )
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    for batch in (1, 5):
        image = images(batch, 3, 21, 21, dtype=torch.float32)
        (logits,) = session.run(None, {"images": image.numpy()})
        assert near(torch.from_numpy(logits), model(image), 1e-5)


@torch.no_grad()
def test_its_weights_are_carried_over():
    model, image = small(first="projected", mixer=True), images(2, 3, 21, 21)
    other = Icam(model.config).double().eval()
    assert not near(other(image), model(image))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(image), model(image))


@torch.no_grad()
def test_any_module_may_be_phi():
    class Plain(nn.Sequential):
        width = 17

    phi = Plain(nn.Conv2d(3, 17, 5, stride=2), nn.ReLU())
    model = Icam(IcamConfig(**SMALL), phi).eval()
    assert model.phi is phi
    assert model.embed.in_features == model.out.out_features == model.first.latent.shape[1] == 17
    assert model(torch.randn(2, 3, 21, 21)).shape == (2, 5)
    assert count(create("icam-30k").phi) == 19_090  # the config's own where none is given


@torch.no_grad()
def test_half_precision_stays_near():
    model, image = small().float(), images(2, 3, 21, 21, dtype=torch.float32)
    exact, rounded = model(image), copy.deepcopy(model).bfloat16()(image.bfloat16())
    assert rounded.dtype == torch.bfloat16
    assert near(rounded.float(), exact, 0.1 * float(exact.abs().max()))
    with torch.autocast("cpu", torch.bfloat16):
        assert near(model(image).float(), exact, 0.1 * float(exact.abs().max()))


# --- bad input --------------------------------------------------------------------------------------------------------


class Flat(nn.Flatten):
    width = 3


class Wide(nn.Identity):
    width = 5


BAD = [
    ({"patch": 5}, "Icam's patch: expected a divisor of the image's side 21, got 5"),
    ({"width": "a"}, "Icam's width: expected an integer, at least 1, got 'a'"),
    ({"heads": 4}, "Icam's heads: expected a divisor of the width 15, got 4"),
    ({"layers": -1}, "Icam's layers: expected at least 0, got -1"),
    ({"queries": 0}, "Icam's queries: expected at least 1, got 0"),
    ({"dropout": "a"}, "Icam's dropout: expected at least 0 and below 1, got 'a'"),
    ({"dropout": 1}, "Icam's dropout: expected at least 0 and below 1, got 1"),
    ({"mixer": "no"}, "Icam's mixer: expected True or False, got 'no'"),
    ({"value_position": 0}, "Icam's value_position: expected True or False, got 0"),
    ({"position": "round"}, "no position is called 'round'"),
    ({"position": 3}, "no position is called '3'"),
    ({"position": ["polar"]}, "no position is called"),
    ({"first": None}, "no first query is called 'None'"),
    ({"stages": 3}, "Stages' stages: expected a tuple of Stage, got 3"),
    ({"stages": (3,)}, "Stages' stages: expected a tuple of Stage, got 3"),
    ({"stem": 0}, "Icam's stem: expected at least 1, got 0"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_a_config_that_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        Icam(IcamConfig(**{**SMALL, **changes}))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given_images", "message"),
    [
        (torch.zeros(2, 3, 21, 22), "expected (B, 3, h, w) with sides that 7 divides, got (2, 3, 21, 22); resize them"),
        (torch.zeros(2, 3, 20, 21), "sides that 7 divides, got (2, 3, 20, 21)"),
        (torch.zeros(2, 3, 0, 21), "sides that 7 divides, got (2, 3, 0, 21)"),
        (torch.zeros(2, 1, 21, 21), "expected (B, 3, h, w)"),
        (torch.zeros(3, 21, 21), "expected (B, 3, h, w)"),
        (
            torch.zeros(2, 3, 21, 21, dtype=torch.uint8),
            "Icam's images: expected torch.float32, as its weights, got torch.uint8",
        ),
        (None, "Icam's images: expected a tensor (B, 3, h, w), got None"),
    ],
)
def test_images_that_do_not_fit_are_named_in_one_line(given_images, message):
    with pytest.raises(FovealError) as caught:
        Icam(IcamConfig(**SMALL))(given_images)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_phi_that_does_not_fit_is_named_in_one_line():
    with pytest.raises(FovealError, match="Icam's phi, its attribute `width`: expected an integer"):
        Icam(IcamConfig(**SMALL), nn.Conv2d(3, 5, 1))
    for phi, shape in ((Flat(), r"\(9, 147\)"), (Wide(), r"\(9, 3, 7, 7\)")):
        with pytest.raises(FovealError, match=rf"Icam's phi: expected a map .* got {shape}"):
            Icam(IcamConfig(**SMALL), phi)(torch.zeros(1, 3, 21, 21))


# --- attention on Φ's map ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAME_SHAPE)
def test_attention_stands_between_the_map_and_the_pooling(name):
    model, shown = small(attention=name, pool=2), images(3, 3, 21, 21)
    patches, rows, columns = cut(shown, 7)
    seen = model.attention(model.phi(patches))
    grid = grid_of(model.pool(seen), rows, columns)
    assert near(model(shown), model.answer(model.gather(*model.tokens(grid)), grid))
    assert not torch.equal(seen, model.phi(patches))
    last = model.features(shown)[-1]
    assert last.shape == (3, model.widths[-1], rows * seen.shape[2], columns * seen.shape[3])
    assert near(last[:, :, : seen.shape[2], : seen.shape[3]], seen.unflatten(0, (3, -1))[:, 0])


def test_without_attention_a_model_is_what_it_was():
    torch.manual_seed(3)
    plain, after = Icam(IcamConfig(**SMALL)), torch.rand(1)
    assert not any("attention" in name.split(".")[0] for name in plain.state_dict())
    torch.manual_seed(3)
    attending = Icam(IcamConfig(**SMALL, attention="CBAM"))
    kept = attending.state_dict()
    assert all(torch.equal(kept[name], tensor) for name, tensor in plain.state_dict().items()), "the same to begin with"
    torch.manual_seed(3)
    Icam(IcamConfig(**SMALL, attention=""))
    assert torch.equal(torch.rand(1), after), "nothing is drawn for it"


@pytest.mark.parametrize("name", ["cbam", None, 3])
def test_attention_that_is_none_is_refused(name):
    with pytest.raises(FovealError, match="no module on one feature map is called"):
        Icam(IcamConfig(**SMALL, attention=name))
