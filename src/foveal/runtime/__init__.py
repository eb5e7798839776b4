"""Run an exported file: numpy, Pillow and onnxruntime, never torch. What a robot installs.

model = foveal.load("inspector.onnx")       # opens it; model.predict(images)
session = foveal.runtime.Session("inspector.onnx")       # its graph alone: arrays in, arrays out
"""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
