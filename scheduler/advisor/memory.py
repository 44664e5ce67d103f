"""Memory of the fullest GPU of a layout, term by term.

Sources: activations of a layer and of pipeline stages: Korthikanti et al. 2022 (arXiv 2205.05198,
sections 4 and 5); states by sharing: Rajbhandari et al. 2020 (arXiv 1910.02054); logits, which most
accounts forget: see `recipe.LOSSES`. A layer that is worked on and the loss head never live at the
same time, so the larger counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpucommons.scheduler.advisor.kinds import GIB, Pool
from gpucommons.scheduler.advisor.layout import (
    ATTENTION,
    FULL,
    OPERATORS,
    SHARE_GRADIENTS,
    SHARE_MOMENTS,
    SHARE_WEIGHTS,
    Layouts,
    Numbers,
)
from gpucommons.scheduler.advisor.network import Traced, Transformer
from gpucommons.scheduler.advisor.recipe import LOSSES, Adapters, Recipe

#: What a process has on the device before its first tensor, and what communication adds.
_CONTEXT_BYTES = 0.6 * GIB
_COMMUNICATION_BYTES = 0.8 * GIB
#: What the allocator reserves beyond what it hands out.
_ALLOCATOR = 0.02
#: Whole copies of a layer's input and of gradients that tensor ranks gather and reduce.
_TENSOR_COPIES, _TENSOR_COPIES_ASYNC = 8, 6
_HALF = 2.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes per term; each an array over layouts."""

    terms: dict[str, Numbers]

    @property
    def total(self) -> Numbers:
        """Bytes of the fullest GPU."""
        return np.asarray(np.sum(list(self.terms.values()), axis=0))

    def largest(self, index: int, most: int = 4) -> list[tuple[str, float]]:
        """The largest terms of one layout, largest first."""
        sizes = [(name, float(values[index])) for name, values in self.terms.items()]
        return sorted(sizes, key=lambda one: -one[1])[:most]


def memory(network: Transformer | Traced, recipe: Recipe, layouts: Layouts) -> Memory:
    """What each layout needs on its fullest GPU."""
    if isinstance(network, Traced):
        terms = _of_traced(network, recipe, layouts)
    else:
        terms = states(network, recipe, layouts) | _in_motion(network, recipe, layouts)
    terms["allocator"] = _ALLOCATOR * Memory(terms).total
    terms["context"] = np.where(
        layouts.gpus > 1, _CONTEXT_BYTES + _COMMUNICATION_BYTES, _CONTEXT_BYTES
    )
    return Memory(terms)


def states(network: Transformer, recipe: Recipe, layouts: Layouts) -> dict[str, Numbers]:
    """Weights, gradients and moments that a rank keeps."""
    inner = _of_layers(network, layouts)
    outer = _outside(network, layouts)
    shards = layouts.sharding
    if recipe.adapters is not Adapters.NONE:
        stored = (recipe.frozen_bytes * inner + _HALF * outer) / np.where(
            layouts.zero == SHARE_WEIGHTS, shards, 1
        )
        ranks = layouts.tensor * layouts.pipeline
        trained: Numbers = np.asarray(recipe.trained_parameters(network) / ranks)
        kept = _shared(recipe, trained, layouts)
        return {
            "weights": np.where(layouts.offload > 0, 0, stored),
            "adapters": np.where(layouts.offload > 0, 0, np.sum(list(kept.values()), axis=0)),
        }
    kept = _shared(recipe, inner + outer, layouts)
    return {name: np.where(layouts.offload > 0, 0, values) for name, values in kept.items()}


def _of_layers(network: Transformer, layouts: Layouts) -> Numbers:
    """Weights of layers on one rank before data ranks share them."""
    experts = network.experts * network.feed_forward_parameters if network.experts > 1 else 0.0
    dense = network.layer_parameters - experts
    layer = dense + experts / layouts.expert
    return np.asarray(network.layers * layer / (layouts.tensor * layouts.pipeline))


def _outside(network: Transformer, layouts: Layouts) -> Numbers:
    """Embedding, positions and logits: with a pipeline, one of both ends."""
    both = network.embedding_parameters
    end = network.head_parameters + network.positions * network.hidden
    return np.where(layouts.pipeline > 1, end, both) / layouts.tensor


def _shared(recipe: Recipe, parameters: Numbers, layouts: Layouts) -> dict[str, Numbers]:
    """States by ZeRO's stages."""
    formats, shards = recipe.formats, layouts.sharding
    gradients = 0.0 if recipe.step_in_backward else formats.gradients
    return {
        "weights": parameters
        * formats.weights
        / np.where(layouts.zero == SHARE_WEIGHTS, shards, 1),
        "gradients": parameters * gradients / np.where(layouts.zero >= SHARE_GRADIENTS, shards, 1),
        "optimizer": parameters
        * formats.optimizer
        / np.where(layouts.zero >= SHARE_MOMENTS, shards, 1),
    }


def activation_bytes(network: Transformer, recipe: Recipe, layouts: Layouts) -> dict[str, Numbers]:
    """Bytes that one layer keeps of one token and hidden unit, by how much is done again."""
    kv, width = network.kv_share, network.ffn / network.hidden * network.experts_used
    whole = 8.0 + (2.0 if network.dropout else 0.0)
    heads = network.attention_width / network.hidden
    queries = heads * (2 * (1 + 2 * kv) + (2 * (1 + kv) if network.gated else 0))
    middle = 2 * width * (4 if network.gated else 2)
    if recipe.adapters is not Adapters.NONE:
        # Inputs of products with frozen weights are not kept (LoRA): two of projections, one
        # behind the norm, one of the feed-forward part.
        whole, queries, middle = whole - 2, queries - 2, middle - 2 * width
    cut = np.where(layouts.sequence_parallel > 0, layouts.tensor, 1)
    scores: Numbers = np.zeros(len(layouts))
    if not recipe.flash:
        scores = 5 * network.heads * recipe.sequence / network.hidden / layouts.tensor
    wide = 2 if recipe.precision in ("fp32", "tf32") else 1
    whole, queries, middle, scores = wide * whole, wide * queries, wide * middle, wide * scores
    inner = (queries + 2 * heads + middle) / layouts.tensor + whole / cut
    products = heads * 2 * (1 + 2 * kv) + 2 + 2 * width * (2 if network.gated else 1) + 2
    some = (2 + 2 + products / 2) / np.where(layouts.sequence_parallel > 0, layouts.tensor, 1)
    return {"all": inner + scores, "but_scores": inner, "some": some, "input": 2 / cut}


def _kept_per_layer(kept: dict[str, Numbers], layouts: Layouts) -> Numbers:
    done_again = layouts.recompute
    return np.select(
        [done_again == FULL, done_again == OPERATORS, done_again == ATTENTION],
        [kept["input"], kept["some"], kept["but_scores"]],
        kept["all"],
    )


def tokens(recipe: Recipe, layouts: Layouts) -> Numbers:
    """Tokens that a rank works on at once."""
    return layouts.micro * recipe.sequence / layouts.context


def kept_activations(network: Transformer, recipe: Recipe, layouts: Layouts) -> Numbers:
    """Activations of all layers of the first pipeline stage, whose micro-batches are in flight."""
    layer = _kept_per_layer(activation_bytes(network, recipe, layouts), layouts)
    interleaved = 1 + (layouts.pipeline - 1) / (layouts.pipeline * layouts.virtual)
    flight = np.minimum(layouts.accumulation, layouts.pipeline)
    flight = flight * np.where(layouts.virtual > 1, interleaved, 1)
    flight = np.where(layouts.pipeline > 1, flight, 1)
    units = tokens(recipe, layouts) * network.hidden
    return layer * units * network.layers / layouts.pipeline * flight


def _in_motion(network: Transformer, recipe: Recipe, layouts: Layouts) -> dict[str, Numbers]:
    """What comes and goes within a step."""
    count = tokens(recipe, layouts)
    per = activation_bytes(network, recipe, layouts)
    all_kept = kept_activations(network, recipe, layouts)
    logits = count * network.vocabulary / layouts.tensor
    logit_bytes = LOSSES[recipe.loss] - (2 if recipe.precision in ("fp32", "tf32") else 0)
    head = logits * logit_bytes / recipe.loss_pieces + _head_weights(network, recipe, layouts)
    layer = (per["all"] - _kept_per_layer(per, layouts)) * count * network.hidden
    layer = layer + _layer_gradients(network, recipe, layouts)
    # The last stage makes the logits while it holds one micro-batch, the first none and all.
    flight = np.maximum(
        1, np.where(layouts.pipeline > 1, np.minimum(layouts.accumulation, layouts.pipeline), 1)
    )
    last_head = head - all_kept * (1 - 1 / flight)
    return {
        "activations": all_kept,
        "loss head": np.where(last_head >= layer, np.maximum(last_head, 0), 0),
        "layer at work": np.where(last_head >= layer, 0, layer),
        "gathered activations": _gathered_by_tensor(network, count, layouts),
        "gathered weights": _gathered_by_data(network, recipe, layouts),
    }


def _head_weights(network: Transformer, recipe: Recipe, layouts: Layouts) -> Numbers:
    """Weights of the logits where they are gathered, and their gradient where it is made apart."""
    learned = recipe.adapters is Adapters.NONE
    weights = np.where(layouts.zero == SHARE_WEIGHTS, _HALF, 0)
    apart = (layouts.zero == SHARE_WEIGHTS) | recipe.step_in_backward
    gradient = np.where(apart & learned, _HALF, 0)
    return network.head_parameters * (weights + gradient) / layouts.tensor


def _layer_gradients(network: Transformer, recipe: Recipe, layouts: Layouts) -> Numbers:
    if recipe.adapters is Adapters.QLORA:  # one matrix at a time is made whole again
        return _HALF * network.hidden * network.ffn / layouts.tensor
    apart = (layouts.zero == SHARE_WEIGHTS) | recipe.step_in_backward
    learned = recipe.adapters is Adapters.NONE
    return np.where(apart & learned, _HALF * network.layer_parameters / layouts.tensor, 0)


def _gathered_by_tensor(network: Transformer, count: Numbers, layouts: Layouts) -> Numbers:
    copies = np.where(layouts.async_tensor > 0, _TENSOR_COPIES_ASYNC, _TENSOR_COPIES)
    cut = (layouts.tensor > 1) & (layouts.sequence_parallel > 0)
    return np.where(cut, copies * 2 * count * network.hidden, 0)


def _gathered_by_data(network: Transformer, recipe: Recipe, layouts: Layouts) -> Numbers:
    """Whole layers: the one at work and the next; all of a stage under a pipeline, whose
    micro-batches would else gather them again and again. Autocast keeps 16-bit copies.
    """
    stored = recipe.frozen_bytes or recipe.formats.gathered
    layer = network.layer_parameters / layouts.tensor / layouts.expert
    stage = network.layers / layouts.pipeline * layer
    reduced = recipe.formats.gradients if recipe.adapters is Adapters.NONE else 0.0
    sharded = np.where(layouts.pipeline > 1, stage * (stored + reduced), 2 * stored * layer)
    copied = recipe.formats.weights > recipe.formats.gathered
    plain = np.where(copied, _HALF * stage, 0)
    return np.where((layouts.zero == SHARE_WEIGHTS) & (layouts.sharding > 1), sharded, plain)


def _of_traced(network: Traced, recipe: Recipe, layouts: Layouts) -> dict[str, Numbers]:
    one = np.ones(len(layouts))
    kept = _shared(recipe, network.parameters * one, layouts)
    # Autocast halves what products keep; norms and losses stay as they are.
    share = 1.0 if recipe.precision in ("fp32", "tf32") else 0.6
    largest = max(network.largest_layer_parameters, network.parameters / 50)
    whole = np.where(layouts.zero == SHARE_WEIGHTS, 2 * recipe.formats.gathered * largest, 0)
    return {
        **kept,
        "activations": share * network.activation_bytes * layouts.micro,
        "gathered weights": whole,
    }


def available(pool: Pool, margin: float) -> float:
    """Bytes that a plan may use: a margin is kept for what formulas do not see."""
    return pool.memory_bytes * (1 - margin)
