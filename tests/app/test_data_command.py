"""`foveal data` and `foveal render pipes`, as they are typed."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from foveal.app import cli
from foveal.app.command import data as data_command
from foveal.app.command import render as render_command
from foveal.data.pipes import KINDS, render
from foveal.data.read import read
from foveal.report import progress as progress_module


def typed(capsys, *words):
    status = cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def a_set(tmp_path):
    lines = ["file,label,kind,split"]
    for number in range(23):
        pixels = np.random.default_rng(number % 19).integers(0, 256, (9, 11, 3), np.uint8)  # 19 to 22 are 0 to 3 again
        Image.fromarray(pixels).resize((130, 110), 3).save(tmp_path / f"{number}.png")
        split = "train" if number < 15 else "val" if number < 19 else "test"
        lines.append(f"{number}.png,{'ab'[number % 2]},{'xyz'[number % 3]},{split}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_one_line(tmp_path, capsys):
    status, out, err = typed(capsys, "data", a_set(tmp_path))
    assert (status, err) == (0, "")
    assert out == [
        f"{tmp_path.name}: labels.csv, 2 classes (a 12, b 11), train 15 · val 4 · test 4",
        "  columns not used: kind",
    ]
    assert "3 classes (x 8, y 8, z 7)" in typed(capsys, "data", tmp_path, "--label", "kind")[1][0]


@pytest.mark.parametrize("jobs", [1, 2])
def test_check_and_near_duplicates(tmp_path, capsys, monkeypatch, jobs):
    monkeypatch.setattr(data_command, "ALONE", 10)
    a_set(tmp_path)
    (tmp_path / "7.png").write_bytes(b"")
    (tmp_path / "9.png").unlink()
    status, out, _ = typed(capsys, "data", tmp_path, "--check", "--near-duplicates", "--jobs", jobs)
    assert status == 1  # a script sees that files are bad
    assert out[2:] == [
        "opened 23: 21 good, 2 bad",
        "  kinds: PNG RGB 21",
        "  sizes: 130×110 21",
        "  7.png: is empty (0 bytes)",
        "  9.png: no such file",
        "near-duplicates across splits: train–test 4",
        "  0.png (train)  19.png (test)  1.00",
        "  1.png (train)  20.png (test)  1.00",
        "  2.png (train)  21.png (test)  1.00",
        "  3.png (train)  22.png (test)  1.00",
    ]


def test_folds_by_a_column_and_near_duplicates_across_them(tmp_path, capsys):
    table = a_set(tmp_path) / "labels.csv"
    head, *lines = table.read_text().splitlines()
    # 19 is 0 again, in another month
    campaigns = [f"{line},{('May', 'June', 'July')[number % 3]}" for number, line in enumerate(lines)]
    table.write_text("\n".join([f"{head},campaign", *campaigns]) + "\n")
    status, out, _ = typed(capsys, "data", tmp_path, "--fold-column", "campaign", "--near-duplicates")
    assert status == 0
    assert out[0].endswith("train 15 · val 4 · test 4, 3 folds")
    assert out[1] == "  folds by campaign: July, June, May"
    assert out[3] == "near-duplicates across splits: train–test 4"
    assert out[8:10] == [
        "near-duplicates across folds: July–June 1, July–May 1, June–May 2",
        "  19.png (June)  0.png (May)  1.00",
    ]
    facts = json.loads(
        "\n".join(typed(capsys, "data", tmp_path, "--fold-column", "campaign", "--near-duplicates", "--json")[1])
    )
    assert len(facts["near_duplicates"]) == len(facts["fold_near_duplicates"]) == 4
    assert facts["fold_names"] == ["July", "June", "May"]


def test_json(tmp_path, capsys):
    a_set(tmp_path)
    (tmp_path / "7.png").write_bytes(b"")
    status, out, _ = typed(capsys, "data", tmp_path, "--check", "--near-duplicates", "--json")
    facts = json.loads("\n".join(out))
    assert status == 1
    assert facts["images"] == 23
    assert facts["bad"] == [{"file": "7.png", "reason": "is empty (0 bytes)"}]
    assert facts["sizes"] == {"130×110": 22}
    assert facts["near_duplicates"][0] == {
        "first": "0.png",
        "second": "19.png",
        "splits": ["train", "test"],
        "distance": 0,
        "likeness": 1.0,
    }


def test_progress_in_a_log(capsys, monkeypatch):
    monkeypatch.setattr(progress_module, "FIRST", 0.0)
    assert list(progress_module.progress("abc", 3, "opening")) == ["a", "b", "c"]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0].startswith("opening: 1 of 3, about 0 s left")
    assert [progress_module._spoken(seconds) for seconds in (89, 600, 9000)] == ["89 s", "10 min", "2.5 h"]


def test_data_that_cannot_be_used(tmp_path, capsys):
    status, out, err = typed(capsys, "data", tmp_path / "nowhere")
    assert (status, out) == (2, [])
    assert err.startswith("foveal: error: ")
    assert err.count("\n") == 1
    assert typed(capsys, "data", a_set(tmp_path), "--label", "knd")[0] == 2
    assert typed(capsys, "data", tmp_path, "--jobs", 0)[0] == 2


def test_rendered_pipes_as_files(tmp_path, capsys):
    out = tmp_path / "set"
    status, lines, err = typed(
        capsys, "render", "pipes", "--count", 17, "--seed", 5, "--size", 43, "--out", out, "--jobs", 1
    )
    assert (status, err) == (0, "")
    drawn, written = read("pipes:17:5"), read(str(out))
    assert lines == [written.describe()]
    assert written.classes == KINDS
    assert (written.labels == drawn.labels).all()
    assert (written.split == drawn.split).all()
    assert np.abs(written.image(11).astype(int) - render(5_000_011, 43).image).mean() < 8  # JPEG
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [
            "images",
            "masks",
            "labels.csv",
            "sheet.jpg",
            "render.json",
            *(f"instances_{split}.json" for split in ("train", "val", "test")),
        ]
    )
    names = {}
    for split in ("train", "val", "test"):
        coco = json.loads((out / f"instances_{split}.json").read_text())
        names |= {image["file_name"]: split for image in coco["images"]}
        for one in coco["annotations"]:
            kind = coco["categories"][one["category_id"] - 1]["name"]
            finding = next(
                finding for finding in render(5_000_000 + one["image_id"], 43).findings if finding.kind == kind
            )
            assert (unpacked(one["segmentation"]) == finding.mask).all()
            rows, columns = np.nonzero(finding.mask)
            assert one["area"] == len(rows)
            x, y, width, height = one["bbox"]
            assert x <= columns.min()
            assert y <= rows.min()
            assert x + width >= columns.max()
            assert y + height >= rows.max()
            painted = np.asarray(Image.open(out / "masks" / f"{one['image_id']:06d}.png"))
            assert (painted[finding.mask] == one["category_id"]).all()
    assert len(names) == 17


def unpacked(segmentation):
    """COCO's definition, read the slow way."""
    height, width = segmentation["size"]
    flat, value = [], False
    for count in segmentation["counts"]:
        flat += [value] * count
        value = not value
    return np.array(flat).reshape(width, height).T


def test_run_lengths_by_hand():
    mask = np.array([[0, 1, 1], [0, 0, 1]], bool)
    assert render_command.run_lengths(mask) == [2, 1, 1, 2]
    assert render_command.run_lengths(~mask) == [0, 2, 1, 1, 2]
    assert render_command.run_lengths(np.zeros((3, 5), bool)) == [15]


def test_stopped_and_called_again(tmp_path, capsys, monkeypatch):
    words = ["render", "pipes", "--count", 9, "--size", 37, "--jobs", 1, "--out"]
    assert typed(capsys, *words, tmp_path / "whole")[0] == 0
    real, drawn = render_command._draw, []

    def until_the_fifth(out, index, *rest):
        if len(drawn) == 5:
            raise KeyboardInterrupt
        drawn.append(index)
        return real(out, index, *rest)

    monkeypatch.setattr(render_command, "_draw", until_the_fifth)
    assert typed(capsys, *words, tmp_path / "stopped")[0] == 130
    assert not (tmp_path / "stopped" / "labels.csv").exists()
    drawn.clear()
    assert typed(capsys, *words, tmp_path / "stopped")[0] == 0
    assert drawn == [5, 6, 7, 8]
    files = [path.relative_to(tmp_path / "whole") for path in sorted((tmp_path / "whole").rglob("*")) if path.is_file()]
    assert len(files) == 9 * 2 + 6
    for file in files:
        assert (tmp_path / "stopped" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    drawn.clear()
    assert typed(capsys, *words, tmp_path / "stopped")[0] == 0
    assert not drawn


def test_two_processes_draw_the_same(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(render_command, "ALONE", 4)
    for jobs in (1, 2):
        assert (
            typed(capsys, "render", "pipes", "--count", 8, "--size", 41, "--jobs", jobs, "--out", tmp_path / str(jobs))[
                0
            ]
            == 0
        )
    assert (tmp_path / "1" / "images" / "000007.jpg").read_bytes() == (
        tmp_path / "2" / "images" / "000007.jpg"
    ).read_bytes()
    assert (tmp_path / "1" / "instances_train.json").read_bytes() == (
        tmp_path / "2" / "instances_train.json"
    ).read_bytes()


def test_a_folder_of_others_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("dear to me")
    status, _, err = typed(capsys, "render", "pipes", "--count", 3, "--out", tmp_path)
    assert status == 2
    assert "one with mine.txt in it" in err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert typed(capsys, "render", "pipes", "--count", 3, "--out", tmp_path / "mine.txt")[0] == 2
    out = tmp_path / "set"
    assert typed(capsys, "render", "pipes", "--count", 3, "--size", 33, "--jobs", 1, "--out", out)[0] == 0
    status, _, err = typed(capsys, "render", "pipes", "--count", 4, "--size", 33, "--out", out)
    assert status == 2
    assert "expected a folder for count 4" in err
    shutil.rmtree(out)


@pytest.mark.parametrize(
    "words",
    [["tubes"], ["pipes", "--count", 0], ["pipes", "--size", 5], ["pipes", "--seed", -1], ["pipes", "--jobs", 0]],
)
def test_bad_words(tmp_path, capsys, words):
    status, _, err = typed(capsys, "render", *words, "--out", tmp_path / "x")
    assert status == 2
    assert err.count("\n") == 1
    assert not (tmp_path / "x").exists()
