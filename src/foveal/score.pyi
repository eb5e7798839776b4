# Written by `make stubs`.
from foveal.core.score.additive import additive as additive
from foveal.core.score.content import content as content
from foveal.core.score.context import context as context
from foveal.core.score.cosine import cosine as cosine
from foveal.core.score.dot import dot as dot
from foveal.core.score.location import location as location
from foveal.core.score.location_aware import location_aware as location_aware
