"""A non-local block of one sample: every place looks at all places, in four forms."""

import math

from oracle.multihead import linear, pair


def non_local(tokens, keys, form, theta, phi, joint, g):
    """tokens (N, C), keys (M, C); theta, phi and g are pairs (weight, bias), joint w_f → y (N, hidden)."""
    values = [linear(key, *g) for key in keys]
    result = []
    for token in tokens:
        if form == "gaussian":
            scores = [math.exp(sum(a * b for a, b in zip(token, key, strict=True))) for key in keys]
        else:
            query, others = linear(token, *theta), [linear(key, *phi) for key in keys]
            if form == "concatenation":
                both = [sum(w * a for w, a in zip(joint, query + other, strict=True)) for other in others]
                scores = [max(0.0, number) for number in both]
            else:
                scores = [sum(a * b for a, b in zip(query, other, strict=True)) for other in others]
                scores = [math.exp(number) for number in scores] if form == "embedded_gaussian" else scores
        total = sum(scores) if form in ("gaussian", "embedded_gaussian") else len(keys)
        result.append(
            [
                sum(score * value[e] for score, value in zip(scores, values, strict=True)) / total
                for e in range(len(values[0]))
            ]
        )
    return result


def flat(frames):
    """T maps (C, h, w) → T·h·w tokens of C numbers."""
    return [
        [channel[y][x] for channel in maps]
        for maps in frames
        for y in range(len(maps[0]))
        for x in range(len(maps[0][0]))
    ]


def pooled(maps, side):
    """The largest number of every square of a map (C, h, w); squares at the border may be smaller."""
    h, w = len(maps[0]), len(maps[0][0])
    return [
        [
            [
                max(channel[y][x] for y in range(top, min(top + side, h)) for x in range(left, min(left + side, w)))
                for left in range(0, w, side)
            ]
            for top in range(0, h, side)
        ]
        for channel in maps
    ]


def changed(frames, form, weights, out, side):
    """W_z y of T maps (C, h, w): C lists of T·h·w numbers."""
    y = non_local(flat(frames), flat([pooled(maps, side) for maps in frames]), form, *weights)
    return [list(column) for column in zip(*[linear(token, *out) for token in y], strict=True)]


def group_norm(channels, groups, gain, offset, epsilon=1e-5):
    """channels (C, N): each group of channels together has mean 0 and variance 1."""
    size, result = len(channels) // groups, []
    for c, channel in enumerate(channels):
        group = [number for other in channels[c // size * size : c // size * size + size] for number in other]
        mean = sum(group) / len(group)
        deviation = math.sqrt(sum((number - mean) ** 2 for number in group) / len(group) + epsilon)
        result.append([(number - mean) / deviation * gain[c] + offset[c] for number in channel])
    return result


def parts(module):
    """The form's name, and its weights with g."""
    form = type(module.form).__name__
    name = {"Gaussian": "gaussian", "DotProduct": "dot_product", "Concatenation": "concatenation"}.get(
        form, "embedded_gaussian"
    )
    pairs = (None, None) if name == "gaussian" else (pair(module.form.query), pair(module.form.key))
    joint = module.form.joint.tolist() if name == "concatenation" else None
    return name, (*pairs, joint, pair(module.value))


def added(frames, change):
    """Frames of maps (T, C, h, w), and C lists of T·h·w numbers."""
    h, w = len(frames[0][0]), len(frames[0][0][0])
    return [
        [
            [[cell + change[c][(t * h + y) * w + x] for x, cell in enumerate(row)] for y, row in enumerate(channel)]
            for c, channel in enumerate(maps)
        ]
        for t, maps in enumerate(frames)
    ]


def like(module, maps):
    """Maps (B, C, h, w) or a video (B, T, C, h, w), with GroupNorm, or a norm that does nothing."""
    name, weights = parts(module)
    result = []
    for sample in maps.tolist():
        frames = sample if maps.dim() == 5 else [sample]
        change = changed(frames, name, weights, pair(module.out), module.pool)
        if hasattr(module.norm, "num_groups"):
            change = group_norm(change, module.norm.num_groups, *pair(module.norm))
        z = added(frames, change)
        result.append(z if maps.dim() == 5 else z[0])
    return result
