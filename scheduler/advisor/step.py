"""Seconds of one optimizer step, term by term.

Sources: work of a transformer and pipeline bubble: Narayanan et al. 2021 (arXiv 2104.04473,
sections 2.2 and 5.1); rings: Patarasuk and Yuan 2009; sharded data parallel: Rajbhandari et al.
2020 (arXiv 1910.02054, section 7) and Zhao et al. 2023 (arXiv 2304.11277), gradients in buckets: Li
et al. 2020 (arXiv 2006.15704, section 3.2); overlap as a p-norm of
computation and communication: Qiao et al. 2021 (Pollux, OSDI, section 3.2); what is bound by memory
bandwidth beside products: the roofline of Williams et al. 2009; context parallel: Liu et al. 2023
(ring attention, arXiv 2310.01889); experts: Fedus et al. 2021 (arXiv 2101.03961).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.kinds import Link, Pool
from gpucommons.scheduler.advisor.layout import (
    ATTENTION,
    FULL,
    OPERATORS,
    SHARE_GRADIENTS,
    SHARE_MOMENTS,
    SHARE_NOTHING,
    SHARE_WEIGHTS,
    Layouts,
    Numbers,
)
from gpucommons.scheduler.advisor.memory import activation_bytes, tokens
from gpucommons.scheduler.advisor.network import Traced, Transformer
from gpucommons.scheduler.advisor.recipe import Adapters, Recipe

#: Bytes that pass per logit in the forward pass of an unfused loss.
_LOGIT_TRAFFIC = 16.0
#: Fused element-wise work passes so much of what it passes one by one.
_COMPILED = 0.6
#: Bytes per token and hidden unit that fused norms, dropouts and additions do not pass twice.
_FUSED = 8.0
#: What each doubling of context ranks adds to attention: shorter blocks, results merged.
_RING = 0.12
#: Of a micro-batch's time, what its backward pass takes.
_BACKWARD = 2 / 3
#: What is left of tensor communication that is hidden behind its products.
_ASYNC = 0.65


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds per optimizer step and per micro-batch; each an array over layouts."""

    total: Numbers
    #: Where the time goes; the largest is the bottleneck.
    terms: dict[str, Numbers]

    def bottleneck(self, index: int) -> str:
        """The largest term of one layout."""
        return max(self.terms, key=lambda name: float(self.terms[name][index]))


@dataclass(frozen=True, slots=True)
class Work:
    """One forward pass of a micro-batch on one rank: FLOPs and bytes."""

    products: Numbers
    attention: Numbers
    traffic: Numbers
    #: Of these, what belongs to layers: logits are not made again.
    layer_products: Numbers
    layer_traffic: Numbers
    #: Of the traffic, attention's scores where they are written.
    score_traffic: Numbers


def step(
    network: Transformer | Traced, recipe: Recipe, layouts: Layouts, pool: Pool, known: Constants
) -> Step:
    """How long one optimizer step takes in each layout."""
    work = forward_work(network, recipe, layouts)
    compute = _compute(work, recipe, layouts, pool, known)
    launched = known.launch_s * _launches(network, layouts)
    compute = np.maximum(compute, launched)
    tensor = _tensor_seconds(network, recipe, layouts, pool, known)
    handed = _handed_on(network, recipe, layouts, pool, known)
    once = compute + tensor + handed
    # Where stages hold equal layers, the last makes the logits too and sets the pace; what fills
    # and drains the pipeline passes the others.
    logits = _compute(_logits(work), recipe, layouts, pool, known)
    paced = once + np.where(layouts.weighed > 0, 0, (layouts.pipeline - 1) * logits)
    filled = (layouts.pipeline - 1) / layouts.virtual
    often, at_end = _data_seconds(network, recipe, layouts, pool, known)
    during = _norm(paced, often, known.overlap)
    passing = _norm(once, often, known.overlap)
    hiding = _hiding(layouts)
    last = hiding * _norm(during, at_end / hiding, known.overlap_at_end)
    after = _optimizer_seconds(network, recipe, layouts, pool, known)
    total = (layouts.accumulation - hiding) * during + filled * passing + last + after
    loading = _loading_seconds(recipe, layouts, pool)
    terms = {
        "computation": compute * layouts.accumulation,
        "tensor links": (tensor + handed) * layouts.accumulation,
        "pipeline bubble": filled * once + layouts.accumulation * (paced - once),
        "data links": total - after - layouts.accumulation * paced - filled * once,
        "optimizer": after,
        "data loading": np.maximum(loading - total, 0) + (loading >= total) * total,
    }
    return Step(np.maximum(total, loading), terms)


def _hiding(layouts: Layouts) -> Numbers:
    """Micro-batches behind which that is hidden which is sent once a step.

    Gradients are summed during the last backward pass, two thirds of a micro-batch; shared moments'
    weights are gathered during the first forward pass. Where a rank holds several parts of the model,
    a part that is done sends while those before it still work, on as many micro-batches as there are
    stages (NeMo's user guide, *Communication overlap*: the grain of data-parallel communication is
    the layers of a virtual stage).
    """
    behind = (layouts.pipeline - 1) * (1 - 1 / layouts.virtual)
    share = np.where(layouts.zero == SHARE_NOTHING, _BACKWARD, 1.0)
    return np.asarray(share * np.minimum(1 + behind, layouts.accumulation))


def _norm(one: Numbers, other: Numbers, power: float) -> Numbers:
    """1: one after the other; large: the longer hides the shorter."""
    most = np.maximum(np.maximum(one, other), 1e-30)
    return np.asarray(most * ((one / most) ** power + (other / most) ** power) ** (1 / power))


def forward_work(network: Transformer | Traced, recipe: Recipe, layouts: Layouts) -> Work:
    """FLOPs of products and of attention's scores, and bytes of everything else."""
    if isinstance(network, Traced):
        nothing = np.zeros(len(layouts))
        products = network.forward_flops * layouts.micro
        traffic = 2 * network.activation_bytes * layouts.micro
        return Work(products, nothing, traffic, products, traffic, nothing)
    count = tokens(recipe, layouts)
    ranks = layouts.tensor * layouts.pipeline
    layers = 2 * network.active_layer_parameters * network.layers * count / ranks
    logits = 2 * network.head_parameters * count / ranks
    attention = 4.0 * recipe.sequence * network.attention_width * network.layers * count / ranks
    kept = activation_bytes(network, recipe, layouts)
    units = network.hidden * network.layers * count / layouts.pipeline
    units = units * (_COMPILED if recipe.loss == "compiled" else 1.0)
    # What is kept was written and read; norms, dropouts and additions are fused.
    cut = np.where(layouts.sequence_parallel > 0, layouts.tensor, 1)
    passed = 2 * kept["all"] - _FUSED / cut
    return Work(
        products=layers + logits,
        attention=attention * (1 + _RING * np.log2(layouts.context)),
        traffic=passed * units + _LOGIT_TRAFFIC * network.vocabulary * count / ranks,
        layer_products=layers,
        layer_traffic=passed * units,
        score_traffic=2 * (kept["all"] - kept["but_scores"]) * units,
    )


def _logits(work: Work) -> Work:
    """What of the work belongs to no layer."""
    nothing = np.zeros_like(work.products)
    return Work(
        products=work.products - work.layer_products,
        attention=nothing,
        traffic=work.traffic - work.layer_traffic,
        layer_products=nothing,
        layer_traffic=nothing,
        score_traffic=nothing,
    )


def _compute(work: Work, recipe: Recipe, layouts: Layouts, pool: Pool, known: Constants) -> Numbers:
    """Forward, backward and what is done again, of one micro-batch."""
    peaks = pool.kind.peak
    plain = peaks.get("bf16", peaks.get("fp16", peaks.get("fp32", 0.0)))
    form = recipe.formats.compute
    flops = peaks[form] * (known.products_fp8 if form == "fp8" else known.products)
    flops *= pool.kind.sustained
    scores = work.attention / (min(plain, peaks[form]) * known.attention * pool.kind.sustained)
    bandwidth = pool.kind.memory_bytes_per_s * known.traffic
    # Frozen weights have no gradient of their own (LoRA): one product less in the backward pass.
    backward = 1.0 if recipe.adapters is not Adapters.NONE else 2.0
    both = work.products / flops * (1 + backward) + scores * 3 + work.traffic / bandwidth * 3
    layer = work.layer_products / flops
    passing = work.layer_traffic / bandwidth
    again = np.select(
        [layouts.recompute == FULL, layouts.recompute == OPERATORS, layouts.recompute == ATTENTION],
        [layer + scores + passing, layer / 2 + passing, scores + work.score_traffic / bandwidth],
        0.0,
    )
    return np.asarray((both + again * known.recompute) / pool.compute_share)


def _launches(network: Transformer | Traced, layouts: Layouts) -> Numbers:
    """Layers that a rank starts per micro-batch, forward and backward."""
    layers = network.layers if isinstance(network, Transformer) else network.modules / _OF_A_LAYER
    return 3 * layers / layouts.pipeline * np.where(layouts.tensor > 1, 1.4, 1)


def _rate(link: Link, share: float, pool: Pool) -> float:
    return link.bytes_per_s * share * (1 - pool.background)


def _tensor_seconds(
    network: Transformer | Traced, recipe: Recipe, layouts: Layouts, pool: Pool, known: Constants
) -> Numbers:
    """Tensor ranks' sums (4 per layer, 6 with full recompute), rings of keys, visits of experts."""
    if isinstance(network, Traced):
        return np.zeros(len(layouts))
    width = 4.0 if recipe.precision in ("fp32", "tf32") else 2.0
    message = tokens(recipe, layouts) * network.hidden * width
    layers = network.layers / layouts.pipeline
    degree = layouts.tensor
    sums = np.where(layouts.recompute == FULL, 6.0, 4.0)
    per_rank = 2 * (degree - 1) / degree * message
    inside, between = _tensor_rates(degree, pool, known)
    seconds = per_rank / np.where(degree <= pool.gpus_per_node, inside, between)
    waited = np.where(degree > 1, pool.inside.latency_s * np.log2(np.maximum(degree, 2)) * 2, 0)
    exposed = np.where(layouts.async_tensor > 0, _ASYNC, 1.0)
    total = sums * layers * (seconds + waited) * exposed
    return total + _ring_and_experts(network, message, layouts, pool, known) * layers


def _tensor_rates(degree: Numbers, pool: Pool, known: Constants) -> tuple[Numbers, float]:
    """Bytes per second of a rank inside a node and between nodes."""
    inside = _rate(pool.inside, known.inside, pool)
    # All groups of a node send at the same time, and meet at its root.
    crowd = max(1.0, pool.gpus_per_node / 2) if pool.inside.shared else 1.0
    return inside / crowd * np.ones_like(degree), _rate(pool.between, known.between, pool)


def _ring_and_experts(
    network: Transformer, message: Numbers, layouts: Layouts, pool: Pool, known: Constants
) -> Numbers:
    """Keys and values go around the context ranks; tokens go to experts and back."""
    in_node = layouts.tensor * layouts.context <= pool.gpus_per_node
    rate = np.where(
        in_node,
        _rate(pool.inside, known.inside, pool),
        _rate(pool.between, known.between, pool) / pool.gpus_per_node,
    )
    around = 2 * network.kv_share * message * (layouts.context - 1) * 3 / layouts.tensor
    # Hidden behind attention's own work but for its start.
    ring = np.where(layouts.context > 1, 0.2 * around / rate, 0)
    experts = layouts.expert
    visits = 4 * network.experts_used * message * (experts - 1) / experts
    near = layouts.tensor * experts <= pool.gpus_per_node
    way = np.where(
        near,
        _rate(pool.inside, known.inside, pool),
        _rate(pool.between, known.between, pool) / pool.gpus_per_node,
    )
    return ring + visits / way


def _handed_on(
    network: Transformer | Traced, recipe: Recipe, layouts: Layouts, pool: Pool, known: Constants
) -> Numbers:
    """Activations handed to the next pipeline stage and gradients back, per micro-batch."""
    if isinstance(network, Traced):
        return np.zeros(len(layouts))
    message = tokens(recipe, layouts) * network.hidden * 2.0
    # Each tensor rank hands on its part, which is gathered there (section 4.1 of the same paper).
    message = message / layouts.tensor
    crosses = layouts.tensor * layouts.sharding >= pool.gpus_per_node
    far = _rate(pool.between, known.between, pool) / pool.gpus_per_node
    rate = np.where(crosses, far, _rate(pool.inside, known.inside, pool))
    waited = np.where(crosses, pool.between.latency_s, pool.inside.latency_s)
    boundaries = np.where(layouts.pipeline > 1, 2 * layouts.virtual, 0)
    return boundaries * (message / rate + waited) * known.handing_on


def _data_seconds(
    network: Transformer | Traced, recipe: Recipe, layouts: Layouts, pool: Pool, known: Constants
) -> tuple[Numbers, Numbers]:
    """Seconds of data ranks' communication: per micro-batch, and once at the end."""
    parameters = _synchronised(network, recipe, layouts)
    shards, formats = layouts.sharding, recipe.formats
    share = (shards - 1) / shards
    collectives = network.layers if isinstance(network, Transformer) else 20
    gather = share * parameters["gathered"]
    reduce = share * parameters["trained"] * formats.reduced
    sharded = layouts.zero == SHARE_WEIGHTS
    # Under a pipeline, whole weights stay between micro-batches.
    often = np.where(sharded & (layouts.pipeline == 1), 2 * gather + reduce, 0)
    once = np.where(sharded & (layouts.pipeline > 1), gather + reduce, 0)
    # Shared moments: gradients are reduced, then weights gathered. Else a ring does both.
    once = np.where(layouts.zero == SHARE_NOTHING, 2 * reduce, once)
    once = np.where(
        (layouts.zero == SHARE_MOMENTS) | (layouts.zero == SHARE_GRADIENTS), reduce + gather, once
    )
    waited = np.where(shards > 1, _hops(layouts, pool) * collectives / layouts.pipeline, 0)
    per = _data_rate(layouts, pool, known)
    host = np.where(layouts.offload > 0, parameters["gathered"] / shards * 2 / _HOST_BYTES_PER_S, 0)
    return (
        np.where(often > 0, often / per + 3 * waited, 0) + host,
        np.where(once > 0, once / per + waited / 8, 0),
    )


#: Modules of a transformer's layer, whose start is what `launch_s` counts.
_OF_A_LAYER = 10
#: One direction of a PCIe 4 slot, which offloaded weights pass.
_HOST_BYTES_PER_S = 20e9


def _synchronised(
    network: Transformer | Traced, recipe: Recipe, layouts: Layouts
) -> dict[str, Numbers]:
    """Weights that learn, and bytes of weights that are gathered, of one rank's part."""
    ranks = layouts.tensor * layouts.pipeline
    trained = recipe.trained_parameters(network) / ranks
    stored = recipe.frozen_bytes or recipe.formats.gathered
    if isinstance(network, Transformer) and network.experts > 1:
        experts = network.experts * network.feed_forward_parameters * network.layers
        outside = (network.parameters - experts) / ranks
        trained = outside + experts / ranks / layouts.expert
    return {"trained": trained, "gathered": network.parameters / ranks * stored}


def _hops(layouts: Layouts, pool: Pool) -> Numbers:
    """Seconds that a ring waits for its slowest hops, which are those between nodes."""
    shards = layouts.sharding
    crosses = layouts.tensor * shards > pool.gpus_per_node
    nodes = np.maximum(layouts.tensor * shards / pool.gpus_per_node, 1)
    far = np.where(crosses, np.minimum(nodes, shards), 0)
    return far * pool.between.latency_s + (shards - far) * pool.inside.latency_s


def _data_rate(layouts: Layouts, pool: Pool, known: Constants) -> Numbers:
    """Bytes per second of one data-parallel group, whose ranks lie `tensor` apart.

    What crosses to another node does so once per group and node: the node's network cards are
    shared by the groups, not by the ranks.
    """
    group = layouts.tensor * layouts.sharding
    crosses = group > pool.gpus_per_node
    ranks_near = np.maximum(1, pool.gpus_per_node / layouts.tensor)
    groups = np.minimum(layouts.tensor, pool.gpus_per_node)
    far = _rate(pool.between, known.between, pool) / groups
    near = _rate(pool.inside, known.inside, pool) * np.ones(len(layouts))
    if pool.inside.shared:
        # A star: all ranks of the node send through one root, those of other groups as well.
        crowd = np.minimum(layouts.sharding, ranks_near) * groups / 2
        near = near / np.maximum(crowd, 1e-9)
    return np.where(crosses, np.minimum(far, near), near)


def _optimizer_seconds(
    network: Transformer | Traced, recipe: Recipe, layouts: Layouts, pool: Pool, known: Constants
) -> Numbers:
    """The optimizer reads and writes all its states once, at the memory's speed or the host's."""
    parameters = recipe.trained_parameters(network) / (layouts.tensor * layouts.pipeline)
    formats = recipe.formats
    moved = 2 * (formats.weights + formats.optimizer) + formats.gradients
    shared = np.where(layouts.zero >= SHARE_MOMENTS, layouts.sharding, 1)
    slow = np.where(
        layouts.offload > 0, _HOST_BYTES_PER_S, pool.kind.memory_bytes_per_s * known.traffic
    )
    return parameters * moved / shared / slow


def _loading_seconds(recipe: Recipe, layouts: Layouts, pool: Pool) -> Numbers:
    """A step is no faster than its samples arrive: from storage, and out of the decoders."""
    seconds = np.zeros(len(layouts))
    if pool.storage_bytes_per_s > 0:
        seconds = seconds + recipe.batch * recipe.bytes_per_sample / pool.storage_bytes_per_s
    if pool.loader_samples_per_s > 0:
        decoded = recipe.batch / (pool.loader_samples_per_s * layouts.sharding)
        seconds = np.maximum(seconds, decoded)
    return seconds
