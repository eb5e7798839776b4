"""What a model costs: operations, time, memory, and the origin of a figure."""
