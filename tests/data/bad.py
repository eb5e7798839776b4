"""A folder with everything that may be wrong with an image, among good ones."""

import io

import numpy as np
from PIL import Image

BAD = {  # name → words of the reason
    "a/empty.png": "is empty (0 bytes)",
    "a/cut.jpg": "damaged: ",
    "b/text.png": "is not an image",
    "b/cut.png": "damaged: ",
    "b/gone.png": "no such file",
}
GOOD = ("a/cmyk.jpg", "a/sixteen.png", "b/turned.jpg", "b/grey.png", "a/clear.png")


def spoiled(folder, csv=False, plain=14):
    """Class folders a and b, or with `csv` a labels.csv of the same files with splits and folds."""
    names = [f"{'ab'[number % 2]}/{number:02}.png" for number in range(plain)] + list(GOOD) + list(BAD)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _write(folder / name)
    if csv:
        splits = ("train", "val", "test", "train")
        lines = [f"{name},{name[0]},{splits[place % 4]},{place % 3}" for place, name in enumerate(sorted(names))]
        (folder / "labels.csv").write_text("\n".join(["file,label,split,fold", *lines]) + "\n")
    else:
        (folder / "b" / "gone.png").symlink_to(folder / "nowhere.png")
    return folder


def _write(file):
    noise = np.random.default_rng(len(file.name) + file.name.encode()[1]).integers(0, 256, (37, 41, 3), np.uint8)
    image = Image.fromarray(noise)
    if file.name == "gone.png":
        return
    if file.name == "empty.png":
        file.write_bytes(b"")
    elif file.name == "text.png":
        file.write_text("no image")
    elif file.name.startswith("cut."):
        content = io.BytesIO()
        image.save(content, "JPEG" if file.suffix == ".jpg" else "PNG")
        file.write_bytes(content.getvalue()[: len(content.getvalue()) // 2])
    elif file.name == "cmyk.jpg":
        image.convert("CMYK").save(file)
    elif file.name == "sixteen.png":
        Image.fromarray(noise[..., 0].astype(np.uint16) * 257).save(file)
    elif file.name == "turned.jpg":
        exif = Image.Exif()
        exif[0x0112] = 6
        image.save(file, exif=exif)
    elif file.name == "grey.png":
        image.convert("L").save(file)
    elif file.name == "clear.png":
        image.convert("RGBA").save(file)
    else:
        image.save(file)
