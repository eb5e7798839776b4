"""What it takes to ship a model, and to know what it costs: clock, memory, origin of a figure."""
