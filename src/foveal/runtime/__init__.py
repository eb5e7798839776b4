"""Run an exported file: numpy, Pillow and onnxruntime, never torch. What a robot installs.

model = foveal.load("inspector.onnx")       # opens it; model.predict(images), model.exported.session
"""

from typing import Any

_OPENS = ("Session", "Translator", "Exported", "InferenceSession", "Predictor")


def __getattr__(name: str) -> Any:
    more = ': foveal.load("file.onnx") opens an exported file' if name in _OPENS else ""
    raise AttributeError(f"module 'foveal.runtime' has no attribute {name!r}{more}")
