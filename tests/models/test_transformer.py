import itertools
import sys
from pathlib import Path

import pytest
import torch
from grid import first_is_quick
from layers.carry import scatter
from torch import nn

import foveal
from foveal.errors import FovealError
from foveal.models.heads import head_layers, remove_heads
from foveal.models.sequence import Encoded
from foveal.models.store import describe, load_model, save_model, shapes_of
from foveal.models.transformer import ADDED, Transformer, TransformerConfig
from foveal.models.zoo import create
from foveal.runtime.card import Card

SMALL = {
    "source_vocab": 29,
    "target_vocab": 23,
    "width": 12,
    "hidden": 17,
    "heads": 3,
    "layers": 2,
    "decoder_layers": 3,
    "max_length": 19,
    "tied": "output",
}
SOURCE = torch.tensor([[5, 7, 11, 4, 9, 2, 0], [8, 6, 2, 0, 0, 0, 0], [13, 4, 22, 28, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 6, 7, 8], [1, 9, 4, 2, 0], [1, 22, 21, 20, 2]])
POSITIONS, NORMS = sorted(ADDED), ("post", "pre", "none")


def small(dtype=torch.float64, seed=0, **changes):
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(**{**SMALL, **changes})).to(dtype).eval()


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def far(a, b):
    assert a.shape == b.shape
    return (a - b).abs().max().item()


# --- the presets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words", "blocks"),
    [
        ("transformer-tiny", 4_736_000, 1_325_056),
        ("transformer-small", 9_472_000, 11_059_200),
        ("transformer-base", 18_944_000, 44_138_496),
        ("transformer-big", 37_888_000, 176_357_376),
    ],
)
def test_a_preset_has_its_weights(name, words, blocks):
    with torch.device("meta"):
        model = create(name)
    assert count(model.tables) == words
    assert count(model) == words + blocks
    source = Path(str(sys.modules[Transformer.__module__].__file__)).read_text(encoding="utf-8")
    assert f"{words:,}" in source  # the table above the presets
    assert f"{words + blocks:,}" in source


def test_the_base_model_is_the_papers():
    # 4·C² for each of 18 attentions, 2·C·F + F + C for each of 12 networks, 2·C for each of 30 norms; and the biases
    # that the paper has not.
    c, f = 512, 2048
    assert count(create("transformer-base", source_vocab=7, target_vocab=7)) == (
        18 * 4 * c * c + 12 * (2 * c * f + f + c) + 30 * 2 * c + 7 * c + 18 * 4 * c
    )


def test_it_is_created_with_its_vocabularies():
    model = create("transformer-tiny", source_vocab=31, target_vocab=37, tied="none")
    assert isinstance(model, Transformer)
    assert model(SOURCE, TARGET).shape == (3, 5, 37)


# --- words ------------------------------------------------------------------------------------------------------------


def test_tied_tables_are_one_tensor():
    every = small(target_vocab=29, tied="all").tables
    assert every.source.weight is every.of_target is every.of_output
    output = small(tied="output").tables
    assert output.of_output is output.of_target is not output.source.weight
    none = small(tied="none").tables
    assert len({table.data_ptr() for table in (none.source.weight, none.of_target, none.of_output)}) == 3
    assert count(none) == 29 * 12 + 2 * 23 * 12


def test_what_the_first_block_is_given():
    model = small(seed=3)
    with foveal.watch(model):
        given = []
        model.encoder[0].register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
        model.encode(SOURCE)
    by_hand = model.tables.source.weight[7] * 12**0.5  # the second word of the first source
    for channel in range(12):
        angle = torch.tensor(1 / 10000 ** (2 * (channel // 2) / 12), dtype=torch.float64)
        by_hand = by_hand + (angle.cos() if channel % 2 else angle.sin()) * torch.eye(12, dtype=torch.float64)[channel]
    assert far(given[0][0, 1], by_hand) < 1e-12


def test_new_weights_are_the_papers():
    model = create("transformer-small", source_vocab=4001, target_vocab=4001)
    assert model.tables.source.weight.std().item() == pytest.approx(256**-0.5, rel=0.01)
    inner = model.encoder[0].feed_forward.layer.inner
    assert inner.weight.abs().max().item() == pytest.approx((6 / (256 + 1024)) ** 0.5, rel=0.01)  # Glorot
    assert inner.bias.abs().max() == 0
    assert create("transformer-tiny", source_vocab=5, target_vocab=5).tables.bias is None


def test_a_bias_on_the_logits_is_added():
    model = small(output_bias=True)
    before = model(SOURCE, TARGET)
    with torch.no_grad():
        model.tables.bias[4] += 3
    assert far(model(SOURCE, TARGET), before + 3 * torch.eye(23, dtype=torch.float64)[4]) < 1e-12


# --- who sees whom ----------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("position", POSITIONS)
def test_padding_changes_nothing(position):
    model = small(position=position)
    together = model(SOURCE, TARGET)
    alone = model(torch.tensor([[8, 6, 2]]), torch.tensor([[1, 9, 4, 2]]))
    assert far(together[1:2, :4], alone) < 1e-12
    more = torch.cat((SOURCE, torch.zeros(3, 4, dtype=torch.long)), 1)
    assert far(model(more, TARGET), together) < 1e-12


@torch.no_grad()
@pytest.mark.parametrize(("position", "norm"), [*zip(POSITIONS, itertools.repeat("post")), ("sinusoidal", "pre")])
def test_no_word_sees_what_comes_later(position, norm):
    model = small(position=position, norm=norm)
    changed = TARGET.clone()
    changed[:, 3] = 15
    one, other = model(SOURCE, TARGET), model(SOURCE, changed)
    assert far(one[:, :3], other[:, :3]) == 0
    assert all((one[:, place] - other[:, place]).abs().max() > 1e-4 for place in (3, 4))


@torch.no_grad()
def test_every_word_of_the_source_is_seen():
    model = small()
    for place in range(5):
        changed = SOURCE.clone()
        changed[:1, place] = 17
        difference = (model(changed, TARGET) - model(SOURCE, TARGET)).abs()
        assert difference[0].min() > 0
        assert difference[1:].max() == 0


@pytest.mark.parametrize("norm", NORMS)
def test_a_source_of_padding_gives_no_nan(norm):
    model = small(norm=norm).train()
    logits = model(SOURCE * torch.tensor([[0], [1], [1]]), TARGET)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    state = model.eval().begin_state(model.encode(SOURCE * 0), 2, 4)
    assert model.step(torch.ones(6, dtype=torch.long), state).isfinite().all()


@torch.no_grad()
def test_positions_tell_the_order_and_none_does_not():
    turned = torch.tensor([[7, 5, 11, 4, 9, 2, 0]])
    for position in POSITIONS:
        model = small(position=position)
        difference = far(model(turned, TARGET[:1]), model(SOURCE[:1], TARGET[:1]))
        assert difference < 1e-12 if position == "none" else difference > 1e-3


def test_fast_kernels_run():
    model = small(torch.float32)
    with foveal.watch(model) as seen:
        model(SOURCE, TARGET)
    assert {record.kernel for record in seen.values()} == {"flash"}
    assert model.encode(SOURCE[:1, :6]).mask is None  # nothing is padded, so nothing is masked


# --- norms and ablations ----------------------------------------------------------------------------------------------


@torch.no_grad()
def test_the_forms_of_a_block():
    x = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for norm, residual in itertools.product(NORMS, (True, False)):
        model = scatter(small(norm=norm, residual=residual))
        block = model.encoder[1]
        y = x
        for part in (block.attention, block.feed_forward):
            change = part.layer(part.norm(y) if norm == "pre" else y)
            y = (y if residual else 0) + change
            y = part.norm(y) if norm == "post" else y
        assert far(block(x), y) < 1e-12
        assert (
            isinstance(model.encoder_norm, nn.LayerNorm)
            == isinstance(model.decoder_norm, nn.LayerNorm)
            == (norm == "pre")
        )


@torch.no_grad()
def test_heads_may_be_of_another_width():
    model = small(head_width=5)
    assert model.encoder[0].attention.layer.qkv.weight.shape == (3 * 3 * 5, 12)
    assert model.decoder[0].cross_attention.layer.kv.weight.shape == (2 * 3 * 5, 12)
    assert model(SOURCE, TARGET).shape == (3, 5, 23)


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "hidden_dropout"])
@torch.no_grad()
def test_each_dropout_falls_in_training_only(name):
    model = small(**{"dropout": 0.0, "attention_dropout": 0.0, "hidden_dropout": 0.0, name: 0.5})
    exact = model(SOURCE, TARGET)
    assert far(exact, model(SOURCE, TARGET)) == 0
    assert far(exact, small(dropout=0.0)(SOURCE, TARGET)) == 0
    assert far(exact, model.train()(SOURCE, TARGET)) > 1e-3


@pytest.mark.parametrize(
    ("position", "norm", "tied"),
    [*zip(POSITIONS, itertools.repeat("post"), itertools.repeat("none")), ("learned", "pre", "output")],
)
def test_a_gradient_reaches_every_weight(position, norm, tied):
    model = small(position=position, norm=norm, tied=tied, output_bias=True).train()
    model(SOURCE, TARGET).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


# --- step by step -----------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(("position", "norm"), itertools.product(POSITIONS, NORMS))
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_step_by_step_is_one_pass(position, norm, dtype, close):
    if norm == "none":  # with nothing to hold numbers down logits reach 60, and float32 rounds them by up to 1.3e-4
        close *= 20
    model = small(dtype, position=position, norm=norm)
    whole = model(SOURCE, TARGET)
    state = model.begin_state(model.encode(SOURCE), 1, 5)
    steps = torch.stack([model.step(TARGET[:, place], state) for place in range(5)], 1)
    assert far(steps, whole) < close
    assert state.length == 5


@torch.no_grad()
@pytest.mark.parametrize("position", POSITIONS)
def test_reorder_and_keep_follow_the_beams(position):
    model, beams = small(position=position), 4
    encoded = model.encode(SOURCE)
    state = model.begin_state(encoded, beams, 7)
    generator = torch.Generator().manual_seed(2)
    alive = torch.arange(3)
    history = torch.ones(3 * beams, 1, dtype=torch.long)
    for number in range(6):
        logits = model.step(history[:, -1], state)
        source = SOURCE[alive].repeat_interleave(beams, 0)
        assert far(logits, model(source, history)[:, -1]) < 1e-12
        parents = (
            torch.randint(beams, (len(history),), generator=generator) + torch.arange(len(history)) // beams * beams
        )
        state.reorder(parents)
        history = history[parents]
        if number in (1, 3):
            kept = torch.tensor([0, 2] if number == 1 else [1])
            state.keep(kept)
            history = history.view(-1, beams, history.shape[1])[kept].flatten(0, 1)
            alive = alive[kept]
        history = torch.cat((history, torch.randint(4, 23, (len(history), 1), generator=generator)), 1)
    assert alive.tolist() == [2]
    assert (state.sources, state.beams, state.rows) == (1, 4, 4)
    assert all(cache.k.shape[0] == 4 for cache in state.caches)
    assert all(memory.k.shape[0] == 1 for memory in state.memories)


@torch.no_grad()
def test_beams_share_the_memory_of_their_source():
    model = small()
    state = model.begin_state(model.encode(SOURCE), 5, 3)
    assert [tuple(memory.k.shape) for memory in state.memories] == [(3, 3, 7, 4)] * 3
    with foveal.watch(model) as seen:
        model.step(torch.ones(15, dtype=torch.long), state)
    assert seen["decoder.0.cross_attention.layer"].shape == (3, 3, 5, 7)
    assert seen["decoder.0.self_attention.layer"].shape == (15, 3, 1, 1)


def test_a_state_is_of_no_gradient():
    model = small()
    state = model.begin_state(model.encode(SOURCE), 1, 3)
    assert not model.step(TARGET[:, 0], state).requires_grad
    assert not state.caches[0].k.requires_grad


# --- graphs -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("position", first_is_quick(["sinusoidal", "rotary"]))
def test_it_compiles_and_is_exported_for_any_batch_and_length(position):
    model = small(torch.float32, position=position)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert far(compiled(SOURCE, TARGET), model(SOURCE, TARGET)) < 1e-5
    batch, source, target = (torch.export.Dim(name, min=2, max=64) for name in ("batch", "source", "target"))
    program = torch.export.export(
        model, (SOURCE, TARGET), dynamic_shapes=({0: batch, 1: source}, {0: batch, 1: target})
    )
    fewer = SOURCE[1:, :5].contiguous(), TARGET[1:, :4].contiguous()
    assert far(program.module()(*fewer), model(*fewer)) < 1e-5


# --- watching ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_every_layer_shows_its_weights():
    model = small(position="relative")
    with foveal.watch(model) as seen:
        model(SOURCE, TARGET)
    own = {f"encoder.{number}.attention.layer": (3, 3, 7, 7) for number in range(2)}
    own |= {f"decoder.{number}.self_attention.layer": (3, 3, 5, 5) for number in range(3)}
    own |= {f"decoder.{number}.cross_attention.layer": (3, 3, 5, 7) for number in range(3)}
    assert {name: tuple(record.weights.shape) for name, record in seen.items()} == own
    for record in seen.values():
        assert far(record.weights.sum(-1), torch.ones(record.shape[:3], dtype=torch.float64)) < 1e-12
    assert seen["encoder.1.attention.layer"].weights[1, :, :, 3:].abs().max() == 0  # padding
    assert seen["decoder.2.cross_attention.layer"].weights[1, :, :, 3:].abs().max() == 0
    assert seen["decoder.1.self_attention.layer"].weights.triu(1).abs().max() == 0


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, "Transformer's heads: expected a divisor of the width 12, got 5"),
        ({"heads": 0}, "Transformer's heads: expected at least 1, got 0"),
        ({"head_width": 0}, "Transformer's head_width: expected at least 1, got 0"),
        (
            {"head_width": 3, "position": "rotary"},
            "Transformer's head_width: expected an even number with rotary positions, got 3",
        ),
        ({"dropout": 1}, "Transformer's dropout: expected at least 0 and below 1, got 1"),
        ({"attention_dropout": "a"}, "Transformer's attention_dropout: expected at least 0 and below 1, got 'a'"),
        ({"norm": "sandwich"}, "no norm of Transformer is called 'sandwich'"),
        ({"position": None}, "no position of Transformer is called 'None'"),
        ({"activation": "relo"}, "no activation of Transformer is called 'relo'; the nearest is 'relu'"),
        ({"tied": "some"}, "no tied of Transformer is called 'some'"),
        (
            {"tied": "all"},
            (
                "Transformer's vocabularies: expected one vocabulary, as tied='all' shares its table, got 29 of the "
                "source and 23"
            ),
        ),
        ({"pad": 23}, "Transformer's pad: expected the id of one of 23 tokens, got 23"),
        ({"end": -1}, "Transformer's end: expected at least 0, got -1"),
        ({"residual": 1}, "Transformer's residual: expected True or False, got 1"),
        ({"layers": 0}, "Transformer's layers: expected at least 1, got 0"),
    ],
)
def test_settings_that_do_not_fit(changes, message):
    with pytest.raises(FovealError) as caught:
        small(**changes)
    assert message in str(caught.value)


BAD = {
    "words": (
        lambda model: model(SOURCE.float(), TARGET),
        "the source: expected ids of tokens, a tensor (B, N) of int64, got (3, 7) of torch.float32",
    ),
    "a list": (
        lambda model: model([[1]], TARGET),
        "the source: expected ids of tokens, a tensor (B, N) of int64, got [[1]]",
    ),
    "one axis": (
        lambda model: model(SOURCE, TARGET[0]),
        "the target: expected ids of tokens, a tensor (B, N) of int64, got (5,)",
    ),
    "a large id": (lambda model: model(SOURCE, TARGET + 1), "the target: expected ids from 0 to 22, got 23"),
    "a negative id": (lambda model: model(SOURCE - 1, TARGET), "the source: expected ids from 0 to 28, got -1"),
    "left padding": (
        lambda model: model(SOURCE.flip(1), TARGET),
        "the source: expected padding (id 0) on the right only, got padding before a token",
    ),
    "a tensor": (lambda model: model.decode(TARGET, SOURCE), "the source: expected what encode() gives, got Tensor"),
    "beams": (lambda model: model.begin_state(model.encode(SOURCE), 0, 3), "beams: expected at least 1, got 0"),
    "rows": (
        lambda model: model.step(TARGET[:, 0], begun(model)),
        "the tokens of a step: expected 6, one for each row, got 3",
    ),
    "two axes": (
        lambda model: model.step(TARGET, begun(model)),
        "the tokens of a step: expected ids of tokens, a tensor (R,) of int64, got (3, 5)",
    ),
    "another's beam": (
        lambda model: begun(model).reorder(torch.tensor([0, 1, 1, 3, 4, 5])),
        "expected parents of the same source, got one of another",
    ),
    "few parents": (
        lambda model: begun(model).reorder(torch.tensor([0, 1])),
        "expected one parent for each of 6 rows, got (2,)",
    ),
    "no source": (
        lambda model: begun(model).keep(torch.tensor([], dtype=torch.long)),
        "the sources to keep: expected integers",
    ),
    "another source": (
        lambda model: begun(model).keep(torch.tensor([3])),
        "the sources to keep: expected numbers from 0 to 2, got 3 to 3",
    ),
    "a mask": (
        lambda model: begun(model).keep(torch.tensor([True])),
        "the sources to keep: expected integers in a tensor of one axis",
    ),
}


def begun(model):
    return model.begin_state(model.encode(SOURCE), 2, 3)


@pytest.mark.parametrize("name", BAD)
def test_calls_that_do_not_fit(name):
    call, message = BAD[name]
    with pytest.raises(FovealError) as caught:
        call(small())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_full_cache_says_so():
    model = small()
    state = model.begin_state(model.encode(SOURCE), 1, 1)
    model.step(TARGET[:, 0], state)
    with pytest.raises(FovealError, match="at most 1 tokens"):
        model.step(TARGET[:, 1], state)


def test_what_encode_gives_has_names():
    encoded = small().encode(SOURCE)
    assert isinstance(encoded, Encoded)
    assert encoded.memory.shape == (3, 7, 12)
    assert encoded.lengths.tolist() == [6, 3, 5]


@pytest.mark.parametrize("name", ["silu", "swish"])
def test_silu_has_two_names(name):
    model, other = small(activation=name), small(activation="silu")
    assert model.config.activation == name  # the card keeps what was given
    assert torch.equal(model(SOURCE, TARGET), other(SOURCE, TARGET))


def test_a_model_with_fewer_heads_is_saved_and_opened(tmp_path):
    model = small(heads=2)
    remove_heads(model, {0: [1], 3: [0]})
    family, config = describe(model)
    card = Card(task="", model="transformer-tiny", family=family, config=config, shapes=shapes_of(model))
    save_model(model, tmp_path / "m.safetensors", card)
    opened, _ = load_model(tmp_path / "m.safetensors", Card)
    assert [layer.heads for layer in head_layers(opened)] == [layer.heads for layer in head_layers(model)]
    assert {layer.heads for layer in head_layers(opened)} == {1, 2}
    assert far(opened(SOURCE, TARGET), model(SOURCE, TARGET)) < 1e-12
