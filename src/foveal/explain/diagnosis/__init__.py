"""The parts of `foveal check`: how a module is called, what is measured on it,
and one file for each of the seven mistakes.
"""
