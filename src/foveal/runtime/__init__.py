"""Run an exported file: numpy, Pillow and onnxruntime, never torch. What a robot installs.

model = foveal.load("inspector.onnx")       # opens it; model.predict(images), model.exported.session
"""

from typing import Any


def __getattr__(name: str) -> Any:
    # Whoever looks for a class, a Session or a Predictor, wants to open a file.
    more = ': foveal.load("file.onnx") opens an exported file' if name[:1].isupper() else ""
    raise AttributeError(f"module 'foveal.runtime' has no attribute {name!r}{more}")
