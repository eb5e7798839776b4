"""`foveal explain RUN "a sentence"` of a model that translates: its translation, and where every head of it looked, on one page."""

import argparse
import io
import json
from pathlib import Path

import numpy as np

from foveal.atomic import expect_folder, write_atomic
from foveal.device import choose
from foveal.errors import expect
from foveal.models.store import load_model
from foveal.models.torch_engine import TorchEngine
from foveal.runtime.decode.batched import decode, positions
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import MARKS, both_from
from foveal.tasks.translate.attention import look_back
from foveal.tasks.translate.page import Told, page, picture

MOST = 120  # pieces of a sentence: on a page of more nobody finds anything
END, BEGIN = MARKS[2], MARKS[1]


def explain_translate(args: argparse.Namespace, model: Path, words: list[str]) -> int:
    expect(len(words) == 1, "explain", "one sentence", f"{len(words)} words" if words else "none", "put it into quotation marks")
    out = args.out if args.out is not None or args.json else Path("explained.html")
    if out is not None:
        expect(out.suffix.lower() == ".html", "--out", "the name of an .html file for a model that translates", str(out))
        expect_folder(out.parent)
    if args.arrays is not None:
        expect(args.arrays.suffix == ".npz", "--arrays", "the name of an .npz file", str(args.arrays))
        expect_folder(args.arrays.parent)
    told = translated(model, words[0], args.device)
    if args.arrays is not None:
        write_atomic(args.arrays, _arrays(told))
    if out is not None:
        rows, columns = told.labels("cross")
        write_atomic(out, page(told).encode())
        write_atomic(out.with_suffix(".svg"), picture(told.looked.average, rows, columns).encode())
    if args.json:
        print(json.dumps(_facts(told), ensure_ascii=False))
    else:
        beside = "" if args.arrays is None else f" and {args.arrays}"
        print(f"{told.source}\n{told.translation}\nwrote {out} and {out.with_suffix('.svg') if out else None}{beside}")
    return 0


def translated(path: Path, sentence: str, device: str = "cpu") -> Told:
    """A sentence's translation by beam search, and the maps of just that translation."""
    model, card = load_model(path, "translate")
    expect(bool(card.vocabulary), str(path), "a model with its vocabulary", "one without")
    source, target = both_from(card.vocabulary)
    pieces = source.encode([sentence])[0]
    known = positions(card.config)
    most = MOST if known is None else min(MOST, known - 1)
    expect(0 < len(pieces) <= most, "the sentence", f"1 to {most} pieces", len(pieces))
    model = model.to(choose(device))
    search = Search(beam=card.recipe.get("beam", 4), penalty=card.recipe.get("penalty", 0.6), room=known)
    best = decode(TorchEngine(model), [pieces], search)[0][0]
    return Told(
        model=card.model,
        source=source.normalise(sentence),
        translation=target.decode([best.words])[0],
        score=best.score,
        pieces=[*source.pieces(pieces), END],
        said=[*target.pieces(best.words), END],
        begin=BEGIN,
        looked=look_back(model, pieces, best.words),
    )


def _arrays(told: Told) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, source=np.array(told.pieces), translation=np.array(told.said), **told.looked.maps)  # type: ignore[arg-type]
    return content.getvalue()


def _facts(told: Told) -> dict[str, object]:
    return {
        "source": told.source,
        "translation": told.translation,
        "score": round(told.score, 6),
        "pieces": told.pieces,
        "said": told.said,
        "cross": [[round(value, 6) for value in row] for row in told.looked.average.tolist()],
    }
