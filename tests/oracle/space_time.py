"""Divided space-time attention of one sample: along time for each place, along space for each frame, then a network."""

from oracle.encoder import wrapped
from oracle.feed_forward import feed_forward
from oracle.multihead import multihead, pair, parts
from oracle.temporal import by_place


def space_time(video, time, space, network, norms, heads, keeps=None):
    """video (T, C, h, w); time and space are (q, k, v, out), network is (inner, outer) or None; norms are pairs.

    heads: those of time and of space; keeps(t, s): frame t may look at frame s. → (T, C, h, w).
    """

    def looked(tokens, layer, count, seen=None):
        return multihead(tokens, tokens, *layer, count, count, seen)

    video = by_place(
        video, lambda frames: wrapped(frames, lambda x: looked(x, time, heads[0], keeps), norms[0], pre=True)
    )
    result = []
    for frame in video:
        h, w = len(frame[0]), len(frame[0][0])
        tokens = [[channel[y][x] for channel in frame] for y in range(h) for x in range(w)]
        tokens = wrapped(tokens, lambda x: looked(x, space, heads[1]), norms[1], pre=True)
        if network is not None:
            tokens = wrapped(tokens, lambda x: [feed_forward(token, *network) for token in x], norms[2], pre=True)
        result.append([[[tokens[y * w + x][c] for x in range(w)] for y in range(h)] for c in range(len(frame))])
    return result


def like(module, video, keeps=None):
    wrappers = [module.time, module.space] + ([] if module.feed_forward is None else [module.feed_forward])
    network = None
    if module.feed_forward is not None:
        network = pair(module.feed_forward.layer.inner), pair(module.feed_forward.layer.outer)
    time, space, heads = module.time.layer, module.space.layer, (module.time.layer.heads, module.space.layer.heads)
    norms = [pair(wrapper.norm) for wrapper in wrappers]
    return [space_time(sample, parts(time), parts(space), network, norms, heads, keeps) for sample in video.tolist()]
