"""The report: what the page holds, that nothing of the outside gets into it raw,
and that tables say what the scores says.
"""

import base64
import csv
import io
import math
import re

import numpy as np
import pytest
from PIL import Image
from report.read_page import Page

from foveal.errors import FovealError
from foveal.report.confusion import PAIRS, pairs
from foveal.report.figure import flat
from foveal.report.page import SHOT
from foveal.report.plot import unit_frame
from foveal.report.table import UNDEFINED, write_tables
from foveal.tasks.classify import report_curves as curve
from foveal.tasks.classify import report_tables as table
from foveal.tasks.classify.predictions import Predicted
from foveal.tasks.classify.report import write_report
from foveal.tasks.classify.report_html import page
from foveal.tasks.classify.scoring import score

NASTY = "<script>alert('x')</script> & \"a|b\"_{1}"
FACTS = {
    "run": "runs/<7>",
    "origin": {"machine": "a & b", "versions": {"torch": "2.13"}},
    "data": {"classes": ["x", "y"], "images": 101},
}


def one(classes=("fine", NASTY), images=101, files=None, **options):
    random = np.random.default_rng(0)
    truth = random.integers(len(classes), size=images)
    logits = random.normal(size=(images, len(classes))) + 1.0 * (truth[:, None] == np.arange(len(classes)))
    validation = (truth, logits) if options.pop("known", True) else None
    files = files or [f"{i}.png" for i in range(images)]
    return score(Predicted(files, classes, truth, logits), "test", validation=validation, resamples=29, **options)


def multi_label(images=97, classes=5):
    random = np.random.default_rng(1)
    truth = (random.random((images, classes)) < 0.3).astype(np.uint8)
    truth[:, -1] = 0  # never there
    logits = random.normal(size=truth.shape) + 2 * truth - 1
    return score(
        Predicted([str(i) for i in range(images)], [f"k{i}" for i in range(classes)], truth, logits),
        "val",
        resamples=29,
    )


def shot(index):
    return np.full((300, 450, 3), index % 256, np.uint8)


MADE = {"two classes": one, "seven classes": lambda: one([f"c{i}" for i in range(7)]), "several labels": multi_label}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_the_page_is_whole_and_needs_nothing_beside_it(make):
    text = page(make(), "A title", FACTS, shot)
    read = Page(text)
    assert not {tag for tag, _ in read.tags} & {"script", "link", "iframe", "object", "base", "form"}
    assert not re.search(r"https?:|//[a-z]|@import|url\(|javascript:", re.sub(r'src="data:[^"]*"', "", text))
    for _, attributes in read.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("src", "data:image/jpeg;base64,").startswith("data:image/jpeg;base64,")
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in read.all("meta")
    assert "prefers-color-scheme: dark" in text
    for heading in ("Classes", "Curves", "Calibration", "Worst mistakes", "Where these figures come from"):
        assert heading in read.text
    assert "nan" not in read.text.lower()


def test_what_comes_from_outside_is_escaped():
    scores = one(files=[f"{NASTY}{i}" for i in range(101)])
    text = page(scores, NASTY, {NASTY: {NASTY: NASTY}, "b": NASTY}, None)
    read = Page(text)
    assert "<script" not in text
    assert read.text.count(NASTY) > 10
    assert all(
        NASTY in label["aria-label"] or "confident" in label["aria-label"] or "fine" in label["aria-label"]
        for label in read.all("svg")
    )


def test_figures_on_the_page_are_those_of_the_evaluation():
    scores = one()
    read = Page(page(scores, "t", {}, None))
    for figure in [*scores.figures.values(), *(f for row in scores.classes for f in row.figures.values())]:
        assert f"{100 * figure.value:.2f}" in read.text
        if math.isfinite(figure.low):
            assert f"{100 * figure.low:.1f} – {100 * figure.high:.1f}" in read.text
    assert scores.decision in read.text
    assert scores.interval in read.text
    assert "Where these figures come from" not in read.text
    for row in scores.confusion:
        for cell in row:
            assert str(cell) in read.text


def test_shades_are_shares_of_the_row_and_two_classes_need_one_roc_curve():
    scores = one()
    text = page(scores, "t", {}, None)
    shades = [float(share) for share in re.findall(r"--much:([\d.]+)", text)]
    rows = np.array(scores.confusion)
    np.testing.assert_allclose(shades, (0.08 + 0.92 * rows / rows.sum(1, keepdims=True)).ravel(), atol=0.006)
    assert len(Page(text).all("svg")) == 2 + 1 + 1  # precision–recall of both, one ROC, reliability
    # the class that is never there has no curve
    assert len(Page(page(multi_label(), "t", {}, None)).all("svg")) == 4 + 4 + 1


SIDE = 184.0
FRAME = unit_frame(SIDE)


def points(svg, kind):
    found = re.search(rf'<polyline class="{kind}" points="([^"]*)"', svg)
    return np.array([[float(part) for part in pair.split(",")] for pair in found[1].split()])


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_curves_stay_in_their_frame_and_enclose_their_areas(make):
    scores = make()
    for row in scores.classes:
        if not row.recall:
            continue
        for svg, name in ((curve.precision_recall(row, scores.images), "AP"), (curve.roc(row), "AUC")):
            Page(svg)
            xy = points(svg, "curve")
            assert (xy[:, 0] >= FRAME.left).all() and (xy[:, 0] <= FRAME.left + SIDE).all()  # noqa: PT018
            assert (xy[:, 1] >= FRAME.top).all() and (xy[:, 1] <= FRAME.top + SIDE).all()  # noqa: PT018
            area = np.trapezoid((FRAME.top + SIDE - xy[:, 1]) / SIDE, (xy[:, 0] - FRAME.left) / SIDE)
            assert area == pytest.approx(row.figures[name].value, abs=2e-3)
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
    assert width > FRAME.left + SIDE
    assert height > FRAME.top + SIDE


def test_the_dot_is_where_the_decision_stands():
    scores = one(("a", "b"))
    hit, false, missed, passed = scores.classes[1].counts
    x, y = map(float, re.search(r'class="here" cx="([\d.]+)" cy="([\d.]+)"', curve.roc(scores.classes[1])).groups())
    assert (x - FRAME.left) / SIDE == pytest.approx(false / (false + passed), abs=1e-3)
    assert 1 - (y - FRAME.top) / SIDE == pytest.approx(hit / (hit + missed), abs=1e-3)


def test_reliability_shows_both_sides_and_every_bin():
    scores = one()
    svg = curve.reliability(scores.calibration)
    full = sum(count > 0 for count in scores.calibration.before.count)
    assert len(points(svg, "before")) == full == svg.count("<rect")
    assert len(points(svg, "after")) == sum(count > 0 for count in scores.calibration.after.count)
    assert 'class="after"' not in curve.reliability(one(known=False).calibration)


def test_worst_mistakes_are_thumbnails():
    scores = one()
    read = Page(page(scores, "t", {}, shot))
    images = read.all("img")
    assert len(images) == len(scores.mistakes) == 24
    for mistake, shown in zip(scores.mistakes, images, strict=True):
        image = Image.open(io.BytesIO(base64.b64decode(shown["src"].split(",")[1])))
        assert image.format == "JPEG"
        assert image.size == (SHOT, round(SHOT * 300 / 450)) == (int(shown["width"]), int(shown["height"]))
        assert abs(int(np.asarray(image).mean()) - mistake.index) <= 2
        assert shown["alt"] == mistake.file
    assert not Page(page(scores, "t", {}, None)).all("img")


def test_an_image_that_is_gone_leaves_the_report_standing():
    def gone(index):
        raise FovealError(f"{index}.png: expected an image, got <nothing>")

    read = Page(page(one(), "t", {}, gone))
    assert read.text.count("expected an image, got <nothing>") == 24
    with pytest.raises(FovealError, match=r"expected \(H, W, 3\) uint8, got \(5, 7\) float64"):
        page(one(), "t", {}, lambda index: np.zeros((5, 7)))


def test_all_files_are_written_and_the_same_again(tmp_path):
    scores = one()
    written = write_report(scores, tmp_path / "a" / "b", title="T", facts=FACTS, images=shot)
    tables = [f"{stem}.{kind}" for stem in ("figures", "report") for kind in ("csv", "md", "tex")]
    assert sorted(path.name for path in written) == sorted(["evaluation.json", "report.html", *tables])
    assert written[0].name == "report.html"
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == sorted(path.name for path in written)
    assert (tmp_path / "a/b/evaluation.json").read_text(encoding="utf-8") == scores.to_json()
    write_report(scores, tmp_path / "again", title="T", facts=FACTS, images=shot)
    for path in written:
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_nothing_is_written_before_everything_is_made(tmp_path):
    def stopped(index):
        raise KeyboardInterrupt

    (tmp_path / "report.md").write_text("before", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        write_report(one(), tmp_path, title="T", facts={}, images=stopped)
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == "before"
    with pytest.raises(FovealError, match="cannot write"):
        write_report(one(), tmp_path / "report.md" / "x", title="T", facts={})


def test_the_csv_holds_every_figure(tmp_path):
    for scores in (one(), multi_label()):
        rows = list(csv.DictReader(io.StringIO(table.figure_rows(scores).csv())))
        assert len(rows) == len(scores.figures) + 5 * len(scores.classes)
        found = {(row["class"], row["figure"]): row for row in rows}
        for row in scores.classes:
            for name, figure in row.figures.items():
                value = found[row.name, name]["value"]
                assert (value == "") if np.isnan(figure.value) else (float(value) == figure.value)
        assert float(found["", "macro F1"]["high"]) == scores.figures["macro F1"].high


def test_markdown_and_latex_keep_their_cells(tmp_path):
    scores = one()
    write_tables(tmp_path, "t", table.tables(scores)[:2], "T", table.caption(scores), dict(flat(FACTS)))
    for line in (tmp_path / "t.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 4, 5, 8, 9)
    text = (tmp_path / "t.tex").read_text(encoding="utf-8")
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == text.count(r"\begin{table}") == 2
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    bare = re.sub(r"\\[{}&%$#_]", "", body)
    assert bare.count("{") == bare.count("}")
    rows = [line for line in bare.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") for line in rows} == {1, 6}
    assert "origin · versions · torch: 2.13" in text


def test_a_great_many_classes_show_the_most_frequent_confusions():
    scores = one([f"c{i}" for i in range(37)], images=499)
    cells = [n for n, _, _ in pairs(scores.confusion)]
    assert len(cells) == PAIRS
    assert cells == sorted(cells, reverse=True)
    assert cells[0] == max(n for i, row in enumerate(scores.confusion) for j, n in enumerate(row) if i != j)
    assert table.confusion(scores).head == ["true", "predicted", "images"]
    assert "true ↓" not in Page(page(scores, "t", {}, None)).text


def test_degenerate_scores_still_make_a_report(tmp_path):
    single = score(Predicted(["x"], ("a", "b"), np.array([0]), np.array([[2.0, 0.0]])), "test", resamples=7)
    write_report(single, tmp_path, title="T", facts={})
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1 image of the split test" in text
    assert "None: every answer is right." in text
    assert UNDEFINED in Page(text).text
    bare = score(Predicted(["x", "y"], ("a", "b"), np.array([0, 1]), np.eye(2)), "test", resamples=0)
    assert "no intervals were asked for" in page(bare, "T", {}, None)
