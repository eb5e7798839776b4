"""T5's buckets, as its formula is written."""

import math


def buckets(offset, count, max_distance, both_ways):
    """The bucket of a key at `offset` = j − i from its query, of `count` buckets."""
    first = 0
    if both_ways:
        count //= 2
        first = count if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    own = count // 2
    if distance < own:
        return first + distance
    # 1e-9: a distance on the limit between two buckets belongs to the upper one, and a logarithm is not exact.
    far = math.floor(math.log(distance / own) / math.log(max_distance / own) * (count - own) + 1e-9)
    return first + min(own + far, count - 1)


def like(module, q, keys):
    """The term of as many queries and keys, for all samples at once: (1, H, N, M)."""
    table, sizes = module.table.tolist(), (module.buckets, module.max_distance, type(module).__name__ == "Buckets")
    queries, heads = range(len(q.tolist()[0][0])), range(len(table[0]))
    return [[[[table[buckets(j - i, *sizes)][head] for j in range(keys)] for i in queries] for head in heads]]
