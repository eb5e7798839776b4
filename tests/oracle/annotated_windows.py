"""Windows of annotated images: their side, and what they show, in plain loops."""


def side(lengths: list, shortest: int) -> int:
    """lengths: the longer sides of the findings; shortest: the shortest side of an image."""
    ordered = sorted(lengths)
    count = len(ordered)
    median = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    best = 0
    for multiple in range(0, 4096, 16):  # the larger one of two that are equally near
        if abs(multiple - 2 * median) <= abs(best - 2 * median):
            best = multiple
    while 10 * sum(length <= best for length in lengths) < 9 * count:
        best += 16
    while best > shortest:
        best -= 16
    return max(32, best)


def area(x0: float, y0: float, x1: float, y1: float) -> float:
    return (x1 - x0) * (y1 - y0) if x1 > x0 and y1 > y0 else 0.0


def shown(labelled: list, x: int, y: int, side: int) -> set | None:
    """labelled: (label, (x0, y0, x1, y1)) of each finding → the labels of a window, None of one that is left out."""
    labels = set()
    for label, (x0, y0, x1, y1) in labelled:
        inside = area(max(x0, x), max(y0, y), min(x1, x + side), min(y1, y + side))
        if inside >= 0.7 * area(x0, y0, x1, y1):
            labels.add(label)
        elif inside >= 0.15 * area(x0, y0, x1, y1) or inside >= 0.15 * side * side:
            return None
    return labels
