# Written by `make stubs`.
from foveal.layers.absorbed import Absorbed as Absorbed
from foveal.layers.adaptive_span import AdaptiveSpan as AdaptiveSpan
from foveal.layers.additive import Additive as Additive
from foveal.layers.attention import Attention as Attention
from foveal.layers.cache import Cache as Cache
from foveal.layers.cache import Memory as Memory
from foveal.layers.content import Content as Content
from foveal.layers.context import Context as Context
from foveal.layers.decoder import Decoder as Decoder
from foveal.layers.dynamic_convolution import DynamicConvolution as DynamicConvolution
from foveal.layers.encoder import Encoder as Encoder
from foveal.layers.feed_forward import FeedForward as FeedForward
from foveal.layers.gated import Gated as Gated
from foveal.layers.linformer import Linformer as Linformer
from foveal.layers.location import Location as Location
from foveal.layers.location_aware import LocationAware as LocationAware
from foveal.layers.multihead import MultiHead as MultiHead
from foveal.layers.performer import Performer as Performer
from foveal.layers.reduced import Reduced as Reduced
from foveal.layers.residual import Plain as Plain
from foveal.layers.residual import PlainPostNorm as PlainPostNorm
from foveal.layers.residual import PlainPreNorm as PlainPreNorm
from foveal.layers.residual import PostNorm as PostNorm
from foveal.layers.residual import PreNorm as PreNorm
from foveal.layers.residual import Residual as Residual
from foveal.layers.two_way import TwoWay as TwoWay
from foveal.layers.windowed import Windowed as Windowed

__all__ = [
    "Absorbed",
    "AdaptiveSpan",
    "Additive",
    "Attention",
    "Cache",
    "Content",
    "Context",
    "Decoder",
    "DynamicConvolution",
    "Encoder",
    "FeedForward",
    "Gated",
    "Linformer",
    "Location",
    "LocationAware",
    "Memory",
    "MultiHead",
    "Performer",
    "Plain",
    "PlainPostNorm",
    "PlainPreNorm",
    "PostNorm",
    "PreNorm",
    "Reduced",
    "Residual",
    "TwoWay",
    "Windowed",
]
