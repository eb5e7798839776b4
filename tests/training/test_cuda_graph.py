"""A recorded step is the step: the same loss and the same gradient, for every shape, however often.

Batches are padded to few shapes.
"""

import json
from types import SimpleNamespace

import pytest
import torch
from grid import first_is_quick
from training.killed import killed_and_resumed, train_translate
from training.little import rows
from training.sentences import FIELDS, sentences

from foveal.data.token_batches import TokenBatches, TokenPairs, bucketed, collate
from foveal.errors import FovealError
from foveal.models.zoo import create
from foveal.runtime.vocabulary import END, PAD
from foveal.tasks.translate.module import TranslateModule
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.training.cuda_graph import GraphedLoss
from foveal.training.harness import Machine, _not_recorded
from foveal.training.module import TaskModule

GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]
TOKENS = 64


def pairs_of(count=60):
    draw = torch.Generator().manual_seed(0)
    both = torch.randint(0, 12, (count, 2), generator=draw).tolist()
    return TokenPairs.of(
        *(
            [[4 + (place + word) % 40 for word in range(pair[side])] for place, pair in enumerate(both)]
            for side in (0, 1)
        )
    )


def batches_of(pairs):
    return [collate(pairs[indices]) for indices in TokenBatches(pairs.source.lengths, pairs.target.lengths, TOKENS)]


def task_of(device="cpu", **config):
    torch.manual_seed(0)
    model = create("transformer-tiny", source_vocab=50, target_vocab=50, layers=2, decoder_layers=2, **config)
    return TranslateModule(model, TranslateRecipe(tokens=TOKENS)).to(device).train()


def test_buckets_have_few_shapes_and_lose_nothing():
    batches = batches_of(pairs_of(400))
    shapes = set()
    for batch in batches:
        source, target_in, target_out = bucketed(batch, TOKENS)
        assert source.shape == target_in.shape == target_out.shape
        shapes.add(source.shape)
        for padded, words in ((source, batch.source), (target_in, batch.target_in), (target_out, batch.target_out)):
            rows, width = words.shape
            assert torch.equal(padded[:rows, :width], words)
            assert (padded[:rows, width:] == PAD).all()
            assert (padded[rows:, 1:] == PAD).all()
        assert (source[len(batch.source) :, 0] == END).all()
    assert len(shapes) <= 6 < len({tuple(batch.source.shape) for batch in batches})


def test_no_width_is_padded_beyond_the_positions_there_are():
    """A table of learned positions would be stretched, and teach something else."""
    pairs = TokenPairs.of([[5] * 10, [6] * 4], [[7] * 3, [8] * 9])
    batch = collate(pairs)
    task = task_of(dropout=0.0, position="learned", max_length=11)
    assert bucketed(batch, TOKENS, 11)[0].shape[1] == 11
    assert bucketed(batch, TOKENS, 12)[0].shape[1] == bucketed(batch, TOKENS)[0].shape[1] == 12
    torch.testing.assert_close(
        task(*bucketed(batch, TOKENS, 11)), task.loss(task.model, batch, task.recipe.label_smoothing)
    )


def test_a_batch_with_more_pairs_than_tokens_allow_is_refused():
    batch = collate(TokenPairs.of([[5] * 10, [6] * 4], [[7] * 3, [8] * 9]))
    with pytest.raises(FovealError, match="at most 1 pairs, 12 tokens, got 2 of width 11"):
        bucketed(batch, 12)


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_the_loss_of_a_bucketed_batch_is_that_of_the_batch(r_drop):
    task = task_of(dropout=0.0)
    task.recipe = task.recipe.changed(r_drop=r_drop)
    for batch in batches_of(pairs_of()):
        expected, loss = (
            task.loss(task.model, batch, task.recipe.label_smoothing, r_drop),
            task(*bucketed(batch, TOKENS)),
        )
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
        for one, other in zip(
            *(torch.autograd.grad(value, list(task.parameters())) for value in (loss, expected)), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("position", first_is_quick(["sinusoidal", "learned", "relative", "rotary"]))
def test_it_is_the_step(device, mixed, position):
    task = task_of(device, dropout=0.0, position=position, max_length=16)
    weights = list(task.parameters())
    cuda_graphs = GraphedLoss(task)
    batches = [tuple(part.to(device) for part in bucketed(batch, TOKENS)) for batch in batches_of(pairs_of())]
    for batch in [*batches, *batches]:
        with torch.no_grad():  # weights change between steps, as an optimiser changes them
            for weight in weights:
                weight.mul_(0.99)
        with torch.autocast(device, torch.bfloat16, mixed):
            expected, loss = task(*batch), cuda_graphs(*batch)
        near = {"rtol": 0.05, "atol": 0.01} if mixed else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(loss, expected, **near)
        for one, other in zip(*(torch.autograd.grad(3 * value, weights) for value in (loss, expected)), strict=True):
            torch.testing.assert_close(one, other, **near)
    assert len(cuda_graphs.replays) == len({batch[0].shape for batch in batches})


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_two_batches_add_up(device):
    task = task_of(device, dropout=0.0)
    weights = list(task.parameters())
    cuda_graphs = GraphedLoss(task)
    first, second = (tuple(part.to(device) for part in bucketed(batch, TOKENS)) for batch in batches_of(pairs_of())[:2])
    for batch in (first, second):
        cuda_graphs(*batch).backward()
    expected = torch.autograd.grad(task(*first) + task(*second), weights)
    for weight, gradient in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_random_is_the_seeds(device):
    """Also of the first step of a shape, which is recorded before it is replayed."""
    task = task_of(device, dropout=0.3)
    batch = tuple(part.to(device) for part in bucketed(batches_of(pairs_of())[0], TOKENS))

    def after(cuda_graphs, seed):
        torch.manual_seed(seed)
        return cuda_graphs(*batch).item()

    known, fresh = (GraphedLoss(task) for _ in range(2))
    values = [after(known, 1), after(known, 2), after(known, 1), after(fresh, 2)]
    assert values[0] == values[2] != values[1] == values[3]


def test_the_gradient_of_a_loss_must_be_taken_before_the_next():
    cuda_graphs = GraphedLoss(task_of())
    first, second = (bucketed(batch, TOKENS) for batch in batches_of(pairs_of())[:2])
    loss = cuda_graphs(*first)
    cuda_graphs(*second)
    with pytest.raises(FovealError, match="another loss in between"):
        loss.backward()


def test_which_runs_are_recorded():
    def on(device="cuda", processes=1, model="transformer-tiny", config=None, **changes):
        built = create(model, source_vocab=50, target_vocab=50, **config or {})
        return TranslateModule(built, TranslateRecipe(**changes)).records(device, processes)

    assert on()
    assert on(precision="bf16")
    assert on(config={"position": "relative"})
    assert not on(device="cpu")
    assert not on(processes=2)
    assert not on(cuda_graphs=False)
    assert not on(precision="16")
    assert not on(checkpointing=True)
    assert not on(config={"attention_dropout": 0.1})
    assert not on(model="rnn")


class Unrecordable(TaskModule):
    """What a task has that says nothing of recording."""


@pytest.mark.parametrize(
    ("kind", "changes", "device", "line"),
    [
        (Unrecordable, {}, "cuda", "--cuda-graphs: no step is recorded: the task has no step that can be recorded"),
        (Unrecordable, {"cuda_graphs": False}, "cuda", None),
        (Unrecordable, {}, "cpu", None),
        (TranslateModule, {}, "cuda", None),
        (
            TranslateModule,
            {"precision": "16"},
            "cuda",
            "--cuda-graphs: no step is recorded: in --precision 16 the loss",
        ),
        (TranslateModule, {"checkpointing": True}, "cuda", "--cuda-graphs: no step is recorded: blocks are computed"),
    ],
)
def test_a_gpu_whose_steps_are_not_recorded_says_why(kind, changes, device, line):
    model = create("transformer-tiny", source_vocab=50, target_vocab=50, layers=1, decoder_layers=1)
    trainer = SimpleNamespace(world_size=1, strategy=SimpleNamespace(root_device=torch.device(device)))
    module = kind(model, TranslateRecipe(**changes))
    said = _not_recorded(module, trainer)
    assert said == line if line is None else said.startswith(line)
    assert module.records(device, 1) == (device == "cuda" and module.recipe.cuda_graphs and line is None)


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_a_recorded_run_resumes_to_the_same_weights(tmp_path, monkeypatch, r_drop):
    """On a CPU what would be replayed is computed: all but the launching is the same."""
    monkeypatch.setattr(TaskModule, "records", lambda *_: True)
    recipe = TranslateRecipe(data=str(sentences(tmp_path / "data")), r_drop=r_drop, **FIELDS)
    shapes = []
    one, other = killed_and_resumed(
        recipe, tmp_path, monkeypatch, Machine(device="cpu"), lambda task: shapes.append(len(task.cuda_graphs.replays))
    )
    assert 0 < max(shapes) < len(shapes)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("on", [False, True])
def test_r_drop_is_part_of_a_step(tmp_path, monkeypatch, on):
    monkeypatch.setattr(TaskModule, "records", lambda *_: on)
    recipe = TranslateRecipe(data=str(sentences(tmp_path / "data")), **FIELDS | {"epochs": 1})
    losses = []
    for r_drop in (0.0, 50.0):
        train_translate(recipe.changed(r_drop=r_drop), tmp_path / str(r_drop), machine=Machine(device="cpu"))
        losses.append(float(rows(tmp_path / str(r_drop) / "log.csv")[-1]["loss"]))
    assert losses[1] > losses[0] + 0.1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_run_on_a_gpu_learns_by_it_and_resumes_to_the_same_weights(tmp_path, monkeypatch):
    recipe = TranslateRecipe(data=str(sentences(tmp_path / "data")), **FIELDS | {"epochs": 60})
    shapes = []
    one, other = killed_and_resumed(
        recipe, tmp_path, monkeypatch, Machine(device="cuda"), lambda task: shapes.append(len(task.cuda_graphs.replays))
    )
    assert 0 < max(shapes) < len(shapes)
    assert json.loads((tmp_path / "whole" / "result.json").read_text())["test"]["chrf"]["value"] > 80
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_moving_average_of_the_weights_is_not_trained():
    torch.manual_seed(0)
    model = create("transformer-tiny", source_vocab=50, target_vocab=50, layers=1, decoder_layers=1, dropout=0.0)
    task = TranslateModule(model, TranslateRecipe(tokens=TOKENS, ema=0.9)).train()
    batch = bucketed(batches_of(pairs_of())[0], TOKENS)
    GraphedLoss(task)(*batch).backward()
    assert all(weight.grad is not None for weight in task.model.parameters())
    assert all(weight.grad is None for weight in task.average.parameters())


@pytest.mark.slow
def test_one_compiled_graph_takes_every_shape():
    """A size that is written down, in an error's words, would become a constant of it."""
    task = task_of(dropout=0.0)
    counters = torch._dynamo.utils.counters
    torch._dynamo.reset()
    counters.clear()
    compiled = GraphedLoss(torch.compile(task, dynamic=True, fullgraph=True, backend="aot_eager"))
    for batch in batches_of(pairs_of(200)):
        inputs = bucketed(batch, TOKENS)
        torch.testing.assert_close(compiled(*inputs), task(*inputs))
    assert len(compiled.replays) > 3
    assert counters["stats"]["unique_graphs"] == 1
