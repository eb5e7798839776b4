"""Tasks: one folder each, found by its folder. task.py is the protocol between them and the stages."""
