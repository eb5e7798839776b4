"""A finding pasted into a window, pixel by pixel."""


def put(image, labels, finding, mask, free, value, top, left):
    """image, finding: [channel][row][column]; changes image and labels."""
    side, height, width = len(labels), len(mask), len(mask[0])
    inside = [
        (row, column)
        for row in range(height)
        for column in range(width)
        if 0 <= top + row < side and 0 <= left + column < side
    ]
    marked = [place for place in inside if mask[place[0]][place[1]]]
    far = {place: min(max(abs(place[0] - row), abs(place[1] - column)) for row, column in marked) for place in inside}
    ring = [place for place in inside if 3 <= far[place] <= 6]
    of = [(row, column) for row, column in ring if free[row][column]] or inside
    to = [(row, column) for row, column in ring if labels[top + row][left + column] == 0] or inside
    for channel, pixels in enumerate(image):
        there = sum(pixels[top + row][left + column] for row, column in to) / len(to)
        moved = there - sum(finding[channel][row][column] for row, column in of) / len(of)
        for row, column in inside:
            if mask[row][column] or free[row][column]:
                alpha = max(0.0, 1 - far[row, column] / 3)
                bright = min(max(finding[channel][row][column] + moved, 0.0), 1.0)
                before = pixels[top + row][left + column]
                pixels[top + row][left + column] = (1 - alpha) * before + alpha * bright
    for row, column in marked:
        labels[top + row][left + column] = value
