"""Mathematics: pure functions of tensors.

The weighted sum softmax(scores)·V is written in `attend` and nowhere else.
"""
