"""Pairs of sentences small enough to learn in seconds: numbers in words, and the same backwards in another language."""

import itertools

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf"}
FIELDS = {
    "vocab_size": 300,
    "config": {"layers": 1, "decoder_layers": 1, "width": 32, "hidden": 64, "heads": 2, "dropout": 0.1},
    "tokens": 128,
    "epochs": 3,
    "warmup": 50,
    "lr": 0.005,
    "average": 2,
    "beam": 2,
}
FLAGS = [
    "--vocab-size",
    "300",
    "--config",
    "{layers: 1, decoder_layers: 1, width: 32, hidden: 64, heads: 2}",
    "--tokens",
    "128",
    "--device",
    "cpu",
]


def sentences(folder, longest=3):
    """A TSV with train, val and test."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for length in range(1, longest + 1):
        for number, words in enumerate(itertools.product(WORDS, repeat=length)):
            split = "val" if number % 9 == 4 else "test" if number % 9 == 7 else "train"
            rows.append(f"{' '.join(words)}\t{' '.join(WORDS[word] for word in reversed(words))}\t{split}")
    file = folder / "numbers.tsv"
    file.write_text("en\tde\tsplit\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return file
