"""Settings of the whole run: two cores, so one thread a worker; hypothesis takes its time on a busy machine."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("foveal", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("foveal")
