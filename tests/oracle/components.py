"""Connected components by flooding, one pixel at a time."""

SIDES = ((-1, 0), (0, -1), (0, 1), (1, 0))
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def components(rows, neighbours, nothing):
    """Lists of pixels (y, x), each with its value first, in the order of their first pixels."""
    steps = SIDES if neighbours == 4 else SIDES + CORNERS
    seen, found = set(), []
    for y, row in enumerate(rows):
        for x, value in enumerate(row):
            if value in nothing or (y, x) in seen:
                continue
            todo, pixels = [(y, x)], []
            seen.add((y, x))
            while todo:
                a, b = todo.pop()
                pixels.append((a, b))
                for down, along in steps:
                    c, d = a + down, b + along
                    inside = 0 <= c < len(rows) and 0 <= d < len(row)
                    if inside and (c, d) not in seen and rows[c][d] == value:
                        seen.add((c, d))
                        todo.append((c, d))
            found.append((value, sorted(pixels)))
    return found
