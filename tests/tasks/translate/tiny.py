"""A training run of a few seconds, and inputs for its model: what every hostile situation of this task starts from."""

from training.sentences import FLAGS as SMALL
from training.sentences import sentences

FLAGS = [*SMALL, "--beam", "1", "--average", "1", "--epochs", "1"]


def make_data(folder):
    """What --data names, relative to the folder."""
    return str(sentences(folder / "data").relative_to(folder))


def change_data(folder):
    """One sample more than when the run began."""
    with (folder / "data/numbers.tsv").open("a", encoding="utf-8") as table:
        table.write("one two three four\tvier drei zwei eins\ttrain\n")


def inputs(folder):
    """What predict is given."""
    (folder / "one.txt").write_text("one two\nthree\n", encoding="utf-8")
    (folder / "two.txt").write_text("five four\n", encoding="utf-8")
    return ["one.txt", "two.txt"]


def subject(folder):
    """What explain is given."""
    return "one two three"
