"""The masks, one file each: the file's name is the mask's name, and `foveal.mask` finds it by that."""
