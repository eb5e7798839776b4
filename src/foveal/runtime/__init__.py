"""Run an exported file: numpy, Pillow and onnxruntime, never torch. What a robot installs."""
