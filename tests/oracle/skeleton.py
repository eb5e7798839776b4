"""Guo and Hall's thinning, pixel by pixel, of one binary mask."""

AROUND = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))  # clockwise from the one above


def skeleton(rows):
    """Lists of 0 and 1 → the same."""
    rows = [list(row) for row in rows]
    turn = idle = 0
    while idle < 2:
        gone = [(y, x) for y, row in enumerate(rows) for x, value in enumerate(row) if value and goes(rows, y, x, turn)]
        for y, x in gone:
            rows[y][x] = 0
        turn, idle = 1 - turn, 0 if gone else idle + 1
    return rows


def goes(rows, y, x, turn):
    n = [0, 0]  # so that the neighbours have the paper's numbers, 2 to 9
    for down, along in AROUND:
        a, b = y + down, x + along
        n.append(1 if 0 <= a < len(rows) and 0 <= b < len(rows[0]) and rows[a][b] else 0)
    parts = sum(
        1 for side, one, other in ((2, 3, 4), (4, 5, 6), (6, 7, 8), (8, 9, 2)) if not n[side] and (n[one] or n[other])
    )
    first = sum(1 for one, other in ((9, 2), (3, 4), (5, 6), (7, 8)) if n[one] or n[other])
    second = sum(1 for one, other in ((2, 3), (4, 5), (6, 7), (8, 9)) if n[one] or n[other])
    if turn == 0:
        blocked = (n[2] or n[3] or not n[5]) and n[4]
    else:
        blocked = (n[6] or n[7] or not n[9]) and n[8]
    return parts == 1 and 2 <= min(first, second) <= 3 and not blocked
