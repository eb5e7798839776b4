"""Linear interpolation of a learned table, in loops."""

import math

from oracle.position import added


def learned(table, length):
    """table: L lists of C numbers → `length` lists: new place i is read at (i + ½)·L/length − ½,
    held inside the table.
    """
    rows, stretched = len(table), []
    for i in range(length):
        at = (i + 0.5) * rows / length - 0.5
        at = min(max(at, 0.0), rows - 1.0)
        low = math.floor(at)
        high = min(low + 1, rows - 1)
        part = at - low
        stretched.append([(1 - part) * a + part * b for a, b in zip(table[low], table[high], strict=True)])
    return stretched


def like(module, x):
    """Tokens no fewer than the table's rows, to which it is stretched."""
    samples = x.tolist()
    places = learned(module.table.tolist(), len(samples[0]))
    return [added(sample, places) for sample in samples]
