"""Train an inspector on pipes that foveal draws, see where it looked, and ship it as one file:
`python examples/inspect_pipes.py [FOLDER]`.

The sizes are tiny: half a minute for a look at the whole way. `foveal train classify --recipe pipes` is the real thing.
"""

import sys
from pathlib import Path

from PIL import Image

import foveal
from foveal.data.pipes.render import render

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/inspect")
photos = folder / "photos"
photos.mkdir(parents=True, exist_ok=True)
for seed in range(8):
    Image.fromarray(render(seed, size=112).image).save(photos / f"{seed}.jpg")

# data: class folders, a folder with labels.csv, or `pipes:N`, which draws N frames. Weights in the package know pipes
# already: a good start.
options = {"model": "icam-fast", "init_from": "icam-fast-pipes", "size": 112, "epochs": 2, "batch": 16}
run = foveal.train("classify", data="pipes:90:1", out=folder / "run", resume=True, **options)
print(run.summary())

model = run.model  # in another process: foveal.load(folder / "run")
print(model.evaluate(split="test").summary())
for found in model.predict(photos):
    print(found.file, found.found)
print("where it looked:", *model.explain(photos / "0.jpg").save(folder / "looked.png"))

print(model.export(folder / "inspector.onnx").summary())
shipped = foveal.load(folder / "inspector.onnx")  # from here on no torch is needed
same = [one.found for one in shipped.predict(photos)] == [one.found for one in model.predict(photos)]
print("the file finds the same in all photos:", same)
