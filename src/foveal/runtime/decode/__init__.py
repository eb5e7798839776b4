"""Decoding: from what a model says of the next word to whole sentences. numpy only, so that training and a runtime without torch search alike."""
