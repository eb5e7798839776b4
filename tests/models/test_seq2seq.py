import pytest
import torch
from layers.carry import scatter

import foveal
from foveal.errors import FovealError
from foveal.models.seq2seq import Seq2Seq, Seq2SeqConfig
from foveal.models.zoo import create

SMALL = {"source_vocab": 29, "target_vocab": 23, "width": 5, "hidden": 7, "tied": "output"}
SOURCE = torch.tensor([[5, 7, 11, 4, 9, 2, 0], [8, 6, 2, 0, 0, 0, 0], [13, 4, 22, 28, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 6, 7, 8], [1, 9, 4, 2, 0], [1, 22, 21, 20, 2]])
KINDS = ("none", "additive")


def small(attention, dtype=torch.float64, **changes):
    return scatter(Seq2Seq(Seq2SeqConfig(**{**SMALL, **changes}, attention=attention)).to(dtype).eval())


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def far(a, b):
    assert a.shape == b.shape
    return (a - b).abs().max().item()


def gru(x, h, layer, end=""):
    """One step of a GRU, by its equations, of one sample."""
    way = {name: getattr(layer, f"{name}_l0{end}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    xr, xz, xn = (way["weight_ih"] @ x + way["bias_ih"]).chunk(3)
    hr, hz, hn = (way["weight_hh"] @ h + way["bias_hh"]).chunk(3)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + r * hn) + z * h


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_equations(kind):
    model = small(kind)
    logits = model(SOURCE, TARGET)
    for b, length in enumerate((6, 3, 5)):
        words = [model.tables.source.weight[word] * 5**0.5 for word in SOURCE[b, :length]]
        there, back, h = [], [], torch.zeros(7, dtype=torch.float64)
        for word in words:
            h = gru(word, h, model.encoder)
            there.append(h)
        h = torch.zeros(7, dtype=torch.float64)
        for word in reversed(words):
            h = gru(word, h, model.encoder, "_reverse")
            back.insert(0, h)
        memory = [torch.cat(pair) for pair in zip(there, back, strict=True)]
        last = torch.cat((there[-1], back[0]))
        s = torch.tanh(model.first(last))
        for i, word in enumerate(TARGET[b]):
            context = last
            if kind == "additive":
                layer = model.attention
                scores = [layer.v @ torch.tanh(layer.query.weight @ s + layer.key.weight @ h) for h in memory]
                alpha = torch.softmax(torch.stack(scores), 0)
                context = sum(a * h for a, h in zip(alpha, memory, strict=True))
            e = model.tables.target.weight[word] * 5**0.5
            s = gru(torch.cat((e, context)), s, model.decoder)
            t = torch.tanh(model.out(torch.cat((s, e, context))))
            assert far(logits[b, i], model.tables.target.weight @ t) < 1e-12


@pytest.mark.parametrize(("name", "weights"), [("rnn", 1_330_324), ("rnn-attention", 1_326_832)])
def test_a_preset_has_about_as_many_weights_as_the_tiny_transformer(name, weights):
    with torch.device("meta"):
        model, tiny = create(name), create("transformer-tiny")
    assert isinstance(model, Seq2Seq)
    assert (model.attention is None) == (name == "rnn")
    assert count(model) == 4_736_000 + weights
    assert count(model) == pytest.approx(count(tiny), rel=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind):
    model = small(kind)
    together = model(SOURCE, TARGET)
    assert far(model(torch.tensor([[8, 6, 2]]), torch.tensor([[1, 9, 4, 2]])), together[1:2, :4]) < 1e-12


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_no_word_sees_what_comes_later(kind):
    model = small(kind)
    changed = TARGET.clone()
    changed[:, 3] = 15
    one, other = model(SOURCE, TARGET), model(SOURCE, changed)
    assert far(one[:, :3], other[:, :3]) == 0
    assert (one[:, 3:] - other[:, 3:]).abs().amax((0, 2)).min() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_of_padding_gives_no_nan(kind):
    model = small(kind).train()
    logits = model(SOURCE * torch.tensor([[0], [1], [1]]), TARGET)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@torch.no_grad()
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_is_one_pass_also_of_beams_that_move_and_sources_that_end(kind, dtype, close):
    model, beams = small(kind, dtype), 4
    state = model.begin_state(model.encode(SOURCE), beams, 7)
    generator = torch.Generator().manual_seed(2)
    alive = torch.arange(3)
    history = torch.ones(3 * beams, 1, dtype=torch.long)
    for number in range(6):
        logits = model.step(history[:, -1], state)
        assert state.length == history.shape[1]
        assert far(logits, model(SOURCE[alive].repeat_interleave(beams, 0), history)[:, -1]) < close
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
    assert state.memory.shape[0] == state.last.shape[0] == 1
    assert state.hidden.shape == (4, 7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gradient_reaches_every_weight(kind):
    model = small(kind, tied="none").train()
    model(SOURCE, TARGET).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@torch.no_grad()
def test_attention_shows_its_weights_word_by_word():
    model = small("additive")
    with foveal.watch(model) as seen:
        model(SOURCE, TARGET)
    assert list(seen) == ["attention", *(f"attention#{number}" for number in range(2, 6))]
    for record in seen.values():
        assert record.weights.shape == (3, 1, 1, 7)
        assert record.weights[1, :, :, 3:].abs().max() == 0
    with pytest.raises(FovealError, match="watch saw nothing"), foveal.watch(small("none")) as seen:
        small("none")(SOURCE, TARGET)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_dropout_falls_in_training_only(kind):
    model = small(kind, dropout=0.5)
    exact = model(SOURCE, TARGET)
    assert far(exact, model(SOURCE, TARGET)) == 0
    assert far(exact, model.train()(SOURCE, TARGET)) > 1e-3


def test_all_tables_may_be_one():
    tables = small("none", target_vocab=29, tied="all").tables
    assert tables.source.weight is tables.of_target is tables.of_output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": "dot"}, "no attention of Seq2Seq is called 'dot'"),
        ({"hidden": 0}, "Seq2Seq's hidden: expected at least 1, got 0"),
        ({"dropout": -1}, "Seq2Seq's dropout: expected at least 0 and below 1, got -1"),
        ({"begin": 40}, "Seq2Seq's begin: expected the id of one of 23 tokens, got 40"),
    ],
)
def test_settings_that_do_not_fit(changes, message):
    with pytest.raises(FovealError) as caught:
        Seq2Seq(Seq2SeqConfig(**{**SMALL, **changes}))
    assert message in str(caught.value)
