"""From the numbers of a request to the advisor's own words."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice.script_arguments import MEGATRON, OWN_ARGUMENTS
from gpucommons.scheduler.advisor.network import Network, Traced, Transformer, Unknown
from gpucommons.scheduler.advisor.recipe import Adapters, Recipe
from gpucommons.scheduler.advisor.search import Ways

#: Of the feed-forward part, where nothing is said.
_USUAL_FFN = 4
_OF_MEGATRON = frozenset({"amp", "bf16"})


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


def ways_of(request: models.AdviceRequest) -> Ways:
    """What its script can do."""
    own = OWN_ARGUMENTS.get(request.framework)
    if own is not None:
        return own.ways(sharded=request.sharded, recompute=request.recompute)
    is_torch = request.framework == "torch"
    return Ways(sharded=request.sharded and is_torch, recompute=request.recompute and is_torch)


def _precision(request: models.AdviceRequest) -> str:
    """Megatron-LM means 16-bit weights with 32-bit gradients and master weights by it."""
    if request.framework == MEGATRON and request.precision in _OF_MEGATRON:
        return "megatron"
    return request.precision


def recipe_of(request: models.AdviceRequest) -> Recipe:
    """How it is trained."""
    return Recipe(
        batch=request.batch,
        sequence=request.sequence,
        precision=_precision(request),
        optimizer=request.optimizer,
        adapters=Adapters(request.adapters),
        rank=request.rank,
        flash=request.flash,
        bytes_per_sample=request.bytes_per_sample,
    )
