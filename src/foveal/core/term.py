"""A term is what is added to the scores before the softmax, given tile by tile so that it is never written out whole.

    e_ij = q_i·k_j·scale + term(q_i, i, j)

Positions live here (Shaw's relative term, a table of relative biases), and so does a soft mask: adding log m(i − j)
multiplies the weights by m before they are normalised. A term may read the query and owns the tensors that it learns.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from foveal.errors import expect

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


class Term:
    """An additive part of the scores. `tensors` are what it learns: gradients reach them through every kernel."""

    tensors: tuple[Tensor, ...] = ()

    def scores(self, q: Tensor, rows: Tensor, columns: Tensor, *tensors: Tensor) -> Tensor:
        """The term of queries q (B, H, n, D) at positions rows (n,), for keys at positions columns (m,):
        broadcasts to (B, H, n, m).

        `tensors` stand for `self.tensors`: a kernel that recomputes passes them in, to take gradients of them.
        """
        raise NotImplementedError

    def check(self, q: Tensor, keys: int) -> None:
        """Raise a FovealError if this term does not fit these queries and that many keys."""

    @property
    def kind(self) -> object:
        """What distinguishes terms that need different kernels; it can be hashed."""
        return type(self)

    def written(self, q: Tensor, keys: int) -> Tensor:
        """The whole term as one tensor of q's dtype that broadcasts to (B, H, N, M), for kernels that take nothing
        else.

        Only a term that is the same for all samples has it: it is small beside the weights.
        """
        raise NotImplementedError

    def score_mod(self, q: Tensor) -> Callable[..., Tensor] | None:
        """FlexAttention's form, (score, b, h, i, j) → score; None if there is none."""
        return None


class Written(Term):
    """A bias that the caller wrote out: a tensor that broadcasts to (B, H, N, M)."""

    def __init__(self, tensor: Tensor) -> None:
        expect(
            tensor.dtype in FLOATS,
            "bias",
            "a floating dtype of 16, 32 or 64 bits",
            tensor.dtype,
            "put booleans into mask=",
        )
        expect(tensor.layout is torch.strided and not tensor.is_nested, "bias", "a dense tensor", tensor.layout)
        expect(
            tensor.dim() in (2, 4),
            "bias",
            "(N, M) or (B, H, N, M)",
            tuple(tensor.shape),
            "one for each head is bias[None]",
        )
        self.tensors = (tensor[(None,) * (4 - tensor.dim())],)

    def scores(self, q: Tensor, rows: Tensor, columns: Tensor, *tensors: Tensor) -> Tensor:
        (bias,) = tensors
        some = bias if bias.shape[2] == 1 else bias[:, :, rows]
        return some if bias.shape[3] == 1 else some[:, :, :, columns]

    def written(self, q: Tensor, keys: int) -> Tensor:
        return self.tensors[0].to(q.dtype)

    def check(self, q: Tensor, keys: int) -> None:
        want = (q.shape[0], q.shape[1], q.shape[2], keys)
        got = tuple(self.tensors[0].shape)
        fits = all(g in (1, w) for g, w in zip(got, want, strict=True))
        expect(fits, "bias", f"a shape that broadcasts to {want}", got)


class Sum(Term):
    """Several terms at once."""

    def __init__(self, *terms: Term) -> None:
        self.terms = terms
        self.tensors = tuple(tensor for term in terms for tensor in term.tensors)

    def scores(self, q: Tensor, rows: Tensor, columns: Tensor, *tensors: Tensor) -> Tensor:
        total, start = None, 0
        for term in self.terms:
            end = start + len(term.tensors)
            part = term.scores(q, rows, columns, *tensors[start:end])
            total, start = part if total is None else total + part, end
        return torch.zeros((), device=q.device) if total is None else total

    def check(self, q: Tensor, keys: int) -> None:
        for term in self.terms:
            term.check(q, keys)


def as_term(bias: "Tensor | Term | None") -> Term | None:
    return Written(bias) if isinstance(bias, Tensor) else bias
