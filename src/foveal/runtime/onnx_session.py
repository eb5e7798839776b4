"""One way to open an ONNX graph: as many threads as asked, quiet, on the CPU. No torch here."""

from typing import Any


def opened(graph: bytes | str, threads: int = 1) -> Any:
    """An onnxruntime session of a graph's bytes, or of its file. Raises what onnxruntime raises."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # what it says goes to its makers
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
