"""Sentence pairs from every format; what is bad is counted, named and left out, or refused."""

import gzip
import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.data.filter_pairs import PairFilter, Row
from foveal.data.parallel import read_parallel
from foveal.errors import FovealError

EN = [f"The number {n} is written here." for n in range(60)]
DE = [f"Die Zahl {n} steht hier." for n in range(60)]


def write(path, content, packed=False):
    content = content if isinstance(content, bytes) else "".join(f"{line}\n" for line in content).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def folder(path, packed=False, names=("train", "val", "test"), languages=("en", "de"), cuts=(0, 43, 53, 60)):
    for name, (start, end) in zip(names, itertools.pairwise(cuts), strict=True):
        for language in languages:
            write(path / f"{name}.{language}{'.gz' * packed}", (EN if language == "en" else DE)[start:end], packed)
    return path


def two(path, source, target, **how):
    write(path / "a.en", source)
    write(path / "a.de", target)
    return read_parallel(f"{path}/a.en,{path}/a.de", **how)


def refused(where, **how):
    with pytest.raises(FovealError) as error:
        read_parallel(str(where), **how)
    assert "\n" not in str(error.value)
    return str(error.value)


def together(found):
    return {
        (source, target)
        for pairs in found.splits.values()
        for source, target in zip(pairs.source, pairs.target, strict=True)
    }


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "names", [("train", "val", "test"), ("training", "valid", "test_2016_flickr"), ("train", "dev", "newstest2014")]
)
def test_a_folder(tmp_path, packed, names):
    found = read_parallel(str(folder(tmp_path / "set", packed, names)))
    assert found.languages == ("en", "de")
    assert {split: len(pairs) for split, pairs in found.splits.items()} == {"train": 43, "val": 10, "test": 7}
    assert (found.splits["val"].source[0], found.splits["val"].target[0]) == (EN[43], DE[43])
    assert (
        found.summary()
        == "set: parallel files, en → de, train 43 · val 10 · test 7 pairs, 5.5 words per sentence, longest 6"
    )
    assert len(found) == 60


def test_languages_of_a_folder(tmp_path):
    path = folder(tmp_path / "set")
    assert read_parallel(str(path), source="de").languages == ("de", "en")
    assert read_parallel(str(path), source="de").splits["test"].source == DE[53:]
    assert read_parallel(str(path), target="en").languages == ("de", "en")
    assert "source: expected a language of" in refused(path, source="fr")
    assert "target: expected another language than the source" in refused(path, source="en", target="en")
    assert read_parallel(str(folder(tmp_path / "wmt.de-en"))).languages == ("de", "en")
    assert read_parallel(str(folder(tmp_path / "x", names=("train.de-en", "val.de-en", "test.de-en")))).languages == (
        "de",
        "en",
    )
    assert "cs and fr; choose with --source and --target" in refused(folder(tmp_path / "y", languages=("fr", "cs")))
    three = folder(tmp_path / "z", languages=("en", "de", "fr"))
    assert "expected two languages, got 3 (de, en, fr); choose with --source and --target" in refused(three)
    assert "got 3" in refused(three, source="en")
    assert read_parallel(str(three), source="fr", target="en").languages == ("fr", "en")


def test_other_files_and_several_tests_in_a_folder(tmp_path):
    path = folder(tmp_path / "set", names=("train", "test_2016", "test_2017"))
    write(path / "README.md", ["no sentences"])
    write(path / "notes.en", ["one"])
    write(path / "extra.en", EN[:3])
    write(path / "extra.de", DE[:3])
    write(path / ".train.fr", ["hidden"])
    found = read_parallel(str(path))
    assert list(found.splits) == ["train", "val", "test", "test_2017"]
    assert len(found.splits["train"]) + len(found.splits["val"]) == 43
    assert found.notes == (
        "not read, since their names begin with none of train, val and test: extra",
        "test is test_2016; the others keep their names: test_2017",
        "no val was given: 2 different sentences each, by their hash",
    )
    (path / "test_2017.de").rename(path / "test_2017.fr")
    assert "test_2017 without one of them" in refused(path)


def test_training_files_are_put_together(tmp_path):
    found = read_parallel(str(folder(tmp_path / "set", names=("train-a", "train-b", "dev"))))
    assert {split: len(pairs) for split, pairs in found.splits.items()} == {"train": 53, "val": 7}


def test_a_folder_without_sentences(tmp_path):
    assert "expected pairs of files such as train.en and train.de" in refused(tmp_path)
    write(tmp_path / "train.en", EN)
    assert "expected pairs of files" in refused(tmp_path)
    for name in ("one", "two"):
        write(tmp_path / f"{name}.en", EN)
        write(tmp_path / f"{name}.de", DE)
    assert "expected names that begin with train, val or test, got one, two; rename the files" in refused(tmp_path)
    (tmp_path / "two.de").unlink()
    assert read_parallel(str(tmp_path)).splits.keys() == {"train", "val", "test"}
    (tmp_path / "one.en").rename(tmp_path / "test.en")
    (tmp_path / "one.de").rename(tmp_path / "test.de")
    (tmp_path / "train.en").unlink()
    assert "expected pairs for training, got test" in refused(tmp_path)


def test_two_files(tmp_path):
    found = two(tmp_path, EN, DE)
    assert (
        found.describe() == "a: two files, en → de, train 54 · val 3 · test 3 pairs, 5.5 words per sentence, longest 6"
    )
    assert together(found) == set(zip(EN, DE, strict=True))
    turned = read_parallel(f"{tmp_path}/a.en,{tmp_path}/a.de", source="de", target="en")
    assert together(turned) == set(zip(DE, EN, strict=True))
    named = read_parallel(f"{tmp_path}/a.en,{tmp_path}/a.de", source="x", target="y")
    assert named.languages == ("x", "y")
    write(tmp_path / "x.gz", DE, packed=True)
    assert read_parallel(f"{tmp_path}/a.en, {tmp_path}/x.gz").languages == ("en", "x")
    assert "expected two files with a comma between them, got 3" in refused("a,b,c")
    assert "nothing there" in refused(f"{tmp_path}/a.en,{tmp_path}/b.de")
    assert "one file alone; give two files as a.en,a.de" in refused(tmp_path / "a.en")
    assert "expected grammar, a folder, two files" in refused(tmp_path / "nowhere")


@pytest.mark.parametrize(("ours", "theirs"), [(60, 59), (58, 60), (60, 0)])
@pytest.mark.parametrize("bad", ["drop", "refuse"])
def test_files_that_do_not_match_are_always_refused(tmp_path, ours, theirs, bad):
    with pytest.raises(FovealError, match=f"expected as many lines in both, got {ours} and {theirs}; find the line"):
        two(tmp_path, EN[:ours], DE[:theirs], bad=bad)


def test_the_last_line_needs_no_end_and_windows_ends_are_ends(tmp_path):
    plain = two(tmp_path, "\n".join(EN).encode(), "\r\n".join(DE).encode())
    assert together(plain) == set(zip(EN, DE, strict=True))
    marked = two(tmp_path, b"\xef\xbb\xbf" + "\n".join(EN).encode(), DE)
    assert together(marked) == together(plain)


def test_only_a_line_feed_ends_a_line(tmp_path):
    found = two(tmp_path, ["one\u2028two\u0085three", *EN], ["eins zwei\x0bdrei", *DE])
    assert found.dropped == {"control characters": 1}
    assert "a.de line 1" in found.summary()
    assert ("one two three", "eins zwei drei") in together(
        two(tmp_path, ["one\u2028two\u0085three", *EN], ["eins zwei\u00a0 drei\t", *DE])
    )


BAD = [
    ("empty", "", "Nichts.", "a.en"),
    ("empty", "Nothing.", " \t ", "a.de"),
    ("not UTF-8", "Caf\xe9 latin", "Das Café", "a.en"),
    ("not UTF-8", "The café", "Das Caf�", "a.de"),
    ("control characters", "A bell\x07 rings", "Eine Glocke", "a.en"),
    ("control characters", "An escape", "Ein \x1b[0m Zeichen", "a.de"),
    ("too long", "word " * 251, "wort " * 200, "a.en"),
    ("too long", "a" * 400, "b" * 2501, "a.de"),
    ("lengths apart", "Yes.", "Ja, das ist es, was ich gestern schon sagen wollte.", "a.de"),
    ("lengths apart", "A sentence that is about something, and that says a lot about it.", "Ja", "a.en"),
]


@pytest.mark.parametrize(("kind", "source", "target", "file"), BAD)
def test_bad_pairs_are_counted_named_and_left_out_or_refused(tmp_path, kind, source, target, file):
    encoded = source.encode("latin-1") if "latin" in source else source.encode()
    english = "\n".join(EN[:7]).encode() + b"\n" + encoded + b"\n" + "\n".join(EN[7:]).encode()
    german = [*DE[:7], target, *DE[7:]]
    found = two(tmp_path, english, german)
    assert found.dropped == {kind: 1}
    assert together(found) == set(zip(EN, DE, strict=True))
    assert f"1 pairs left out, {kind}: {file} line 8" in found.notes
    assert found.describe().endswith(", 1 left out")
    with pytest.raises(FovealError) as error:
        two(tmp_path, english, german, bad="refuse")
    message = (
        f"sentence pairs: expected none that is bad, got 1 {kind} ({file} line 8); "
        "mend them, or leave them out (--bad drop)"
    )
    assert str(error.value) == message


@pytest.mark.parametrize("split", ["test", "val", "test_2016_flickr"])
@pytest.mark.parametrize(("kind", "source", "target", "file"), BAD)
def test_of_a_given_test_everything_is_kept_that_can_be_scored(tmp_path, kind, source, target, file, split):
    """A test without its hard sentences would flatter the model."""
    names = ("train", "val", "test") if split in ("val", "test") else ("train", "val", split)
    path = folder(tmp_path / "set", names=names)
    encoded = source.encode("latin-1") if "latin" in source else source.encode()
    write(path / f"{split}.en", "\n".join(EN[50:53]).encode() + b"\n" + encoded + b"\n")
    write(path / f"{split}.de", [*DE[50:53], target])
    place = f"{split}{file[1:]} line 4"
    found = read_parallel(str(path))
    pairs = found.splits["val" if split == "val" else "test"]
    if not target.strip():
        assert len(pairs) == 3
        assert found.dropped == {"no reference": 1}
        assert f"1 pairs left out, no reference: {place}" in found.notes
        return
    assert len(pairs) == 4
    assert found.dropped == {}
    assert pairs.target[3] == " ".join(target.split())
    assert pairs.source[3] == " ".join(encoded.decode(errors="replace").split())
    assert f"1 pairs of a given val or test kept, as a score without them would flatter, {kind}: {place}" in found.notes
    if kind in ("too long", "lengths apart"):  # nothing is wrong with them
        assert len(read_parallel(str(path), bad="refuse").splits["val" if split == "val" else "test"]) == 4
    else:
        assert f"got 1 {kind} ({place}); mend them" in refused(path, bad="refuse")


def test_a_given_test_in_a_table_is_kept_and_training_is_not(tmp_path):
    rows = [f"{en}\t{de}\t{split}" for en, de, split in zip(EN, DE, ROWS, strict=True)]
    long = " ".join(["word"] * 300)
    path = write(
        tmp_path / "x.tsv",
        ["en\tde\tsplit", *rows, f"{long}\t{long}\ttest", f"{long}\t{long}\ttrain", "\tNichts.\tdev", "x\t\ttest"],
    )
    found = read_parallel(str(path))
    assert {split: len(pairs) for split, pairs in found.splits.items()} == {"train": 50, "val": 6, "test": 6}
    assert found.dropped == {"too long": 1, "no reference": 1}
    assert found.longest == 300
    assert found.splits["val"].source[-1] == ""
    odd = write(
        tmp_path / "y.jsonl",
        [json.dumps({"en": en, "de": de, "split": split}) for en, de, split in zip(EN, DE, ROWS, strict=True)]
        + ['{"en": "half \\ud83d", "de": "y", "split": "test"}', '{"en": "x", "split": "test"}'],
    )
    found = read_parallel(str(odd))
    assert found.splits["test"].source[-1] == "half �"
    assert found.dropped == {"no text for de": 1}


def test_many_bad_pairs_are_reported_in_one_line_each(tmp_path):
    found = two(tmp_path, [*EN, *[""] * 11, "x"], [*DE, *["y"] * 11, "\x00"])
    assert found.notes[:2] == (
        "11 pairs left out, empty: a.en line 61, a.en line 62, a.en line 63, …",
        "1 pairs left out, control characters: a.de line 72",
    )
    with pytest.raises(FovealError, match="expected sentence pairs, got no good one"):
        two(tmp_path, [""] * 5, DE[:5])
    with pytest.raises(FovealError, match="got no good one"):
        two(tmp_path, [], [])


def test_limits_can_be_moved(tmp_path):
    assert two(tmp_path, EN, DE, max_length=6).dropped == {}
    assert two(tmp_path, [*EN, "one two three four five six seven"], [*DE, "kurz"], max_length=6).dropped == {
        "too long": 1
    }
    long = "Ja, das ist es, was ich gestern schon sagen wollte."
    assert two(tmp_path, [*EN, "Yes."], [*DE, long], ratio=12).dropped == {}
    for how, message in (
        ({"bad": "dorp"}, "the nearest is 'drop'"),
        ({"max_length": 0}, "max_length"),
        ({"ratio": 0.5}, "ratio"),
        ({"ratio": "x"}, "ratio"),
    ):
        assert message in refused("grammar:20", **how)


def test_sentences_are_composed_and_have_single_spaces(tmp_path):
    found = two(tmp_path, ["Cafe\u0301  open ", *EN], ["\u00a0Café\toffen", *DE])
    assert ("Café open", "Café offen") in together(found)


def test_damaged_and_strange_files(tmp_path):
    write(tmp_path / "a.de", DE)
    (tmp_path / "a.en").write_bytes(gzip.compress("\n".join(EN).encode())[:-20])
    assert "expected a complete gzip file, got a damaged one" in refused(f"{tmp_path}/a.en,{tmp_path}/a.de")
    (tmp_path / "a.en").write_bytes("\n".join(EN).encode("utf-16"))
    assert "expected UTF-8 text, got UTF-16; convert it" in refused(f"{tmp_path}/a.en,{tmp_path}/a.de")
    (tmp_path / "a.en").unlink()
    (tmp_path / "a.en").mkdir()
    assert "expected a file that exists, got a folder" in refused(f"{tmp_path}/a.en,{tmp_path}/a.de")


ROWS = ["train"] * 50 + ["dev"] * 5 + ["test"] * 5


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", [["en", "de"], ["source", "target"], None])
@pytest.mark.parametrize("split", [None, 0, 2])
def test_tsv(tmp_path, packed, header, split):
    rows = [list(pair) for pair in zip(EN, DE, strict=True)]
    rows[0][0] = 'A "quoted sentence.'
    head = None if header is None else list(header)
    if split is not None:
        for row, word in zip(rows, ROWS, strict=True):
            row.insert(split, word)
        if head:
            head.insert(split, "split")
    lines = ["\t".join(row) for row in ([head] if head else []) + rows]
    path = write(tmp_path / f"set.tsv{'.gz' * packed}", lines, packed)
    found = read_parallel(str(path))
    assert found.languages == (("en", "de") if header and header[0] == "en" else ("source", "target"))
    assert together(found) == set(zip(['A "quoted sentence.', *EN[1:]], DE, strict=True))
    sizes = {name: len(pairs) for name, pairs in found.splits.items()}
    assert sizes == ({"train": 54, "val": 3, "test": 3} if split is None else {"train": 50, "val": 5, "test": 5})
    assert found.format == "tsv"
    assert found.name == "set"


def test_languages_of_a_tsv(tmp_path):
    lines = ["\t".join(pair) for pair in zip(EN, DE, strict=True)]
    assert read_parallel(str(write(tmp_path / "tatoeba.en-de.tsv", lines))).languages == ("en", "de")
    path = write(tmp_path / "x.tsv", lines)
    assert read_parallel(str(path), source="en", target="de").languages == ("en", "de")
    path = write(
        tmp_path / "y.tsv",
        ["\t".join(row) for row in [("de", "en", "id"), *zip(DE, EN, map(str, range(60)), strict=True)]],
    )
    assert "got 3 (de, en, id); choose" in refused(path)
    turned = read_parallel(str(path), source="en", target="de")
    assert together(turned) == set(zip(EN, DE, strict=True))


def test_bad_tsv(tmp_path):
    lines = ["\t".join(pair) for pair in zip(EN, DE, strict=True)]
    path = write(tmp_path / "x.tsv", [*lines[:3], "one column", "a\tb\tc", "", *lines[3:]])
    found = read_parallel(str(path))
    assert found.dropped == {"not 2 columns": 2}
    assert "x.tsv line 4, x.tsv line 5" in found.summary()
    assert "2 not 2 columns (x.tsv line 4, x.tsv line 5)" in refused(path, bad="refuse")
    assert "expected columns with tabs between them, got one column" in refused(write(tmp_path / "y.tsv", EN))
    assert "an empty file" in refused(write(tmp_path / "y.tsv", []))
    assert "4 columns; name the columns in a first line" in refused(write(tmp_path / "y.tsv", ["a\tb\tc\td"]))
    assert "line 3: expected train, val or test as the split, got 'trian'" in refused(
        write(tmp_path / "y.tsv", ["en\tde\tsplit", f"{lines[0]}\ttrain", f"{lines[1]}\ttrian"])
    )


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_jsonl(tmp_path, nested, split):
    objects = [{"en": source, "de": target} for source, target in zip(EN, DE, strict=True)]
    objects = [{"translation": one} if nested else one for one in objects]
    if split:
        objects = [{"id": "7", **one, "split": word} for one, word in zip(objects, ROWS, strict=True)]
    path = write(tmp_path / "set.jsonl", [json.dumps(one) for one in objects])
    found = read_parallel(str(path))
    assert found.languages == ("en", "de")
    assert together(found) == set(zip(EN, DE, strict=True))
    assert len(found.splits["val"]) == (5 if split else 3)
    assert read_parallel(str(path), source="de").languages == ("de", "en")


def test_bad_jsonl(tmp_path):
    good = [json.dumps({"en": source, "de": target}) for source, target in zip(EN, DE, strict=True)]
    strange = [
        "{",
        "[1]",
        '{"translation": 3}',
        '{"en": "no German"}',
        '{"en": "x", "de": 4}',
        '{"en": "half \\ud83d", "de": "y"}',
        "[" * 100000,
    ]
    path = write(tmp_path / "x.jsonl", [*good, *strange])
    found = read_parallel(str(path))
    assert found.dropped == {"not a JSON object": 4, "no text for de": 2, "not UTF-8": 1}
    assert together(found) == set(zip(EN, DE, strict=True))
    assert "its first line: expected an object with a sentence for each of two languages, got 'nothing'" in refused(
        write(tmp_path / "y.jsonl", ["nothing"])
    )
    assert "expected two languages, got 1 (en)" in refused(write(tmp_path / "y.jsonl", ['{"en": "x"}']))
    assert "got 3 (en, de, fr); choose" in refused(write(tmp_path / "y.jsonl", ['{"en": "x", "de": "y", "fr": "z"}']))


def test_a_folder_of_tables(tmp_path):
    for name, (start, end) in (("train", (0, 50)), ("val", (50, 60))):
        lines = [json.dumps({"en": EN[row], "de": DE[row]}) for row in range(start, end)]
        write(tmp_path / f"{name}.jsonl.gz", lines, packed=True)
    found = read_parallel(str(tmp_path))
    assert {name: len(pairs) for name, pairs in found.splits.items()} == {"train": 50, "val": 10}
    assert found.format == "jsonl files"
    write(tmp_path / "test.jsonl", ['{"en": "x", "fr": "y"}'])
    assert "expected en and de, as in the other files, got en and fr" in refused(tmp_path)


@given(
    st.lists(st.sampled_from(["a", "A", "b", "c d", "e", "f g", "h"]), min_size=9, max_size=40).filter(
        lambda words: len(set(words) - {"A"}) > 4
    )
)
def test_a_sentence_that_comes_twice_never_crosses(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("set")
    found = two(path, sentences, [f"{word} {number}" for number, word in enumerate(sentences)])
    parts = {split: {source.lower() for source in pairs.source} for split, pairs in found.splits.items()}
    assert parts.keys() == {"train", "val", "test"}
    for one, other in itertools.combinations(parts.values(), 2):
        assert not one & other
    assert len(found) == len(sentences)
    assert not any("are in train, too" in note for note in found.notes)


def test_the_division_is_of_sentences_not_of_their_order(tmp_path):
    found, turned = two(tmp_path, EN, DE), two(tmp_path, EN[::-1], DE[::-1])
    assert set(found.splits["val"].source) == set(turned.splits["val"].source)
    with pytest.raises(FovealError, match="at least 3 different sentences, to make splits of, got 2"):
        two(tmp_path, ["a", "b", "A"], ["x", "y", "z"])


def test_sentences_in_two_splits_are_reported(tmp_path):
    path = folder(tmp_path / "set")
    write(path / "test.en", [EN[0], EN[50], "New."])
    write(path / "test.de", ["Erste.", "Zweite.", "Neu."])
    assert read_parallel(str(path)).notes == ("1 source sentences of test are in train, too",)


def test_a_fingerprint_is_of_sentences_languages_and_splits(tmp_path):
    first = read_parallel(str(folder(tmp_path / "a")))
    assert read_parallel(str(folder(tmp_path / "b", packed=True))).fingerprint() == first.fingerprint()
    others = [
        read_parallel(str(folder(tmp_path / "c", cuts=(0, 42, 53, 60)))),
        read_parallel(str(tmp_path / "a"), source="de"),
    ]
    assert len({first.fingerprint(), *(other.fingerprint() for other in others)}) == 3
    facts = json.loads(json.dumps(first.facts()))
    assert facts["splits"] == {"train": 43, "val": 10, "test": 7}
    assert facts["fingerprint"] == first.fingerprint()
    assert re.fullmatch("[0-9a-f]{16}", first.fingerprint())


@given(st.lists(st.tuples(st.binary(max_size=17), st.binary(max_size=17)), max_size=11))
def test_whatever_bytes_come_every_row_is_kept_or_counted(rows):
    pair_filter = PairFilter()
    kept = list(pair_filter.through((Row(place, "", *row) for place, row in enumerate(rows)), ("a", "b")))
    assert len(kept) + sum(pair_filter.counts.values()) == len(rows)
    given = PairFilter()
    evaluated = list(given.through((Row(place, "", *row) for place, row in enumerate(rows)), ("a", "b"), "test"))
    assert len(evaluated) + sum(given.counts.values()) == len(rows)
    assert set(given.counts) <= {"no reference"}
    for pair in evaluated:
        assert pair.target.encode()
        pair.source.encode()  # it may be empty, but it can be written
    for pair in kept:
        assert pair.source == " ".join(pair.source.split())
        assert pair.source
        assert pair.target.encode()


def test_the_grammar_is_a_set_of_its_own():
    found = read_parallel("grammar:200:3")
    assert found.describe().startswith("grammar: made by a grammar, en → de, train 180 · val 10 · test 10 pairs, ")
    assert found.notes == ()
    assert len({source for source, _ in together(found)}) == 200
    assert read_parallel("grammar:200:3", source="en", target="de").fingerprint() == found.fingerprint()
    assert read_parallel("grammar:200:4").fingerprint() != found.fingerprint()
    assert "the grammar's languages are en and de" in refused("grammar", source="de")
    for text in ("grammar:x", "grammar:100:1:2", "grammar:-5", "grammar:", "grammar:1e3", "grammar:²"):
        assert "grammar: expected grammar, grammar:N or grammar:N:SEED" in refused(text)
    for count in (0, 19, 1000001):
        assert f"grammar: expected 20 to 1000000 pairs, got {count}" in refused(f"grammar:{count}")


def test_a_fingerprint_is_of_all_sentences_in_their_order(tmp_path):
    def fingerprint(english, german):
        for language, lines in (("en", english), ("de", german)):
            (tmp_path / f"f.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return read_parallel(f"{tmp_path}/f.en,{tmp_path}/f.de").fingerprint()

    own = fingerprint(EN, DE)
    assert own == fingerprint(EN, DE)
    others = [
        fingerprint([*EN, "one more"], [*DE, "noch einer"]),
        fingerprint(EN[::-1], DE[::-1]),
        fingerprint(EN, [*DE[:-1], "anders"]),
    ]
    assert len({own, *others}) == 4


def test_one_file_given_twice_is_reported(tmp_path):
    (tmp_path / "a.en").write_text("".join(f"{line}\n" for line in EN), encoding="utf-8")
    found = read_parallel(f"{tmp_path}/a.en,{tmp_path}/a.en")
    assert "source and target are the same in every pair" in found.summary()
    assert found.folds == 0
    assert "the same in every pair" not in read_parallel("grammar:40").summary()
