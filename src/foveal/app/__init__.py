"""The command line: what a person types.

Every command is a module with `add_arguments(parser)` and `run(args) -> int`.
"""
