"""Attention along time, every place by itself."""

from oracle.multihead import multihead, parts


def temporal(video, q, k, v, out, heads, places=None, keeps=None):
    """video (T, C, h, w); places (T, C) are added to the frames; keeps(t, s): frame t may look at s → (T, C, h, w)."""
    return by_place(video, lambda frames: multihead(*[added(frames, places)] * 2, q, k, v, out, heads, heads, keeps))


def added(frames, places):
    if places is None:
        return frames
    return [[a + b for a, b in zip(frame, place, strict=True)] for frame, place in zip(frames, places, strict=True)]


def by_place(video, layer):
    """The layer, T tokens of C numbers → the same, on each place of all frames."""
    frames, width, h, w = len(video), len(video[0]), len(video[0][0]), len(video[0][0][0])
    result = [[[[None] * w for _ in range(h)] for _ in range(width)] for _ in range(frames)]
    for y in range(h):
        for x in range(w):
            tokens = layer([[video[t][c][y][x] for c in range(width)] for t in range(frames)])
            for t in range(frames):
                for c in range(width):
                    result[t][c][y][x] = tokens[t][c]
    return result


def like(module, video):
    """The layer of the example, which has no position."""
    return [temporal(sample, *parts(module.attention), module.attention.heads) for sample in video.tolist()]
