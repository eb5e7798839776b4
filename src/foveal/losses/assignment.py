"""The assignment problem: each row gets a column of its own, so that the costs together are least.

    argmin Σ_i cost[i, column(i)],   column(i) ≠ column(j) for i ≠ j

Row after row is added by a shortest path: the new row takes a column, whose row takes another, and so on to one that is
free. With prices u of rows and v of columns, for which cost[i, j] ≥ u_i + v_j everywhere and equality holds for what is
assigned, every step of the path costs 0 or more, so Dijkstra's search finds it.

SciPy has this as linear_sum_assignment; nothing that foveal installs brings SciPy, and it would be much for a problem
of some sixteen rows, which takes less than a millisecond here.

Paper: Harold W. Kuhn (1955). The Hungarian method for the assignment problem. Naval Research Logistics Quarterly.
    doi:10.1002/nav.3800020109.
Paper: Roy Jonker, Anton Volgenant (1987). A shortest augmenting path algorithm for dense and sparse linear assignment
    problems. Computing. doi:10.1007/BF02278710.
Departs from the papers: no column reduction comes first.
Cost: O(n²·m) time for n ≤ m, as n² operations on arrays.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect

Indices = NDArray[np.int64]


def assign(cost: NDArray[np.floating]) -> tuple[Indices, Indices]:
    """(n, m) → rows and columns of the min(n, m) pairs, by row. A cost that is no number is avoided where it can be."""
    expect(cost.ndim == 2, "costs", "(n, m)", cost.shape)
    finite = np.isfinite(cost)
    # dearer than all others together
    limit = (2 * min(cost.shape) + 1) * np.abs(cost, where=finite, out=np.zeros(cost.shape)).max(initial=1.0)
    sound = np.where(finite, cost, limit).astype(np.float64)
    if cost.shape[0] <= cost.shape[1]:
        return np.arange(len(cost)), _columns(sound)
    rows = _columns(sound.T)
    return np.sort(rows), np.argsort(rows)


def _columns(cost: NDArray[np.float64]) -> Indices:
    """(n, m) with n ≤ m → the column of each row, (n,)."""
    rows, columns = cost.shape
    column_of, row_of = np.full(rows, -1), np.full(columns, -1)
    row_price, price = np.zeros(rows), np.zeros(columns)
    for new in range(rows):
        far, before, seen = np.full(columns, np.inf), np.full(columns, -1), np.zeros(columns, bool)
        row, length = new, 0.0
        while row >= 0:  # until a column is free
            step = length + cost[row] - row_price[row] - price
            nearer = ~seen & (step < far)
            far[nearer], before[nearer] = step[nearer], row
            column = int(np.where(seen, np.inf, far).argmin())
            length, row, seen[column] = float(far[column]), int(row_of[column]), True
        held = seen & (row_of >= 0)
        row_price[new] += length
        row_price[row_of[held]] += length - far[held]
        price[seen] -= length - far[seen]
        while row != new:  # back along the path: each row takes the column that was found from it
            row = int(before[column])
            row_of[column], column_of[row], column = row, column, int(column_of[row])
    return column_of
