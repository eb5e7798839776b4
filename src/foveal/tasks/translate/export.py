"""Exporting a translator: one .onnx file for a search without torch, or a folder for CTranslate2,
each with its proof and its limits.
"""

import copy
import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.atomic import expect_folder, move_folder, write_atomic
from foveal.deploy.measure.origin import origin
from foveal.deploy.onnx.file import write_export
from foveal.errors import expect
from foveal.runtime.decode.batched import max_positions
from foveal.runtime.decode.engine import Engine
from foveal.runtime.decode.search import Search
from foveal.runtime.onnx_names import EXPORTED
from foveal.runtime.onnx_session import opened
from foveal.runtime.vocabulary import both_from
from foveal.tasks.task import Exported
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.graph import export_translator
from foveal.tasks.translate.onnx_engine import OnnxEngine
from foveal.tasks.translate.options import ExportOptions
from foveal.tasks.translate.prove import Parity, ProofSentences, proof_sentences, prove_translator, timed_translators
from foveal.tasks.translate.prove_ctranslate2 import prove_ctranslate2
from foveal.tasks.translate.to_ctranslate2 import PROOF, export_ctranslate2

if TYPE_CHECKING:
    from foveal.tasks.model import Model

Times = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Limits:
    """What may differ from the model; with more, nothing is written."""

    largest: float | None = None  # difference of a log-probability of a token of a translation
    mean: float | None = None
    points: float | None = None  # of BLEU
    time: float | None = None  # as a share of that of the float32 file


LIMITS = {"fp32": Limits(largest=1e-3), "int8": Limits(mean=0.1, points=0.3, time=0.95)}


class ExportedTranslator(Exported):
    def __init__(self, path: Path, proof: dict[str, Any]) -> None:
        self.path, self.proof = path, proof

    def summary(self) -> str:
        proof = self.proof
        times, limits = proof["milliseconds"], (proof["largest"], proof["mean"])
        lines = [
            f"wrote {self.path}, {self._bytes():,} bytes",
            (
                f"log-probabilities differ by {limits[0]:.1e} at most and {limits[1]:.1e} on average, on "
                f"{proof['sentences_of']}"
            ),
            f"{proof['same']:.2%} of the translations are the same",
        ]
        if proof["before"] is not None:
            lines.append(f"{proof['figure']} {proof['after']:.2f}, the model's {proof['before']:.2f}")
        other = f", as float32 .onnx {times['float32']['median']:.1f} ms" if "float32" in times else ""
        lines.append(f"{times['file']['median']:.1f} ms per sentence on one thread, beam {proof['beam']}{other}")
        if self.path.is_dir():
            lines.append(f"next: ctranslate2.Translator({str(self.path)!r})")
        return "\n".join(lines)

    def _bytes(self) -> int:
        return int(self.proof["bytes"] if self.path.is_dir() else self.path.stat().st_size)


def export(model: "Model", path: Path, options: ExportOptions) -> ExportedTranslator:
    card = model.card
    assert isinstance(card, TranslateCard)
    expect(bool(card.vocabulary), model.name, "a model with its vocabulary", "one without")
    if options.to == "ctranslate2":
        expect(not path.exists(), "--out", "the name of a folder that is not there yet", str(path))
    else:
        expect(
            path.suffix == EXPORTED, "--out", f"a name that ends in {EXPORTED} for a model that translates", path.name
        )
        for file in (path, _proof_file(path)):
            expect(not file.is_dir(), "--out", "the name of a file", f"the folder {file}")
    expect_folder(path.parent)
    network = copy.deepcopy(
        model.network
    ).cpu()  # what is proven runs on a CPU, and the caller's model stays where it is
    write = _to_ctranslate2 if options.to == "ctranslate2" else _to_onnx
    return write(network, card, path, options.precision)


def _to_onnx(network: Any, card: TranslateCard, path: Path, precision: str) -> ExportedTranslator:
    source, target = both_from(card.vocabulary)
    contents = {"file": export_translator(network, card, int8=precision == "int8")}
    if precision != "fp32":
        contents["float32"] = export_translator(network, card)
    engines: dict[str, Engine] = {name: OnnxEngine(opened(content), card.config) for name, content in contents.items()}
    sentences = proof_sentences(card, source)
    search = Search(beam=card.beam, length_penalty=card.length_penalty, max_positions=max_positions(card.config))
    parity = prove_translator(engines["file"], network, target, sentences, search)
    times = timed_translators(engines, sentences, search)
    expect_within(precision, parity, times)
    content = contents["file"]
    proof = _proof(precision, sentences, search, parity, times) | {
        "bytes": len(content),  # before this proof is in it
        "digest_before_this_proof": hashlib.sha256(content).hexdigest(),
    }
    write_export(content, proof, path)
    # After its file: a proof without one is another's.
    write_atomic(_proof_file(path), json.dumps(proof, indent=1).encode())
    return ExportedTranslator(path, proof)


def _to_ctranslate2(network: Any, card: TranslateCard, path: Path, precision: str) -> ExportedTranslator:
    vocabularies = both_from(card.vocabulary)
    sentences = proof_sentences(card, vocabularies[0])
    with tempfile.TemporaryDirectory(dir=path.parent) as made:
        folder = Path(made) / path.name
        export_ctranslate2(network, card, vocabularies, folder, precision)
        parity, times = prove_ctranslate2(folder, network, vocabularies, sentences)
        expect_within(precision, parity, times)
        size = sum(file.stat().st_size for file in folder.iterdir())
        proof = _proof(precision, sentences, Search(beam=1), parity, times) | {"bytes": size}
        (folder / PROOF).write_text(json.dumps(proof, indent=1), encoding="utf-8")
        move_folder(folder, path)
    return ExportedTranslator(path, proof)


def _proof(precision: str, sentences: ProofSentences, search: Search, parity: Parity, times: Times) -> dict[str, Any]:
    searched = {"beam": search.beam, "length_penalty": search.length_penalty}
    facts = {"precision": precision, "sentences_of": sentences.what} | searched | parity.facts()
    return facts | {"milliseconds": times, "origin": origin("cpu", 1)}


def _proof_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.proof.json")


def expect_within(precision: str, parity: Parity, times: Times) -> None:
    """Raise a FovealError unless the file is near enough to its model, and worth it. times:
    of it and of the float32 file, where known.
    """
    limits = LIMITS[precision]
    what, do = f"the {precision} file", "nothing was written"
    for limit, found, words in ((limits.largest, parity.largest, "at most"), (limits.mean, parity.mean, "on average")):
        expected = f"log-probabilities within {limit or 0:g} of the model's {words}"
        expect(limit is None or found <= limit, what, expected, f"{found:.2g}", do)
    if limits.points is not None and parity.before is not None and parity.after is not None:
        lost, scores = parity.before - parity.after, f"{parity.after:.2f} where the model has {parity.before:.2f}"
        expect(lost <= limits.points, what, f"{parity.figure} within {limits.points:g} of the model's", scores, do)
    if limits.time is not None and "float32" in times:
        ratio = times["file"]["median"] / times["float32"]["median"]
        expect(
            ratio <= limits.time, what, f"at most {limits.time:g} × the time of the float32 file", f"{ratio:.2f} ×", do
        )
