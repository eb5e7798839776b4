"""A cache that copies: every step joins the past and the new tokens into one list."""


def cache(steps):
    """steps: a list of (tokens, …) lists, each of which is what one step appends → for each step,
    all there is after it.
    """
    filled, seen = [], []
    for tokens in steps:
        filled = filled + tokens
        seen.append(filled)
    return seen
