"""labels.csv in all its forms; every mistake is reported with its line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from foveal.data.read import read
from foveal.data.table import parse, read_table
from foveal.errors import FovealError
from foveal.runtime.image import BadImage


def table(tmp_path, text, label=None, encoding="utf-8", fold_column=None):
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode(encoding))
    return read_table(path, "set", label, fold_column)


def refused(tmp_path, text, label=None, encoding="utf-8", fold_column=None):
    with pytest.raises(FovealError) as error:
        table(tmp_path, text, label, encoding, fold_column)
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{tmp_path}/", "")


def test_one_label(tmp_path):
    source = table(
        tmp_path,
        "file,label,split,fold,group\n"
        "a.png,sound,train,2,x\n"
        "b.png,cracked,VALID,1,y\n"
        "c.png,sound,test,0,\n"
        "d.png,sound,,2,x2\n",
    )
    assert source.classes == ("cracked", "sound")
    assert not source.multi_label
    assert source.labels.tolist() == [1, 0, 1, 1]
    assert source.split.tolist() == [0, 1, 2, -1]
    assert source.fold.tolist() == [2, 1, 0, 2]
    assert len(set(source.group.tolist())) == 4
    assert source.describe() == (
        "set: labels.csv, 2 classes (cracked 1, sound 3), train 1 · val 1 · test 1 · in no split 1, 3 folds, 4 groups"
    )
    assert source.file(3) == "d.png"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_and_quotes(tmp_path, separator, encoding, end):
    rows = [["file", "label"], ['"a, 1; ü.png"', "x"], ['"b ""2"".png"', " y "]]
    source = table(tmp_path, end.join(separator.join(row) for row in rows) + end + end, encoding=encoding)
    assert [source.file(index) for index in range(2)] == ["a, 1; ü.png", 'b "2".png']
    assert source.classes == ("x", "y")


def test_several_labels(tmp_path):
    source = table(tmp_path, "file,label\na.png,root; crack\nb.png,\nc.png,root\n")
    assert source.multi_label
    assert source.classes == ("crack", "root")
    assert source.labels.tolist() == [[1, 1], [0, 0], [0, 1]]
    # the header says so
    assert table(tmp_path, "file,labels\na.png,root\nb.png,crack\n").labels.tolist() == [[0, 1], [1, 0]]
    assert "none 1" in source.describe()


def test_a_column_for_each_class(tmp_path):
    text = "file,split,crack,width,root,remark\na.png,train,1,640,0,\nb.png,test,0,480,1,dirty\nc.png,train,0,1,0,\n"
    source = table(tmp_path, text)
    assert source.classes == ("crack", "root")
    assert source.multi_label
    assert source.labels.tolist() == [[1, 0], [0, 1], [0, 0]]
    assert source.labels.dtype == np.uint8
    assert source.notes == ("columns not used: width, remark",)
    assert table(tmp_path, text, "root,crack").classes == ("root", "crack")


def test_another_column_is_the_label(tmp_path):
    text = "file,label,family\na.png,bad,joint\nb.png,good,\nc.png,bad,root\nd.png,bad,joint\n"
    source = table(tmp_path, text, "family")
    assert source.classes == ("joint", "root")
    assert source.labels.tolist() == [0, 1, 0]
    assert [source.file(index) for index in range(3)] == ["a.png", "c.png", "d.png"]
    assert source.notes == ("1 images left out: their family is empty", "columns not used: label")
    assert "no column of labels.csv is called 'famly'; the nearest is 'family'" in refused(tmp_path, text, "famly")


def test_folds_are_counted_from_zero(tmp_path):
    source = table(tmp_path, "file,label,fold\n" + "".join(f"{n}.png,{'ab'[n % 2]},{n % 5 + 1}\n" for n in range(23)))
    assert source.folds == 5
    assert source.fold.tolist() == [n % 5 for n in range(23)]
    assert source.notes == ("the folds 1, 2, 3, 4, 5 are counted from 0 to 4",)
    assert source.indices("test", 4).tolist() == [4, 9, 14, 19]
    assert source.indices("val", 4).tolist() == [0, 5, 10, 15, 20]
    assert len(source.indices("train", 4)) == 23 - 4 - 5
    together = np.concatenate([source.indices(split, 2) for split in ("train", "val", "test")])
    assert sorted(together.tolist()) == list(range(23))
    for wrong in (5, -1, 1.5, True):
        with pytest.raises(FovealError, match="0 to 4"):
            source.indices("test", wrong)
    with pytest.raises(FovealError, match="no split is called 'tset'; the nearest is 'test'"):
        source.indices("tset")


def test_two_folds_leave_nothing_to_train_with(tmp_path):
    source = table(tmp_path, "file,label,fold\na,x,0\nb,y,1\n")
    with pytest.raises(FovealError, match="at least 3 folds"):
        source.indices("train", 0)
    with pytest.raises(FovealError, match="no column fold"):
        table(tmp_path, "file,label\na,x\nb,y\n").indices("train", 0)


CAMPAIGNS = (
    "file,label,fold,campaign,group\na,x,0,202209,g1\nb,y,0,99,g2\nc,x,1,202301,g3\nd,y,2,202209,g1\ne,y,1,99,\n"
)


def test_a_column_makes_the_folds(tmp_path):
    """Fold k is the k-th value, numbers by their size; the column fold counts for nothing then."""
    source = table(tmp_path, CAMPAIGNS.replace("d,y,2", "d,y,0"), fold_column="campaign")
    assert source.fold.tolist() == [1, 0, 2, 1, 0]
    assert source.fold_names == ("99", "202209", "202301")
    assert source.notes == ("folds by campaign: 99, 202209, 202301", "columns not used: fold")
    assert source.indices("test", 1).tolist() == [0, 3]
    assert source.indices("val", 1).tolist() == [2]
    assert source.fold_name(2) == "202301"
    words = table(tmp_path, "file,label,city\na,x,Ulm\nb,y,Bonn\nc,x,Köln\n", fold_column="city")
    assert words.fold.tolist() == [2, 0, 1]
    assert source.facts()["fold_names"] == ["99", "202209", "202301"]
    assert table(tmp_path, "file,crack,root,wet\na,0,1,0\nb,1,0,1\nc,0,0,1\n", fold_column="wet").classes == (
        "crack",
        "root",
    )
    multi_label = "file,label,run\n" + "".join(f"{n}.png,{n % 2},{n}\n" for n in range(30))
    assert table(tmp_path, multi_label, fold_column="run").notes == (
        f"folds by run: {', '.join(map(str, range(23)))}, … 7 more",
    )


def test_a_fold_has_images_although_lines_are_left_out(tmp_path):
    source = table(tmp_path, "file,label,campaign\na,x,1\nb,,2\nc,y,3\nd,x,4\n", fold_column="campaign")
    assert (source.folds, source.fold.tolist()) == (3, [0, 1, 2])


def test_a_group_may_span_campaigns_and_that_is_noted(tmp_path):
    torn = CAMPAIGNS.replace("d,y,2,202209", "d,y,0,202301")
    assert "line 5: group g1 is in the folds 0 (line 2) and 2" in refused(tmp_path, CAMPAIGNS)
    source = table(tmp_path, torn, fold_column="campaign")
    assert (
        source.notes[1] == "groups in more than one fold by campaign, so that what is tested was partly trained on: g1"
    )
    assert source.group[0] == source.group[3]
    split = (
        torn.replace("\n", ",train\n")
        .replace("group,train", "group,split")
        .replace("d,y,0,202301,g1,train", "d,y,0,202301,g1,test")
    )
    assert "line 5: group g1 is in the splits train" in refused(tmp_path, split, fold_column="campaign")


@pytest.mark.parametrize(
    ("fold_column", "text", "message"),
    [
        ("campain", CAMPAIGNS, "no column of labels.csv is called 'campain'; the nearest is 'campaign'"),
        ("file", CAMPAIGNS, "no column of labels.csv is called 'file'"),
        ("label", CAMPAIGNS, "--fold-column: expected another column than that of the classes, got label"),
        (
            "campaign",
            CAMPAIGNS.replace("202301", ""),
            "line 4: column campaign: expected a value, which is the image's fold, got nothing",
        ),
        ("campaign", CAMPAIGNS + "a,x,0,99,g1\n", "line 7: a has campaign 99, but 202209 in line 2"),
    ],
)
def test_a_column_that_makes_no_folds(tmp_path, fold_column, text, message):
    assert message in refused(tmp_path, text, fold_column=fold_column)


@pytest.mark.parametrize("name", ["?", "a;b", '"a\nb"', "found", "error"])
def test_names_that_no_class_can_have(tmp_path, name):
    """In a table of predictions ? is an unknown label, and ; stands between two."""
    message = refused(tmp_path, f"file,{name}\na,0\nb,1\n")
    assert message.startswith(
        ("a class of set: expected a name without ; that is not ?, got", "the classes of set: expected n")
    )
    assert message.endswith("rename the class")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got nothing"),
        ("file,label\n", "got a header only"),
        ("name,label\na,x\n", "expected a column called file, got name, label"),
        ("file,label,label\na,x,y\n", "got 'label' 2 times in the header"),
        ("file,label,\na,x,\n", "expected a name for every column in the header, got none for column 3"),
        ("file,label\na,x\nb,y,z\n", "line 3: expected 2 columns as in the header (file, label), got 3"),
        ("file,label\na,x\n\n\nb\n", "line 5: expected 2 columns"),
        ("file,label\na,x\n,y\n", "line 3: column file"),
        ("file,label,split\na,x,train\nb,y,trian\n", "line 3: column split: expected train, val or test, got 'trian'"),
        ("file,label,fold\na,x,0\nb,y,one\n", "line 3: column fold: expected an integer from 0, got 'one'"),
        ("file,label,fold\na,x,0\nb,y,\n", "line 3: column fold"),
        ("file,label,fold\na,x,0\nb,y," + "9" * 5000 + "\n", "line 3: column fold: expected an integer from 0"),
        ("file,label\na,x\nb,y\na,y\n", "line 4: a has another label than in line 2"),
        ("file,label,split\na,x,train\nb,y,test\na,x,test\n", "line 4: a has split test, but train in line 2"),
        ("file,label\na,x\nb,x\n", "expected at least 2 classes in the column label, got x"),
        ("file,crack,root\na,0,1\nb,1,0\nc,2,0\n", "line 4: column crack: expected 0 or 1, got '2'"),
        (
            "file,size\na,640\nb,480\n",
            "expected a column called label, or a column of 0 and 1 for each class, got file, size",
        ),
        ('file,label\n"a,x\n', "check the quotation marks"),
        (
            "file,label,split,group\na,x,train,g1\nb,y,test,g2\nc,x,test,g1\n",
            "line 4: group g1 is in the splits train (line 2) and test",
        ),
        ("file,label,fold,group\na,x,0,g1\nb,y,1,g2\nc,x,1,g1\n", "line 4: group g1 is in the folds 0 (line 2) and 1"),
    ],
)
def test_mistakes_are_reported_with_their_line(tmp_path, text, message):
    assert message in refused(tmp_path, text)


def test_another_encoding(tmp_path):
    assert "labels.csv, line 3: expected text in UTF-8, got the byte 0xfc" in refused(
        tmp_path, "file,label\na,x\nü,y\n", encoding="latin-1"
    )


def test_a_line_that_repeats_another_is_left_out(tmp_path):
    source = table(tmp_path, "file,label\na,x\nb,y\na,x\n")
    assert len(source) == 2
    assert source.notes == ("1 lines left out: they repeat a file",)


def test_files_lie_beside_the_csv_or_in_images(tmp_path):
    (tmp_path / "images").mkdir()
    for number in range(3):
        Image.new("RGB", (5, 3), (number, 0, 0)).save(tmp_path / "images" / f"{number}.png")
    source = table(tmp_path, "file,label\n0.png,x\n1.png,y\nnowhere.png,y\n")
    assert source.image(1)[0, 0, 0] == 1
    assert source.file(1) == "images/1.png"
    with pytest.raises(BadImage, match=r"nowhere\.png: no such file"):
        source.image(2)
    source = table(tmp_path, "file,label\nimages/0.png,x\nimages/2.png,y\n")
    assert source.image(1, 7).shape == (7, 7, 3)
    for index in (-1, 2, 0.0):
        with pytest.raises(FovealError, match="0 to 1"):
            source.image(index)


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1)
            .map(str.strip)
            .filter(bool),
            st.booleans(),
        ),
        min_size=2,
        unique_by=lambda row: row[0],
    )
)
def test_any_name_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("names") / "labels.csv"
    quoted = ['"' + name.replace('"', '""') + f'",{int(label)}' for name, label in rows]
    path.write_text("file,odd\n" + "\n".join(quoted) + "\n", encoding="utf-8", newline="")
    assert parse(path).columns["file"] == [name for name, _ in rows]
    source = read(str(path), split=None)
    assert [source.file(index).removeprefix("images/") for index in range(len(source))] == [name for name, _ in rows]
    assert source.labels[:, 0].tolist() == [int(label) for _, label in rows]


def test_files_in_images_are_found_although_the_first_is_missing(tmp_path):
    (tmp_path / "images").mkdir()
    Image.new("RGB", (5, 7)).save(tmp_path / "images" / "b.png")
    (tmp_path / "labels.csv").write_text("file,label\na.png,x\nb.png,y\n", encoding="utf-8")
    source = read_table(tmp_path / "labels.csv", "set")
    assert source.image(1).shape == (7, 5, 3)
