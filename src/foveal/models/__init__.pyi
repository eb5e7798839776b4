# Written by `make stubs`.
from foveal.models import attention_unet as attention_unet
from foveal.models import backbone as backbone
from foveal.models import cells as cells
from foveal.models import convert as convert
from foveal.models import convert_card as convert_card
from foveal.models import convert_layout as convert_layout
from foveal.models import convert_maskformer as convert_maskformer
from foveal.models import convert_pvt as convert_pvt
from foveal.models import convert_swin as convert_swin
from foveal.models import convert_vision as convert_vision
from foveal.models import convert_vit as convert_vit
from foveal.models import efficientnet_lite as efficientnet_lite
from foveal.models import features as features
from foveal.models import first_queries as first_queries
from foveal.models import heads as heads
from foveal.models import icam as icam
from foveal.models import icam_seg as icam_seg
from foveal.models import image_model as image_model
from foveal.models import imagenet as imagenet
from foveal.models import map_backbone as map_backbone
from foveal.models import marian as marian
from foveal.models import masked_attention as masked_attention
from foveal.models import maskformer as maskformer
from foveal.models import mbconv as mbconv
from foveal.models import mobilenet as mobilenet
from foveal.models import patches as patches
from foveal.models import peer as peer
from foveal.models import pvt as pvt
from foveal.models import query_decoder as query_decoder
from foveal.models import segformer_peer as segformer_peer
from foveal.models import segmenter as segmenter
from foveal.models import segmenting as segmenting
from foveal.models import seq2seq as seq2seq
from foveal.models import sequence as sequence
from foveal.models import setr as setr
from foveal.models import shrink as shrink
from foveal.models import store as store
from foveal.models import swin as swin
from foveal.models import torch_engine as torch_engine
from foveal.models import transformer as transformer
from foveal.models import unet as unet
from foveal.models import vit as vit
from foveal.models import xie as xie
from foveal.models import zoo as zoo

__all__ = [
    "attention_unet",
    "backbone",
    "cells",
    "convert",
    "convert_card",
    "convert_layout",
    "convert_maskformer",
    "convert_pvt",
    "convert_swin",
    "convert_vision",
    "convert_vit",
    "efficientnet_lite",
    "features",
    "first_queries",
    "heads",
    "icam",
    "icam_seg",
    "image_model",
    "imagenet",
    "map_backbone",
    "marian",
    "masked_attention",
    "maskformer",
    "mbconv",
    "mobilenet",
    "patches",
    "peer",
    "pvt",
    "query_decoder",
    "segformer_peer",
    "segmenter",
    "segmenting",
    "seq2seq",
    "sequence",
    "setr",
    "shrink",
    "store",
    "swin",
    "torch_engine",
    "transformer",
    "unet",
    "vit",
    "xie",
    "zoo",
]
