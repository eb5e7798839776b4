"""An ONNX graph written node by node, for models whose graph is short enough to be written out.

    y = nodes("MatMul", x, w)          an operator: its inputs, and the names of its outputs
    linear   y = x Wᵀ + b
    in int8  y ≈ s_x s_c (x_q − z) W_q + b,   s_x and z of all of x as it comes, s_c of each column

Weights lie in the file once, under their own names. What int8 leaves out: whatever is no product with a weight.
Needs onnx, and no torch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Nodes:
    """Nodes and weights of one graph, in the order of the computation."""

    def __init__(self, name: str, int8: bool = False) -> None:
        self.name, self.int8 = name, int8
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """An operator with so many outputs."""
        from onnx import helper

        outputs = [f"{self.name}/{len(self.nodes)}.{number}" for number in range(count)]
        self.nodes.append(helper.make_node(operator, list(inputs), outputs, **attributes))
        return outputs

    def weight(self, name: str, values: Array) -> str:
        self.weights[name] = np.array(values, order="C")  # ascontiguousarray would give a number an axis
        return name

    def number(self, *values: float, kind: type = np.int64) -> str:
        """A constant with one axis; its name has its value, so that each is there once."""
        return self.weight(f"{self.name}/{np.dtype(kind).name}:{','.join(map(str, values))}", np.array(values, kind))

    def one(self, value: float, kind: type = np.int64) -> str:
        """A constant without axes."""
        return self.weight(f"{self.name}/one {np.dtype(kind).name}:{value}", np.array(value, kind))

    def shaped(self, x: str, *sizes: int) -> str:
        """0: as it is; −1: the rest."""
        return self("Reshape", x, self.number(*sizes))

    def linear(self, x: str, name: str, weight: Array, bias: Array | None) -> str:
        """x (…, in) and a weight (out, in) → (…, out)."""
        if self.int8:
            codes, scales = quantised(weight)
            y = self._product(x, self.weight(f"{name}.weight.int8", codes.T), self.weight(f"{name}.scale", scales))
        else:
            y = self("MatMul", x, self.weight(f"{name}.weight", weight.T))
        return y if bias is None else self("Add", y, self.weight(f"{name}.bias", bias))

    def logits(self, x: str, name: str, table: Array, bias: Array | None) -> str:
        """Hidden states (R, C) and an embedding table (V, C), which may also be read from → logits (R, V)."""
        if self.int8:
            codes, scales = self._table(name, table)
            y = self._product(x, self("Transpose", codes, perm=[1, 0]), scales)
            return y if bias is None else self("Add", y, self.weight(f"{name}.bias", bias))
        inputs = [x, self.weight(name, table), *([] if bias is None else [self.weight(f"{name}.bias", bias)])]
        return self("Gemm", *inputs, transB=1)

    def read(self, tokens: str, name: str, table: Array, scale: float) -> str:
        """Tokens (…) and a table (V, C) → their rows times the scale, (…, C)."""
        if self.int8:
            codes, scales = self._table(name, table)
            rows = self("Cast", self("Gather", codes, tokens), to=1)
            rows = self("Mul", rows, self("Unsqueeze", self("Gather", scales, tokens), self.number(-1)))
        else:
            rows = self("Gather", self.weight(name, table), tokens)
        return self("Mul", rows, self.one(scale, np.float32))

    def _table(self, name: str, table: Array) -> tuple[str, str]:
        codes, scales = quantised(table)
        return self.weight(f"{name}.int8", codes), self.weight(f"{name}.scale", scales)

    def _product(self, x: str, codes: str, scales: str) -> str:
        """As onnxruntime's own quantiser writes it, so that it knows it again and runs it as one."""
        bytes_, scale, zero = self.several("DynamicQuantizeLinear", 3, x)
        product = self("MatMulInteger", bytes_, codes, zero, self.weight(f"{self.name}/none", np.array(0, np.int8)))
        return self("Mul", self("Cast", product, to=1), self("Mul", scale, scales))

    def graph(self, inputs: list[Any], outputs: list[Any], without: frozenset[str] = frozenset()) -> Any:
        """without: weights that are kept elsewhere."""
        from onnx import helper, numpy_helper

        kept = [numpy_helper.from_array(values, name) for name, values in self.weights.items() if name not in without]
        return helper.make_graph(self.nodes, self.name, inputs, outputs, kept)


def quantised(weight: Array) -> tuple[Array, Array]:
    """Codes −127 … 127 of a matrix (out, in), and the scale of each row."""
    scales = np.abs(weight).max(1).astype(np.float32) / 127
    scales = np.where(scales > 0, scales, np.float32(1))
    return np.rint(weight / scales[:, None]).astype(np.int8), scales
