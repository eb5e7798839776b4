"""Images in, one result per image: the order, the batches, what cannot be read, and every kind of input."""

import itertools
import threading

import numpy as np
import pytest
from PIL import Image

from foveal.errors import FovealError
from foveal.runtime.image_predictor import ImagePredictor, Problem, frame_of, opened

SIDE = 13


class Means(ImagePredictor):
    """Its answer is an image's mean; it notes the size of each batch."""

    def __init__(self, batch=3):
        super().__init__(SIDE, batch)
        self.batches, self.sizes = [], []

    def answers(self, names, frames):
        self.batches.append(len(frames))
        assert all(frame.pixels.shape == (SIDE, SIDE, 3) for frame in frames)
        self.sizes += [(frame.height, frame.width) for frame in frames]
        return [(name, round(float(frame.pixels.mean()))) for name, frame in zip(names, frames, strict=True)]


def plain(grey, height=17, width=19):
    return np.full((height, width, 3), grey, np.uint8)


@pytest.fixture
def files(tmp_path):
    for number in range(7):
        Image.fromarray(plain(10 * number)).save(tmp_path / f"{number}.png")
    return tmp_path


def test_in_order_and_in_batches(files):
    model = Means()
    paths = model.inputs([str(files)])
    assert [value for _, value in model.predict(paths)] == [0, 10, 20, 30, 40, 50, 60]
    assert model.batches == [3, 3, 1]


def test_every_kind_of_input(files):
    given = [
        files / "3.png",
        str(files / "4.png"),
        plain(50),
        Image.fromarray(plain(60)),
        Image.fromarray(plain(70)[..., 0]),
    ]
    assert list(Means().predict(given)) == [
        (str(files / "3.png"), 30), (str(files / "4.png"), 40), ("image 2", 50), ("image 3", 60), ("image 4", 70),
    ]  # fmt: skip
    opened_by_pillow = Image.open(files / "2.png")
    assert list(Means().predict([opened_by_pillow])) == [(str(files / "2.png"), 20)]


def test_a_problem_keeps_its_place(files):
    (files / "2.png").write_bytes(b"")
    results = list(Means().predict([str(files / "1.png"), str(files / "2.png"), 3, np.zeros((4, 4)), plain(9)]))
    assert [one.error.split(",")[0] if isinstance(one, Problem) else one[1] for one in results] == [
        10,
        "is empty (0 bytes)",
        "expected a path",
        "expected a path",
        9,
    ]
    assert results[1].file == str(files / "2.png")


def test_a_live_list_does_not_wait_for_its_next_line(files):
    """With batches of one, an image is answered before the next path is there."""
    more = threading.Event()

    def live():
        yield str(files / "1.png")
        assert more.wait(300)
        yield str(files / "2.png")

    results = Means(batch=1).predict(live())
    assert next(results)[1] == 10
    more.set()
    assert next(results)[1] == 20
    assert list(results) == []


def test_endless_inputs_may_be_left(files):
    endless = Means().predict(itertools.repeat(str(files / "5.png")))
    assert [value for _, value in itertools.islice(endless, 5)] == [50] * 5
    endless.close()


def test_what_goes_wrong_in_the_inputs_is_raised():
    def broken():
        yield plain(1)
        raise FovealError("no more")

    with pytest.raises(FovealError, match="no more"):
        list(opened(broken(), SIDE))


def test_an_array_of_the_right_size_stays_as_it_is():
    exact = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    assert (frame_of(exact, SIDE).pixels == exact).all()


def test_a_model_knows_how_large_its_images_are(tmp_path):
    """As they are looked at: a JPEG that is decoded at an eighth, and one that its EXIF turns on its side."""
    wide = Image.fromarray(plain(7, 210, 301))
    exif = Image.Exif()
    exif[0x0112] = 6
    wide.save(tmp_path / "wide.jpg")
    wide.save(tmp_path / "turned.jpg", exif=exif)
    model = Means()
    list(model.predict([tmp_path / "wide.jpg", tmp_path / "turned.jpg", plain(3, 5, 23), wide]))
    assert model.sizes == [(210, 301), (301, 210), (5, 23), (210, 301)]


def test_a_grey_array_is_an_image():
    grey = np.random.default_rng(0).integers(0, 256, (SIDE + 2, SIDE + 3), np.uint8)
    assert (frame_of(grey, SIDE).pixels == frame_of(Image.fromarray(grey), SIDE).pixels).all()


@pytest.mark.parametrize("batch", [0, -1, 1.5, True])
def test_a_batch_that_is_none(batch):
    with pytest.raises(FovealError, match="--batch: expected"):
        Means(batch)


class Sizes(ImagePredictor):
    """Its answer is an image's own size."""

    def __init__(self, batch=1):
        super().__init__(None, batch)

    def answers(self, names, frames):
        assert all(frame.pixels.shape == (frame.height, frame.width, 3) for frame in frames)
        return [(name, frame.height, frame.width) for name, frame in zip(names, frames, strict=True)]


def test_images_may_keep_their_size(tmp_path):
    wide = Image.fromarray(plain(7, 210, 301))
    exif = Image.Exif()
    exif[0x0112] = 6
    wide.save(tmp_path / "turned.jpg", exif=exif)
    for batch in (1, 3):
        given = [plain(3, 5, 23), tmp_path / "turned.jpg", wide, plain(9)[..., 0], "gone.png"]
        *sizes, problem = Sizes(batch).predict(given)
        assert [size for _, *size in sizes] == [[5, 23], [301, 210], [210, 301], [17, 19]]
        assert problem == Problem("gone.png", "no such file")


def test_few_images_of_their_own_size_are_open_at_once():
    """They may be large: while one is answered, the next ones wait to be asked for."""
    asked = []

    def live():
        for number in range(40):
            asked.append(number)
            yield plain(number)

    results = Sizes().predict(live())
    for place, _ in enumerate(results):
        assert len(asked) <= place + 5
