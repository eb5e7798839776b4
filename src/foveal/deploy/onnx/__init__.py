"""ONNX graphs: made, cut, quantised, described."""
