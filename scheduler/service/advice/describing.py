"""From the numbers of a request to the advisor's own words."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.network import Network, Traced, Transformer, Unknown
from gpucommons.scheduler.advisor.recipe import Adapters, Recipe

#: Of the feed-forward part, where nothing is said.
_USUAL_FFN = 4


def network_of(given: models.NetworkModel) -> Network:
    """What is trained."""
    match given:
        case models.TransformerModel():
            numbers = given.model_dump(exclude={"kind", "kv_heads", "ffn"})
            return Transformer(
                **numbers,
                kv_heads=given.kv_heads or given.heads,
                ffn=given.ffn or _USUAL_FFN * given.hidden,
            )
        case models.TracedModel():
            return Traced(**given.model_dump(exclude={"kind"}))
        case models.UnknownModel():
            return Unknown(why=given.why, tried=bool(given.like))


def recipe_of(request: models.AdviceRequest) -> Recipe:
    """How it is trained."""
    return Recipe(
        batch=request.batch,
        sequence=request.sequence,
        precision=request.precision,
        optimizer=request.optimizer,
        adapters=Adapters(request.adapters),
        rank=request.rank,
        flash=request.flash,
        bytes_per_sample=request.bytes_per_sample,
    )
