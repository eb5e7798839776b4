"""The report of a segmenter: what the page holds, that nothing of the outside gets into it raw, and that images stand
beside their label maps.
"""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image
from report.read_page import Page

from foveal.errors import FovealError
from foveal.progress import silent
from foveal.tasks.segment import report_html as html
from foveal.tasks.segment import report_tables as table
from foveal.tasks.segment.overlay import palette
from foveal.tasks.segment.predicted import predict_images
from foveal.tasks.segment.report import write_report
from foveal.tasks.segment.report_html import page
from foveal.tasks.segment.scoring import score
from foveal.tasks.segment.side_by_side import resized, side_by_side

NASTY = "<script>alert('x')</script> & \"a|b\"_{1}"
FACTS = {"run": "runs/<7>", "origin": {"machine": "a & b", "versions": {"torch": "2.13"}}, "data": {"images": 101}}
HEADINGS = ("Classes", "Confusion", "Findings by size", "Worst images", "Where these figures come from")


class Set:
    """Images of discs; what is said of them is shifted, and small ones are missed."""

    def __init__(self, count, kinds, name="{}.png"):
        self.kinds, self.name, self.pairs = kinds, name, []
        draw, (y, x) = np.random.default_rng(0), np.mgrid[:37, :53]
        for _ in range(count):
            truth, said = np.zeros((37, 53), np.uint8), np.zeros((37, 53), np.uint8)
            for _ in range(draw.integers(0, 3)):
                row, column, radius, kind = draw.integers((0, 0, 1, 1), (37, 53, 14, len(kinds) + 1))
                truth[(y - row) ** 2 + (x - column) ** 2 < radius**2] = kind
                if radius > 4:
                    said[(y - row - 1) ** 2 + (x - column) ** 2 < radius**2] = kind
            self.pairs.append((truth, said))

    def file(self, index):
        return self.name.format(index)

    def image(self, index):
        return np.full((*self.pairs[index][0].shape, 3), index, np.uint8)

    def label_map(self, index):
        return self.pairs[index][0]

    def answer(self, pixels):
        said = self.pairs[int(pixels[0, 0, 0])][1]
        return said, np.full(len(self.kinds) + 1, said.any(), np.float32)

    def scores(self, **options):
        predicted = predict_images(self.answer, self.kinds, self, range(len(self.pairs)), silent)[0]
        return score(predicted, "test", **({"resamples": 29, "thin_classes": [1]} | options))

    def shown(self, index):
        return (self.image(index), *self.pairs[index])


def one(count=31, kinds=("fine", NASTY, "absent"), **more):
    some = Set(count, kinds, **more)
    for truth, said in some.pairs:  # nothing is of the last class
        truth[truth == len(kinds)] = said[said == len(kinds)] = 0
    return some


MADE = {
    "three classes": one,
    "seven classes": lambda: one(kinds=tuple(f"c{place}" for place in range(7))),
    "many classes": lambda: one(kinds=tuple(f"c{place}" for place in range(37))),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_the_page_is_whole_and_needs_nothing_beside_it(make):
    some = make()
    text = page(some.scores(), "A title", FACTS, some.shown)
    read = Page(text)
    assert not {tag for tag, _ in read.tags} & {"script", "link", "iframe", "object", "base", "form"}
    assert not re.search(r"https?:|//[a-z]|@import|url\(|javascript:", re.sub(r'src="data:[^"]*"', "", text))
    for _, attributes in read.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("src", "data:image/jpeg;base64,").startswith("data:image/jpeg;base64,")
    for heading in HEADINGS:
        assert heading in read.text
    assert "nan" not in read.text.lower()


def test_what_comes_from_outside_is_escaped():
    some = one(name=NASTY.replace("{1}", "{{1}}") + "{}")
    text = page(some.scores(), NASTY, {NASTY: {NASTY: NASTY}, "b": NASTY}, some.shown)
    assert "<script" not in text
    assert Page(text).text.count(NASTY) > 20


def test_figures_on_the_page_are_those_of_the_evaluation():
    scores = one().scores()
    read = Page(page(scores, "t", {}, None))
    of_classes = [one for row in scores.classes for name, one in row.figures.items() if name != html.LEFT_OUT]
    for figure in [*scores.figures.values(), *of_classes]:
        assert table.percent(figure.value) in read.text
        if figure.has_interval:
            assert f"{100 * figure.low:.1f} – {100 * figure.high:.1f}" in read.text
    assert f"{scores.found_from.value:.1f} px" in read.text
    assert scores.interval in read.text
    assert "Where these figures come from" not in read.text


def test_the_confusion_has_shares_and_counts():
    scores = one().scores()
    text = page(scores, "t", {}, None)
    shades = [float(share) for share in re.findall(r"--much:([\d.]+)", text)]
    rows = np.array(scores.confusion)
    shares = rows / np.maximum(rows.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(shades, (0.08 + 0.92 * shares).ravel(), atol=0.006)
    assert f"{100 * shares[1, 1]:.1f}{html.short(rows[1, 1])}" in Page(text).text


def test_counts_are_short():
    counts = (0, 7, 999, 1000, 1234, 99_949, 999_400, 999_600, 12_345_678, 5_000_000_000)
    shown = ["0", "7", "999", "1k", "1.23k", "99.9k", "999k", "1M", "12.3M", "5G"]
    assert [html.short(count) for count in counts] == shown


def test_a_share_that_is_nearly_nothing_is_not_called_nothing():
    assert "&lt; 0.1" in html._share_first(1, 1e-6)
    assert html._share_first(0, 0.0) == "0"
    assert html._share_first(1, 0.001) == "0.1<small>1</small>"


def test_bars_are_as_high_as_what_was_found():
    scores = one().scores()
    svg = html.by_size(scores)
    Page(svg)
    bars = re.findall(r'<rect class="(\w+)" x="[\d.]+" y="([\d.]+)" width="[\d.]+" height="([\d.]+)"', svg)
    expected = [
        (kind, found / size.findings)
        for size in scores.sizes
        for kind, found in (("tenth", size.tenth), ("half", size.half))
        if found
    ]
    assert [kind for kind, _, _ in bars] == [kind for kind, _ in expected]
    heights = [float(height) / 190 for _, _, height in bars]
    np.testing.assert_allclose(heights, [share for _, share in expected], atol=1e-3)
    for size in scores.sizes:
        assert table.range_of(size).replace("<", "&lt;") in svg
        assert f"{size.half} of {size.findings}" in svg


def pictures(read):
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one["src"].split(",")[1])))) for one in read.all("img")]


def test_the_worst_images_stand_beside_truth_and_prediction():
    some = one()
    scores = some.scores()
    read = Page(page(scores, "t", {}, some.shown))
    assert len(read.all("img")) == 3 * len(scores.worst)
    names = [f"{worst.file}: {what}" for worst in scores.worst for what in ("image", "truth", "predicted")]
    assert [image["alt"] for image in read.all("img")] == names
    for place, worst in enumerate(scores.worst):
        image, truth, said = pictures(read)[3 * place : 3 * place + 3]
        assert image.shape == truth.shape == said.shape == (37 * 4, 53 * 4, 3)  # as large as fits, by a whole number
        assert abs(int(image.mean()) - worst.index) <= 2
        for shown, labels in ((truth, some.pairs[worst.index][0]), (said, some.pairs[worst.index][1])):
            coloured = (shown.astype(int).max(-1) - shown.min(-1) > 40).mean()
            assert (coloured > 0) == labels.any()
    assert not Page(page(scores, "t", {}, None)).all("img")
    missed = [name for worst in scores.worst for name, _ in worst.missed]
    assert missed
    assert all(f"missed {table.missed(worst)}" in read.text for worst in scores.worst)


def test_classes_have_the_colours_of_the_overlays():
    some = one()
    text = page(some.scores(), "t", {}, some.shown)
    for red, green, blue in palette()[1:4].tolist():
        assert f"background:rgb({red},{green},{blue})" in text


def test_a_wide_image_has_its_label_maps_below():
    some = one()
    wide = lambda index: tuple(np.concatenate([part, part], 1) for part in some.shown(index))  # noqa: E731
    text = page(some.scores(), "t", {}, wide)
    assert text.count('<div class="three stacked">') == len(some.scores().worst)
    assert "three stacked" not in page(some.scores(), "t", {}, some.shown).partition("<body>")[2]


def test_an_image_that_is_gone_leaves_the_report_standing():
    def gone(index):
        raise FovealError(f"{index}.png: expected an image, got <nothing>")

    some = one()
    read = Page(page(some.scores(), "t", {}, gone))
    assert read.text.count("expected an image, got <nothing>") == len(some.scores().worst)


def test_nothing_thin_is_lost_where_a_label_map_is_shrunk():
    labels = np.zeros((90, 120), np.uint8)
    labels[:, 31], labels[40, :] = 2, 1
    small = resized(labels, 9, 12)
    assert (small[:, 3] > 0).all()
    assert (small[4, [0, 1, 2, 4, 5, 11]] == 1).all()
    assert (small > 0).sum() == 9 + 12 - 1
    blocks = np.zeros((20, 20), np.uint8)
    blocks[0, :2], blocks[1:3, :5], blocks[11, 11] = 3, 1, 2
    np.testing.assert_array_equal(resized(blocks, 2, 2), [[1, 0], [0, 2]])  # 10 pixels of the first, 2 of the third
    unknown = np.full((90, 120), 255, np.uint8)
    unknown[5, 5] = 3
    assert resized(unknown, 9, 12)[0, 0] == 3
    assert (resized(unknown, 9, 12)[1:] == 255).all()


def test_a_label_map_that_is_enlarged_keeps_its_shape():
    labels = np.random.default_rng(0).integers(0, 4, (5, 7)).astype(np.uint8)
    np.testing.assert_array_equal(resized(labels, 15, 21), labels.repeat(3, 0).repeat(3, 1))


@pytest.mark.parametrize(("height", "width", "shape"), [(5, 7, (160, 224)), (448, 100, (224, 50)), (224, 3, (224, 3))])
def test_all_three_have_one_size(height, width, shape):
    labels = np.ones((height, width), np.uint8)
    shown = side_by_side(np.zeros((height, width, 3), np.uint8), (labels, labels), 224)
    assert [one.shape for one in shown] == [(*shape, 3)] * 3


def test_all_files_are_written_and_the_same_again(tmp_path):
    some = one()
    scores = some.scores()
    written = write_report(scores, tmp_path / "a/b", title="T", facts=FACTS, images=some.shown)
    tables = [f"{stem}.{kind}" for stem in ("figures", "report") for kind in ("csv", "md", "tex")]
    names = sorted(["evaluation.json", "confusion.csv", "report.html", *tables])
    assert written[0].name == "report.html"
    assert sorted(path.name for path in (tmp_path / "a/b").iterdir()) == names
    assert (tmp_path / "a/b/evaluation.json").read_text(encoding="utf-8") == scores.to_json()
    write_report(scores, tmp_path / "again", title="T", facts=FACTS, images=some.shown)
    for path in written:
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    for name in ("report.md", "report.tex", "figures.csv"):
        assert "origin · versions · torch" in (tmp_path / "again" / name).read_text(encoding="utf-8").replace(
            "$\\cdot$", "·"
        )


def test_scores_of_nothing_still_make_a_report(tmp_path):
    some = Set(2, ("a", "b"))
    some.pairs = [(np.zeros((3, 5), np.uint8),) * 2] * 2
    write_report(some.scores(thin_classes=()), tmp_path, title="T", facts={}, images=some.shown)
    read = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "None: every pixel is right." in read.text
    assert "There are none." in read.text
    assert "2 images of the split test, 0 with findings, 2 classes beside the background." in read.text


def test_long_lists_are_cut():
    words = table._listed(["a", "b", "c", "d", "e"])
    assert words == "a, b, c, 2 more"
    assert table._listed([]) == "nothing"
