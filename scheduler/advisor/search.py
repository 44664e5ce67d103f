"""All layouts of a pool's GPUs that divide, those that fit first.

Most layouts that people try never run (46 of 65 in a published series), so memory comes before
time. Everything is counted: how many were looked at, and why others were not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.kinds import Pool
from gpucommons.scheduler.advisor.layout import (
    FULL,
    NO_RECOMPUTE,
    OPERATORS,
    SHARE_MOMENTS,
    SHARE_NOTHING,
    SHARE_WEIGHTS,
    Layouts,
)
from gpucommons.scheduler.advisor.memory import Memory, memory
from gpucommons.scheduler.advisor.network import Traced, Transformer
from gpucommons.scheduler.advisor.recipe import Recipe
from gpucommons.scheduler.advisor.step import Step, step

#: Samples at once that are tried: powers of two, and three times those.
_MICRO = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)
#: Shorter sequences are not cut over GPUs.
_LONG = 16_384
_TENSOR = (1, 2, 4, 8)
_CONTEXT = (1, 2, 4, 8)
_VIRTUAL = (1, 2, 4)
#: Why a layout is none for this script.
CANNOT_SAY_IT = "cannot be said with its arguments"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ways:
    """What the script can do: a launcher that cannot cut layers must not be told to."""

    tensor: bool = False
    pipeline: bool = False
    context: bool = False
    sharded: bool = True
    recompute: bool = True
    offload: bool = False
    #: Which of these layouts its arguments can say; None: all of them.
    takes: Callable[[Layouts], NDArray[np.bool_]] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Layouts that fit, with their memory and time."""

    layouts: Layouts
    memory: Memory
    step: Step
    considered: int
    #: How many were not, by reason.
    pruned: dict[str, int]


def search(
    network: Transformer | Traced,
    recipe: Recipe,
    pool: Pool,
    known: Constants,
    ways: Ways,
) -> Found:
    """Everything that divides and fits."""
    every, undivided = candidates(network, recipe, pool, ways)
    layouts = every if ways.takes is None else every.take(ways.takes(every))
    needed = memory(network, recipe, layouts)
    fits = np.flatnonzero(needed.total <= pool.memory_bytes)
    chosen = layouts.take(fits)
    held = Memory({name: values[fits] for name, values in needed.terms.items()})
    pruned = {
        "does not divide": undivided,
        CANNOT_SAY_IT: len(every) - len(layouts),
        "does not fit": len(layouts) - len(fits),
    }
    timed = step(network, recipe, chosen, pool, known)
    return Found(chosen, held, timed, len(every) + undivided, pruned)


def sizes(pool: Pool) -> NDArray[np.int64]:
    """GPU counts that are tried: within one node all, beyond it whole nodes."""
    inside = np.arange(1, min(pool.gpus, pool.gpus_per_node) + 1)
    beyond = np.arange(2, pool.nodes + 1) * pool.gpus_per_node
    return np.concatenate([inside, beyond])


def candidates(
    network: Transformer | Traced, recipe: Recipe, pool: Pool, ways: Ways
) -> tuple[Layouts, int]:
    """Layouts whose degrees multiply to the GPUs and whose micro-batches add up to the batch.

    Returns them, and how many combinations were left out since they do not.
    """
    degrees = _degrees(network, recipe, pool, ways)
    gpus, tensor, pipeline, context, micro = (one.ravel() for one in np.meshgrid(*degrees))
    inner = tensor * pipeline * context
    data = gpus // inner
    divides = (data * inner == gpus) & (data >= 1)
    divides &= recipe.batch % np.maximum(data * micro, 1) == 0
    accumulation = recipe.batch // np.maximum(data * micro, 1)
    divides &= accumulation >= np.where(pipeline > 1, 2, 1)
    kept = np.flatnonzero(divides)
    base = {
        "data": data[kept],
        "tensor": tensor[kept],
        "pipeline": pipeline[kept],
        "context": context[kept],
        "micro": micro[kept],
        "accumulation": accumulation[kept],
    }
    return _varied(base, network, ways), len(divides) - len(kept)


def _degrees(
    network: Transformer | Traced, recipe: Recipe, pool: Pool, ways: Ways
) -> list[NDArray[np.int64]]:
    tensor, pipeline, context = [1], [1], [1]
    if isinstance(network, Transformer):
        if ways.tensor:
            tensor = [
                one
                for one in _TENSOR
                if one <= pool.gpus_per_node
                and network.kv_heads % one == 0
                and network.ffn % one == 0
            ]
        if ways.pipeline:
            most = min(network.layers, pool.gpus)
            pipeline = [one for one in range(1, most + 1) if network.layers % one == 0]
        if ways.context and recipe.sequence >= _LONG:
            context = [one for one in _CONTEXT if recipe.sequence % one == 0]
    micro = [one for one in _MICRO if one <= recipe.batch]
    return [
        np.array(one, dtype=np.int64) for one in (sizes(pool), tensor, pipeline, context, micro)
    ]


def _variants(network: Transformer | Traced, ways: Ways) -> NDArray[np.int64]:
    """Each way of sharing states, recomputing, interleaving and keeping states on the host."""
    shares = [SHARE_NOTHING, SHARE_MOMENTS, SHARE_WEIGHTS] if ways.sharded else [SHARE_NOTHING]
    again = [NO_RECOMPUTE]
    if ways.recompute and isinstance(network, Transformer):
        again = [NO_RECOMPUTE, OPERATORS, FULL]
    parts = _VIRTUAL if ways.pipeline else (1,)
    away = (0, 1) if ways.offload else (0,)
    return np.array(list(product(shares, again, parts, away)))


def _varied(
    base: dict[str, NDArray[np.int64]], network: Transformer | Traced, ways: Ways
) -> Layouts:
    """Each layout with every way of sharing states, recomputing and interleaving."""
    count, variants = len(base["data"]), _variants(network, ways)
    every = {name: np.repeat(values, len(variants)) for name, values in base.items()}
    zero, recompute, virtual, offload = np.tile(variants, (count, 1)).T
    layers = network.layers if isinstance(network, Transformer) else 1
    alone = every["data"] * every["context"] == 1
    sensible = (zero == SHARE_NOTHING) | ~alone | ((offload == 1) & (zero == SHARE_WEIGHTS))
    sensible &= (offload == 0) | (zero == SHARE_WEIGHTS)
    stage = np.maximum(layers // every["pipeline"], 1)
    sensible &= (virtual == 1) | ((every["pipeline"] > 1) & (stage % virtual == 0))
    columns: dict[str, NDArray[Any]] = {
        **every,
        "zero": zero,
        "recompute": recompute,
        "virtual": virtual,
        "offload": offload,
        "sequence_parallel": (every["tensor"] > 1).astype(np.int64),
        "async_tensor": np.zeros(len(zero)),
        "expert": np.ones(len(zero)),
        "weighed": np.zeros(len(zero)),
    }
    kept = np.flatnonzero(sensible)
    return Layouts(
        **{
            one.name: np.asarray(columns[one.name], dtype=np.float64)[kept]
            for one in fields(Layouts)
        }
    )
