"""Attention with masks, and a look inside: `python examples/attention.py`."""

import torch

import foveal
from foveal.mask import causal, local, to_global

torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 4, 512, 32)  # (B, H, N, D) each

# Masks are predicates: True = may look. A sentence of them is one mask.
mask = (causal & local(32)) | to_global(1)
print(f"{mask.pairs(512, 512):,} of {512 * 512:,} pairs")
print(str(foveal.which(q, k, v, mask=mask)).splitlines()[0])

# Any kernel says the same; the fastest exact one is chosen by itself.
fast, explicit = foveal.attend(q, k, v, mask=mask), foveal.attend(q, k, v, mask=mask, kernel="explicit")
print(f"largest difference {float((fast - explicit).abs().max()):.1e}")

# Layers take parts: a position, a mask. watch sees their weights, and those of models that foveal did not write.
layer = foveal.layers.MultiHead(64, heads=4, position=foveal.position.Rotary(), mask=causal)
theirs = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4, batch_first=True), 2).eval()
x = torch.randn(1, 10, 64)
for model in (layer, theirs):
    with foveal.watch(model) as seen:
        model(x)
    for name, record in seen.items():
        print(f"{name}: weights {tuple(record.weights.shape)}, mean entropy {float(record.entropy.mean()):.2f}")
