"""Ways to spread one training over GPUs, many at once: each field is an array, one entry a layout.

Degrees are those of Narayanan et al. 2021 (arXiv 2104.04473): data, tensor, pipeline, and context
(sequences cut over GPUs). Their product is the number of GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
#: How much of the forward pass is done again in the backward pass.
NO_RECOMPUTE, ATTENTION, OPERATORS, FULL = 0, 1, 2, 3
#: What data ranks share out: nothing, moments, gradients too, weights too.
SHARE_NOTHING, SHARE_MOMENTS, SHARE_GRADIENTS, SHARE_WEIGHTS = 0, 1, 2, 3
RECOMPUTE_WORDS = (
    "no recompute",
    "attention recomputed",
    "every second product recomputed",
    "full recompute",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layouts:
    """Layouts side by side."""

    data: Numbers
    tensor: Numbers
    pipeline: Numbers
    context: Numbers
    #: Samples that a rank works on at once; how many times before the optimizer steps.
    micro: Numbers
    accumulation: Numbers
    #: What data ranks share out.
    zero: Numbers
    recompute: Numbers
    #: Parts of the model that one pipeline rank holds (interleaved schedule).
    virtual: Numbers
    #: Norms and dropouts are cut along the sequence over tensor ranks.
    sequence_parallel: Numbers
    #: Sharded weights and moments lie in the host's memory.
    offload: Numbers
    #: Tensor communication that is hidden behind its products.
    async_tensor: Numbers
    #: Experts are shared out over so many data ranks.
    expert: Numbers
    #: Pipeline stages are cut by their work, logits included; else they hold equal layers.
    weighed: Numbers

    @property
    def gpus(self) -> Numbers:
        """GPUs of each layout."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def sharding(self) -> Numbers:
        """Ranks that shards are spread over: sequences cut over GPUs see the same weights."""
        return self.data * self.context

    def __len__(self) -> int:
        return len(self.data)

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Layouts:
        """Some of them."""
        return Layouts(**{one.name: getattr(self, one.name)[chosen] for one in fields(self)})

    def one(self, index: int) -> Layout:
        """One of them, as whole numbers."""
        return Layout(**{one.name: int(getattr(self, one.name)[index]) for one in fields(self)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """One layout. What is left out is not done."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    micro: int = 1
    accumulation: int = 1
    zero: int = 0
    recompute: int = NO_RECOMPUTE
    virtual: int = 1
    sequence_parallel: int = 0
    offload: int = 0
    async_tensor: int = 0
    expert: int = 1
    weighed: int = 0

    @property
    def gpus(self) -> int:
        """How many GPUs it needs."""
        return self.data * self.tensor * self.pipeline * self.context


def layouts_of(*several: Layout) -> Layouts:
    """Layouts side by side, from single ones."""
    columns: dict[str, Any] = {
        one.name: np.array([getattr(each, one.name) for each in several], dtype=np.float64)
        for one in fields(Layout)
    }
    return Layouts(**columns)


def words(layout: Layout) -> str:
    """What a person calls it."""
    sharing = ("DDP", "ZeRO-1", "ZeRO-2", "FSDP")[layout.zero]
    parts = [f"{sharing} × {layout.data}"] if layout.data > 1 else []
    named = {"tensor": layout.tensor, "pipeline": layout.pipeline, "context": layout.context}
    parts += [f"{name} × {degree}" for name, degree in named.items() if degree > 1]
    text = ", ".join(parts) if parts else "one GPU"
    if layout.accumulation > 1 and layout.pipeline == 1:
        text += f", accumulation × {layout.accumulation}"
    if layout.recompute:
        text += f", {RECOMPUTE_WORDS[layout.recompute]}"
    return text + (", offload to the host" if layout.offload else "")
