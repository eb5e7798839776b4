"""`foveal.prune` on modules of anybody: a CNN of torch's layers, torch's own attention, transformers', and foveal's."""

import copy

import pytest
import torch
from grid import first_is_quick
from torch import nn

import foveal
from foveal.deploy.measure.cost import flops, parameters
from foveal.deploy.prune_module import _graph, _importance
from foveal.deploy.prune_way import inputs_of
from foveal.errors import FovealError
from foveal.models.heads import head_layers, without_heads
from foveal.models.zoo import create

pytest.importorskip("torch_pruning")


class Cnn(nn.Module):
    """A stem, a residual sum, a concatenation, and two answers."""

    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.inner = nn.Sequential(nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * width, width, 1))
        self.down = nn.Conv2d(2 * width, width, 3, stride=2, padding=1)
        self.hidden = nn.Linear(width * 16, 2 * width)
        self.classes, self.side = nn.Linear(2 * width, 5), nn.Linear(2 * width, 7)

    def forward(self, images):
        x = self.stem(images)
        x = torch.cat([x + self.inner(x), x], 1)
        x = self.hidden(self.down(x).relu().flatten(1)).relu()
        return {"classes": self.classes(x), "side": self.side(x).sigmoid()}


def images(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def halved(module, axis_of):
    """Every odd channel is 0, and read by nobody. axis_of: part → (whether outputs, whether inputs lose theirs)."""
    with torch.no_grad():
        for name, part in module.named_modules():
            outputs, inputs = axis_of(name)
            if isinstance(part, (nn.Conv2d, nn.Linear)):
                if outputs:
                    part.weight[1::2] = 0
                    if part.bias is not None:
                        part.bias[1::2] = 0
                if inputs == "flat":
                    part.weight.unflatten(1, (-1, 16))[:, 1::2] = 0
                elif inputs:
                    part.weight[:, 1::2] = 0
            elif isinstance(part, nn.BatchNorm2d):
                part.weight[1::2], part.bias[1::2] = 0, 0
    return module


def cnn():
    torch.manual_seed(0)
    return Cnn().eval()


def test_channels_of_a_cnn_that_do_nothing_go_and_nothing_changes():
    ends = ("classes", "side")
    model = halved(cnn(), lambda name: (name not in ends, "flat" if name == "hidden" else name != "stem.0"))
    x = images(2, 3, 8, 8)
    smaller = foveal.prune(model, example=x, parameters=parameters(Cnn(6)))
    assert parameters(smaller) == parameters(Cnn(6))
    assert [tuple(one.shape) for one in smaller.state_dict().values()] == [
        tuple(one.shape) for one in Cnn(6).state_dict().values()
    ]
    for name, said in smaller(x).items():
        torch.testing.assert_close(said, model(x)[name], rtol=1e-5, atol=1e-6)
    assert (model(x)["classes"][0] - model(x)["classes"][1]).abs().max() > 1e-3


@pytest.mark.parametrize(("unit", "by"), [("parameters", "l1"), ("flops", "fpgm")])
def test_a_cnn_is_pruned_to_a_target_and_its_answers_keep_their_shapes(unit, by):
    model, x = cnn().train(), images(2, 3, 8, 8)
    model.stem.requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    cost = parameters if unit == "parameters" else lambda one: flops(one, x)
    target = cost(model) // 3
    smaller = foveal.prune(model, example=x, by=by, **{unit: target})
    assert 0.9 * target <= cost(smaller) <= target
    said = smaller(x)
    assert {name: tuple(one.shape) for name, one in said.items()} == {"classes": (2, 5), "side": (2, 7)}
    assert model.training
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items()), "it is left alone"
    assert [one.requires_grad for one in smaller.parameters()] == [one.requires_grad for one in model.parameters()]
    said["classes"].sum().backward()
    assert smaller.down.weight.grad is not None


class Own(nn.Module):
    """Attention of torch's between two linear maps, without LayerNorm, which would see a width that changes."""

    def __init__(self, width=12, heads=3):
        super().__init__()
        self.embed, self.attention = nn.Linear(7, width), nn.MultiheadAttention(width, heads, batch_first=True)
        self.head = nn.Linear(width, 5)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.head(x + self.attention(x, x, x, need_weights=False)[0])


@torch.no_grad()
def test_every_head_of_torchs_attention_loses_the_same_channels_and_scores_keep_their_scale():
    torch.manual_seed(0)
    model, x = Own().eval(), images(2, 5, 7)
    for one in (model.attention.in_proj_weight, model.attention.in_proj_bias):
        one.mul_(3)  # so that the softmax is no mean
    for weight in (model.embed.weight, model.embed.bias, model.attention.in_proj_weight, model.attention.in_proj_bias):
        weight[1::2] = 0
    for weight in (model.attention.in_proj_weight, model.attention.out_proj.weight, model.head.weight):
        weight[:, 1::2] = 0
    model.attention.out_proj.weight[1::2] = 0
    smaller = foveal.prune(model, example=x, parameters=parameters(Own(6)))
    assert (smaller.attention.embed_dim, smaller.attention.num_heads, smaller.attention.head_dim) == (6, 3, 2)
    torch.testing.assert_close(smaller(x), model(x), rtol=1e-5, atol=1e-6)


def test_torchs_encoder_is_pruned_to_a_target():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)
    model = nn.Sequential(
        nn.Linear(7, 24), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(24, 5)
    )
    x = images(2, 5, 7)
    target = parameters(model) // 2
    smaller = foveal.prune(model, example=x, parameters=target)
    assert 0.7 * target <= parameters(smaller) <= target  # four heads lose four channels at once
    assert smaller(x).shape == (2, 5, 5)


# --- transformers -----------------------------------------------------------------------------------------------------


def bert():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=31, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, num_labels=3
    )
    return transformers.BertForSequenceClassification(config).eval()


def ids():
    return {"input_ids": torch.tensor([[3, 5, 7, 11, 13]]), "attention_mask": torch.ones(1, 5, dtype=torch.int64)}


@torch.no_grad()
def test_heads_of_transformers_attention_go_as_if_they_gave_0():
    model = bert()
    fewer = foveal.prune(model, example=ids(), heads={0: [1], 1: [0, 3]})
    for place, heads in ((0, [1]), (1, [0, 3])):
        layer = model.bert.encoder.layer[place].attention
        for head in heads:
            layer.output.dense.weight[:, 6 * head : 6 * (head + 1)] = 0
    torch.testing.assert_close(fewer(**ids()).logits, model(**ids()).logits, rtol=1e-5, atol=1e-6)
    shapes = [one.attention.self.query.weight.shape[0] for one in fewer.bert.encoder.layer]
    assert shapes == [3 * 6, 2 * 6]
    assert fewer.bert.encoder.layer[1].attention.output.dense.weight.shape == (24, 2 * 6)
    assert fewer.bert.encoder.layer[1].attention.self.num_attention_heads == 2


@torch.no_grad()
def test_heads_of_the_smallest_weights_are_the_first_to_go():
    model = bert()
    attention = model.bert.encoder.layer[1].attention.self
    for part in (attention.query, attention.key, attention.value):
        part.weight[6:12] /= 100
        part.weight[18:24] /= 50
    fewer = foveal.prune(model, example=ids(), heads=2)
    kept = fewer.bert.encoder.layer[1].attention.self.value.weight
    assert torch.equal(kept, attention.value.weight[[*range(6), *range(12, 18)]])
    assert fewer.bert.encoder.layer[0].attention.self.value.weight.shape[0] == 24


@torch.no_grad()
@pytest.mark.parametrize("small", [0, 1])
def test_a_layer_of_small_weights_loses_its_heads_before_any_other_does(small):
    model = bert()
    layer = model.bert.encoder.layer[small].attention
    for part in (layer.self.query, layer.self.key, layer.self.value, layer.output.dense):
        part.weight /= 100
    for count, left in ((2, 2), (3, 1), (4, 1)):
        fewer = foveal.prune(model, example=ids(), heads=count).bert.encoder.layer
        assert fewer[small].attention.self.num_attention_heads == left
        assert fewer[1 - small].attention.self.num_attention_heads == 8 - count - left


@torch.no_grad()
def test_the_importance_of_a_head_of_transformers_is_the_mean_of_its_weights():
    model = bert().requires_grad_(True)
    graph = _graph(model, inputs_of(model, ids()))
    for layer in model.bert.encoder.layer:
        attention, out = layer.attention.self, layer.attention.output.dense.weight
        rows = [part.weight.unflatten(0, (4, 6)) for part in (attention.query, attention.key, attention.value)]
        rows.append(out.unflatten(1, (4, 6)).permute(1, 2, 0))
        expected = torch.stack(rows).abs().mean((0, 2, 3))  # (4, H, 6, 24)
        torch.testing.assert_close(_importance(attention, graph), expected)


def test_a_model_of_transformers_is_pruned_to_a_target():
    model = bert()
    target = int(0.8 * parameters(model))
    smaller = foveal.prune(model, example=ids(), parameters=target)
    assert parameters(smaller) <= target
    assert smaller(**ids()).logits.shape == (1, 3)


# --- foveal's own -----------------------------------------------------------------------------------------------------


def vit(**changes):
    torch.manual_seed(0)
    return create("vit-micro", classes=5, image=64, **changes).eval()


@torch.no_grad()
def test_heads_of_a_vit_go_as_if_they_gave_0():
    model, x, heads = vit(), images(2, 3, 64, 64), {0: [1], 3: [0, 2]}
    fewer = foveal.prune(model, heads=heads)
    assert [layer.heads for layer in head_layers(fewer)] == [3, 4, 4, 2, 4]
    assert [layer.heads for layer in head_layers(model)] == [4] * 5
    with without_heads(model, heads):
        torch.testing.assert_close(fewer(x), model(x), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_so_many_heads_of_a_vit_go_those_of_the_smallest_weights():
    model = vit()
    layer = model.layers[2].attention.layer
    width = layer.head_width
    layer.out.weight[:, width : 2 * width] = 0
    layer.qkv.weight.unflatten(0, (3, 4, width))[:, 1] = 0
    fewer = foveal.prune(model, heads=1)
    assert [one.heads for one in head_layers(fewer)] == [4, 4, 3, 4, 4]
    torch.testing.assert_close(fewer(images(2, 3, 64, 64)), model(images(2, 3, 64, 64)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", first_is_quick(["vit-micro", "swin-micro", "pvt-micro"]))
def test_a_vision_transformer_loses_heads_and_hidden_channels_down_to_a_target(name):
    torch.manual_seed(0)
    model = create(name, classes=5, image=64).eval()
    target = int(0.6 * parameters(model))
    smaller = foveal.prune(model, parameters=target)
    assert 0.9 * target <= parameters(smaller) <= target
    before, after = head_layers(model), head_layers(smaller)
    assert sum(layer.heads for layer in after) < sum(layer.heads for layer in before)
    assert all(
        one.width == two.width and one.head_width == two.head_width for one, two in zip(after, before, strict=True)
    )
    assert smaller(images(2, 3, 64, 64)).shape == (2, 5)


@torch.no_grad()
def test_fpgm_keeps_the_head_that_is_unlike_the_others():
    model = vit()
    for layer in head_layers(model):
        weight = layer.qkv.weight.unflatten(0, (3, 4, layer.head_width))
        weight[:] = 1 + 0.01 * torch.randn(weight.shape)
        weight[:, 2] = 0
        layer.out.weight.fill_(1)
        layer.out.weight[:, 2 * layer.head_width : 3 * layer.head_width] = 0
    few = int(0.3 * parameters(model))
    for by, unlike in (("fpgm", True), ("l1", False)):
        smaller = foveal.prune(model, parameters=few, by=by)
        for layer in head_layers(smaller):
            kept = layer.qkv.weight.unflatten(0, (3, layer.heads, layer.head_width))
            assert bool((kept.abs().sum((0, 2, 3)) == 0).any()) == unlike


# --- what cannot be ---------------------------------------------------------------------------------------------------


class Blind(nn.Linear):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


def llama():
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, num_attention_heads=4))


WITHOUT_END = (
    "to prune: expected a module that torch-pruning can trace, got one whose channels it follows without end; prune "
    "its layers one by one, each with its own example"
)
BAD = {
    "no module": (lambda: "a", {"parameters": 5}, "to prune: expected a torch.nn.Module, got 'a'"),
    "no example": (
        lambda: nn.Linear(3, 4),
        {"parameters": 5},
        "to prune: expected an example of what a Linear takes, got none; give example=",
    ),
    "nothing asked": (cnn, {}, "to prune: expected one of parameters=, flops= and heads=, got none"),
    "two things": (cnn, {"parameters": 5, "flops": 5}, "got parameters= and flops="),
    "another example": (
        cnn,
        {"parameters": 5, "example": torch.zeros(1, 4, 8, 8)},
        "to prune: expected a Cnn that runs on its example, and that torch-pruning can trace, got RuntimeError",
    ),
    "no gradients": (
        lambda: nn.Sequential(nn.Linear(3, 4), Blind(4, 5)),
        {"parameters": 5, "example": torch.zeros(1, 3)},
        "to prune: expected",
    ),
    "channels without end": (
        lambda: foveal.vision.DynamicMixture(8, 8, 3, padding=1),
        {"parameters": 400, "example": torch.zeros(2, 8, 6, 6)},
        WITHOUT_END,
    ),
    "links without end": (
        llama,
        {"parameters": 2000, "example": {"input_ids": torch.arange(7)[None]}},
        WITHOUT_END,
    ),
    "one layer": (
        lambda: nn.Linear(3, 4),
        {"parameters": 5, "example": torch.zeros(1, 3)},
        "to prune: expected a model with layers that can lose channels, got one without",
    ),
    "too few": (cnn, {"parameters": 9, "example": torch.zeros(1, 3, 8, 8)}, "with one channel in every layer, got 9"),
    "no heads": (cnn, {"heads": 1}, "heads: expected multi-head layers of foveal's or of transformers', got none"),
    "torch's heads": (Own, {"heads": 1}, "got torch.nn.MultiheadAttention only"),
    "by beside heads": (vit, {"heads": 1, "by": "fpgm"}, "by, beside heads=: expected l1, got 'fpgm'"),
    "too many heads": (vit, {"heads": 99}, "how many heads to remove: expected 1 to 15"),
    "a head that is not there": (vit, {"heads": {0: [4]}}, "a head of layer 0: expected 0 to 3, got 4"),
    "heads as text": (vit, {"heads": "0:1"}, "expected {layer: its heads}, such as {0: [1]}, got '0:1'"),
    "a head that is no list": (
        vit,
        {"heads": {0: 1}},
        "the heads of layer 0: expected a list of them, such as [1], got 1",
    ),
    "heads of text": (vit, {"heads": {0: [1, "a"]}}, "a head of layer 0: expected 0 to 3, got 'a'"),
    "a fraction of a head": (vit, {"heads": {0: [1.0]}}, "a head of layer 0: expected 0 to 3, got 1.0"),
    "no layer": (vit, {"heads": {}}, "heads: expected at least one, such as {0: [1]}, got none"),
    "no head": (vit, {"heads": {0: []}}, "heads: expected at least one, such as {0: [1]}, got none"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_pruned_is_named_in_one_line(case):
    make, arguments, words = BAD[case]
    with pytest.raises(FovealError) as caught:
        foveal.prune(make(), **arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


class Parted(nn.Module):
    """Attention of one's own that nobody recognises: its code cuts queries into heads of a fixed width."""

    def __init__(self):
        super().__init__()
        self.inner, self.query, self.out = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 4)
        self.hidden, self.last = nn.Linear(4, 30), nn.Linear(30, 4)

    def forward(self, x):
        q = self.query(self.inner(x)).unflatten(-1, (3, 4))
        return self.last(self.hidden(self.out((q.softmax(-1) * q).flatten(-2))).relu())


def test_what_the_code_of_a_module_cuts_into_parts_stays():
    torch.manual_seed(0)
    model, x = Parted(), images(2, 12)
    smaller = foveal.prune(model, example=x, parameters=parameters(model) - 100)
    assert (smaller.query.out_features, smaller.last.out_features) == (12, 4)
    assert smaller.hidden.out_features < 30
    assert smaller(x).shape == (2, 4)
