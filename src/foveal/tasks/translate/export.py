"""`foveal export` of a model that translates: one .onnx file for a search without torch, or a folder for CTranslate2."""

import argparse
import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foveal.atomic import expect_folder, write_atomic
from foveal.errors import expect
from foveal.runtime.onnx_names import EXPORTED

if TYPE_CHECKING:
    from foveal.tasks.translate.prove import TranslatorParity


@dataclass(frozen=True)
class Margin:
    """What may differ from the model; more is no success, and nothing is written."""

    largest: float | None = None  # difference of a log-probability of a word that was said
    mean: float | None = None
    points: float | None = None  # of BLEU
    time: float | None = None  # of that of the float32 file


MARGINS = {"fp32": Margin(largest=1e-3), "int8": Margin(mean=0.1, points=0.3, time=0.95)}


def export_translate(args: argparse.Namespace) -> int:
    if args.to == "ctranslate2":
        return _to_ctranslate2(args)
    expect(args.precision in MARGINS, "--precision", f"{' or '.join(MARGINS)} for a model that translates", args.precision)
    expect(args.out.suffix == EXPORTED, "--out", f"a name that ends in {EXPORTED} for a model that translates", args.out.name)
    beside = args.out.with_name(f"{args.out.name}.proof.json")
    for file in (args.out, beside):
        expect(not file.is_dir(), "--out", "the name of a file", f"the folder {file}")
    expect_folder(args.out.parent)
    from foveal.deploy.measure.origin import origin
    from foveal.models.store import load_model
    from foveal.runtime.decode.batched import positions
    from foveal.runtime.decode.search import Search
    from foveal.runtime.onnx_session import opened
    from foveal.runtime.vocabulary import both_from
    from foveal.tasks.classify.graph import write_export
    from foveal.tasks.translate.graph import export_translator
    from foveal.tasks.translate.onnx_engine import OnnxEngine
    from foveal.tasks.translate.prove import held_sentences, prove_translator, timed_translators

    model, card = load_model(args.model, "translate")
    expect(bool(card.vocabulary), args.model, "a model with its vocabulary", "one without")
    source, target = both_from(card.vocabulary)
    contents = {"file": export_translator(model, card, int8=args.precision == "int8")}
    if args.precision != "fp32":
        contents["float32"] = export_translator(model, card)
    engines = {name: OnnxEngine(opened(content), card.config) for name, content in contents.items()}
    held = held_sentences(card, source)
    search = Search(beam=card.recipe.get("beam", 4), penalty=card.recipe.get("penalty", 0.6), room=positions(card.config))
    parity = prove_translator(engines["file"], model, target, held, search)
    times = timed_translators(dict(engines), held, search)
    evaluate(args.precision, parity, times)
    proof = {
        "precision": args.precision,
        "held": held.words,
        "beam": search.beam,
        "penalty": search.penalty,
        **parity.facts(),
        "bytes_before_this_proof": len(contents["file"]),
        "digest_before_this_proof": hashlib.sha256(contents["file"]).hexdigest(),
        "milliseconds": times,
        "origin": origin("cpu", 1),
    }
    write_export(contents["file"], proof, args.out)
    write_atomic(beside, json.dumps(proof, indent=1).encode())  # after its file: a proof without one is of another
    _tell(args.out, args.out.stat().st_size, parity, held.words, times)
    return 0


def _to_ctranslate2(args: argparse.Namespace) -> int:
    expect(args.precision in MARGINS, "--precision", f"{' or '.join(MARGINS)} for a model that translates", args.precision)
    expect(not args.out.exists(), "--out", "the name of a folder that is not there yet", str(args.out))
    expect_folder(args.out.parent)
    from foveal.deploy.measure.origin import origin
    from foveal.models.store import load_model
    from foveal.runtime.vocabulary import both_from
    from foveal.tasks.translate.prove import held_sentences
    from foveal.tasks.translate.prove_ctranslate2 import prove_ctranslate2
    from foveal.tasks.translate.to_ctranslate2 import PROOF, export_ctranslate2

    model, card = load_model(args.model, "translate")
    expect(bool(card.vocabulary), args.model, "a model with its vocabulary", "one without")
    vocabularies = both_from(card.vocabulary)
    held = held_sentences(card, vocabularies[0])
    with tempfile.TemporaryDirectory(dir=args.out.parent) as made:
        folder = Path(made) / args.out.name
        export_ctranslate2(model, card, vocabularies, folder, args.precision)
        parity = prove_ctranslate2(folder, model, vocabularies, held)
        evaluate(args.precision, parity, {})
        proof = {"precision": args.precision, "held": held.words, "beam": 1, **parity.facts(), "origin": origin("cpu", 1)}
        (folder / PROOF).write_text(json.dumps(proof, indent=1), encoding="utf-8")
        size = sum(file.stat().st_size for file in folder.iterdir())
        folder.rename(args.out)
    _tell(args.out, size, parity, held.words, {})
    print(f"next: ctranslate2.Translator({str(args.out)!r})")
    return 0


def evaluate(precision: str, parity: "TranslatorParity", times: dict[str, dict[str, float]]) -> None:
    """Raise a FovealError unless the file is near enough to its model, and worth it. times: of it and of the float32 file, where known."""
    margin = MARGINS[precision]
    what, nothing = f"the {precision} file", "nothing was written"
    for limit, found, words in ((margin.largest, parity.largest, "at most"), (margin.mean, parity.mean, "on average")):
        expect(
            limit is None or found <= limit,
            what,
            f"log-probabilities within {limit or 0:g} of the model's {words}",
            f"{found:.2g}",
            nothing,
        )
    if margin.points is not None and parity.before is not None and parity.after is not None:
        lost, scores = parity.before - parity.after, f"{parity.after:.2f} where the model has {parity.before:.2f}"
        expect(lost <= margin.points, what, f"{parity.figure} within {margin.points:g} of the model's", scores, nothing)
    if margin.time is not None and "float32" in times:
        ratio = times["file"]["median"] / times["float32"]["median"]
        expect(ratio <= margin.time, what, f"at most {margin.time:g} × the time of the float32 file", f"{ratio:.2f} ×", nothing)


def _tell(out: Path, size: int, parity: "TranslatorParity", held: str, times: dict[str, dict[str, float]]) -> None:
    print(f"wrote {out}, {size:,} bytes")
    print(f"log-probabilities differ by {parity.largest:.1e} at most and {parity.mean:.1e} on average, on {held}")
    print(f"{parity.same:.2%} of the translations are the same")
    if parity.before is not None and parity.after is not None:
        print(f"{parity.figure} {parity.after:.2f}, the model's {parity.before:.2f}")
    if not times:
        return
    other = f", as float32 .onnx {times['float32']['median']:.1f} ms" if "float32" in times else ""
    print(f"{times['file']['median']:.1f} ms a sentence on one thread{other}")
