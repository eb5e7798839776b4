"""Who decodes in `foveal bench translate`: our engines, transformers' generate and CTranslate2, with the same weights.

Each is a function of sources, beam and steps; the end is forbidden before the last step, and forced there.
"""

import copy
import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from foveal.deploy.onnx.silence import quiet
from foveal.deploy.twins.fast_decoder import engine_of
from foveal.deploy.twins.fast_linear import can_quantise
from foveal.errors import FovealError, expect
from foveal.models.marian import to_marian
from foveal.models.torch_engine import TorchEngine
from foveal.models.transformer import Transformer
from foveal.report.bench import Bench, Row
from foveal.runtime.decode.batched import decode
from foveal.runtime.decode.engine import Engine
from foveal.runtime.decode.search import Search

OURS, TORCH, THEIRS, FASTEST = "foveal", "foveal, TorchEngine", "transformers", "CTranslate2"
Decoding = Callable[[list[list[int]], int, int], list[list[int]]]  # sources, beam, steps → the best of each, no marks


@dataclass(frozen=True)
class Contender:
    name: str
    precision: str
    decoding: Decoding

    def __str__(self) -> str:
        return f"{self.name} {self.precision}"


@contextmanager
def contenders(bench: Bench, model: Transformer) -> Iterator[list[Contender]]:
    with tempfile.TemporaryDirectory() as folder:
        those = [
            Contender(OURS, "fp32", searched(engine_of(model))),
            Contender(TORCH, "fp32", searched(TorchEngine(model))),
        ]
        if can_quantise():
            those.append(Contender(OURS, "int8", searched(engine_of(model, "int8"))))
        try:
            config, weights = to_marian(model)
        except FovealError as error:
            bench.add(Row("transformers and CTranslate2", "", f"left out: {error}", None, ""))
            yield those
            return
        if importlib.util.find_spec("transformers") is None:
            bench.add(Row("transformers and CTranslate2", "", "left out: transformers is not installed", None, ""))
            yield those
            return
        with quiet():
            marian = _marian(config, weights)
        those.append(Contender(THEIRS, "fp32", _generated(marian)))
        if importlib.util.find_spec("ctranslate2") is None:
            bench.add(Row("CTranslate2", "", "left out: ctranslate2 is not installed", None, ""))
        else:
            with quiet():
                those += [
                    Contender(FASTEST, kind, _translated(marian, Path(folder) / kind, kind, bench.threads))
                    for kind in ("fp32", "int8")
                ]
        yield those


def searched(engine: Engine) -> Decoding:
    def decoding(sources: list[list[int]], beam: int, steps: int) -> list[list[int]]:
        search = Search(beam=beam, min_length=steps - 1, max_length=steps - 1)  # the last step is the end
        return [list(found[0].tokens) for found in decode(engine, sources, search)]

    return decoding


def _marian(config: dict[str, Any], weights: dict[str, torch.Tensor]) -> Any:
    from transformers import MarianConfig, MarianMTModel

    model: Any = MarianMTModel(MarianConfig(**config))
    missing, surplus = model.load_state_dict(weights, strict=False)
    left = [
        name
        for name in missing
        if not name.endswith(("embed_positions.weight", "embed_tokens.weight", "lm_head.weight"))
    ]
    expect(not left and not surplus, "Marian's weights", "all of them", f"without {left[:3]}, with {surplus[:3]}")
    model.tie_weights()
    return model.eval()


def _generated(marian: Any) -> Decoding:
    @torch.inference_mode()
    def decoding(sources: list[list[int]], beam: int, steps: int) -> list[list[int]]:
        config = marian.config
        tokens = torch.tensor([[*source, config.eos_token_id] for source in sources])
        generated = marian.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=steps,
            max_new_tokens=steps,
            length_penalty=0.6 if beam > 1 else 1.0,
        )
        return [row[1:steps] for row in generated.tolist()]

    return decoding


def _translated(marian: Any, folder: Path, precision: str, threads: int) -> Decoding:
    """CTranslate2's own converter, without a tokenizer: a token is called by its id."""
    import ctranslate2
    from ctranslate2.converters.transformers import BartLoader

    # the converter changes what it is given, and transformers would generate other tokens
    marian = copy.deepcopy(marian)
    config = marian.config
    config.normalize_before, config.normalize_embedding = False, False
    spec = BartLoader().get_model_spec(marian)
    names = [f"w{number}" for number in range(config.vocab_size)]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    for mark, number in (("bos", config.bos_token_id), ("eos", config.eos_token_id), ("unk", config.unk_token_id or 3)):
        setattr(spec.config, f"{mark}_token", names[number])
    spec.config.decoder_start_token = names[config.decoder_start_token_id]
    spec.validate()
    spec.optimize(quantization=None if precision == "fp32" else precision)
    folder.mkdir()
    spec.save(str(folder))
    kind = "float32" if precision == "fp32" else precision
    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type=kind, inter_threads=1, intra_threads=threads
    )

    def decoding(sources: list[list[int]], beam: int, steps: int) -> list[list[int]]:
        given = [[names[token] for token in source] + [names[config.eos_token_id]] for source in sources]
        found = translator.translate_batch(
            given,
            beam_size=beam,
            min_decoding_length=steps,
            max_decoding_length=steps,
            length_penalty=0.6,
            return_scores=True,
        )
        return [[int(name[1:]) for name in one.hypotheses[0]][: steps - 1] for one in found]

    return decoding
