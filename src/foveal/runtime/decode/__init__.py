"""Decoding: from a model's probabilities of the next token to whole sentences. numpy only,
so that training and a runtime without torch search alike.
"""
