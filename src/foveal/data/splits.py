"""What a data set is divided into. Alone in its file: options name the splits before anything of the data is loaded."""

SPLITS = ("train", "val", "test")
