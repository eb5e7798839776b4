# Written by `make stubs`.
from foveal.core.mask import Mask as Mask
from foveal.core.pattern.bigbird import bigbird as bigbird
from foveal.core.pattern.causal import causal as causal
from foveal.core.pattern.local import local as local
from foveal.core.pattern.longformer import longformer as longformer
from foveal.core.pattern.padding import padding as padding
from foveal.core.pattern.prefix import prefix as prefix
from foveal.core.pattern.random import random as random
from foveal.core.pattern.strided import strided as strided
from foveal.core.pattern.to_global import to_global as to_global
from foveal.core.pattern.window import window as window
