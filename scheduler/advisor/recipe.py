"""How it is trained, whatever the GPUs: batch, sequence, number formats, optimizer, adapters.

Bytes per parameter follow the mixed-precision accounting of Rajbhandari et al. 2020 (ZeRO,
arXiv 1910.02054, section 3.1); quantised weights those of Dettmers et al. 2023 (QLoRA,
arXiv 2305.14314, section 3); adapters those of Hu et al. 2021 (LoRA, arXiv 2106.09685).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from gpucommons.scheduler.advisor.network import Network, Traced, Transformer

#: 4-bit floats in blocks of 64 with an 8-bit scale each, scales quantised once more (QLoRA).
NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
#: Bytes per logit at the peak. *Plain* and *compiled*: a 16-bit copy, 32-bit logits, their logarithm
#: and its gradient (compiled, the 16-bit gradient takes no place of its own). *Fused*: 16 bits, and
#: the gradient written in their place by a kernel that needs as much again.
LOSSES = {"plain": 16.0, "compiled": 14.0, "fused": 4.0}
_MOST_SEQUENCE = 100_000_000
_MOST_BATCH = 100_000_000
_MOST_PIECES = 65_536
_MOST_BYTES = 1e15


class Adapters(StrEnum):
    """Whether all weights learn, or small ones beside frozen ones."""

    NONE = "none"
    LORA = "lora"
    QLORA = "qlora"


@dataclass(frozen=True, kw_only=True, slots=True)
class Formats:
    """Bytes per parameter of what a rank keeps, and the format that it computes in."""

    #: Key of the peak in the table of GPU kinds.
    compute: str
    weights: float
    gradients: float
    #: Master weights and moments.
    optimizer: float
    #: What is sent per parameter when weights are gathered and when gradients are summed.
    gathered: float = 2.0
    reduced: float = 2.0


#: As frameworks name them. ``megatron`` keeps 32-bit gradients (18 bytes), ``amp`` 32-bit weights.
PRECISIONS = {
    "fp32": Formats(compute="fp32", weights=4, gradients=4, optimizer=8, gathered=4, reduced=4),
    "tf32": Formats(compute="tf32", weights=4, gradients=4, optimizer=8, gathered=4, reduced=4),
    "amp": Formats(compute="bf16", weights=4, gradients=4, optimizer=8, reduced=4),
    "amp-fp16": Formats(compute="fp16", weights=4, gradients=4, optimizer=8, reduced=4),
    "bf16": Formats(compute="bf16", weights=2, gradients=2, optimizer=4),
    "fp16": Formats(compute="fp16", weights=2, gradients=2, optimizer=12),
    "megatron": Formats(compute="bf16", weights=2, gradients=4, optimizer=12, reduced=4),
    "fp8": Formats(compute="fp8", weights=4, gradients=4, optimizer=8, reduced=4),
}
#: What an optimizer keeps, as a share of Adam's two moments.
OPTIMIZERS = {"adam": 1.0, "adamw": 1.0, "adamw-8bit": 0.25, "momentum": 0.5, "sgd": 0.0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What a plan must leave as it is: it decides what is learned."""

    #: Samples (sequences) of one optimizer step, over all GPUs.
    batch: int
    #: Tokens of a sample; 1 for what has none.
    sequence: int = 1
    precision: str = "amp"
    optimizer: str = "adamw"
    adapters: Adapters = Adapters.NONE
    rank: int = 16
    #: Attention that never writes its scores (Dao et al. 2022, arXiv 2205.14135).
    flash: bool = True
    #: How the loss is made of logits: one of `LOSSES`.
    loss: str = "compiled"
    #: Logits are made in so many pieces (chunked cross entropy).
    loss_pieces: int = 1
    #: The optimizer steps inside the backward pass, so that gradients live one layer long.
    step_in_backward: bool = False
    #: Moments live in the host's memory and are paged in (8-bit paged optimizers).
    paged_optimizer: bool = False
    bytes_per_sample: float = 0.0

    @property
    def formats(self) -> Formats:
        """Bytes per trained parameter, with this optimizer."""
        known = PRECISIONS[self.precision]
        moments = 4.0 if self.precision == "bf16" else 8.0
        kept = known.optimizer - moments * (1 - OPTIMIZERS[self.optimizer])
        return replace(known, optimizer=0.0 if self.paged_optimizer else kept)

    @property
    def frozen_bytes(self) -> float:
        """Bytes of a frozen weight; 0 where all weights learn."""
        return {Adapters.NONE: 0.0, Adapters.LORA: 2.0, Adapters.QLORA: NF4_BYTES}[self.adapters]

    def trained_parameters(self, network: Transformer | Traced) -> float:
        """How many weights learn."""
        if self.adapters is Adapters.NONE or isinstance(network, Traced):
            return float(network.parameters)
        # A pair of narrow matrices beside each of attention's four.
        width = 4 * network.hidden + network.attention_width * (2 + 2 * network.kv_share)
        return network.layers * self.rank * width


def refusal(recipe: Recipe, network: Network) -> str | None:
    """Why a recipe cannot be planned for; None if it can."""
    known = ", ".join(sorted(PRECISIONS))
    checks = [
        (0 < recipe.batch <= _MOST_BATCH, f"A batch of {recipe.batch} samples cannot be planned."),
        (
            0 < recipe.sequence <= _MOST_SEQUENCE,
            f"A sequence of {recipe.sequence} tokens cannot be planned.",
        ),
        (recipe.precision in PRECISIONS, f"Precision {recipe.precision!r} is none of {known}."),
        (
            recipe.optimizer in OPTIMIZERS,
            f"Optimizer {recipe.optimizer!r} is none of {', '.join(sorted(OPTIMIZERS))}.",
        ),
        (recipe.loss in LOSSES, f"Loss {recipe.loss!r} is none of {', '.join(sorted(LOSSES))}."),
        (0 < recipe.rank <= _MOST_PIECES, f"Adapters of rank {recipe.rank} cannot be planned."),
        (0 < recipe.loss_pieces <= _MOST_PIECES, "The loss is made in one piece or more."),
        (
            0 <= recipe.bytes_per_sample < _MOST_BYTES,
            f"{recipe.bytes_per_sample} bytes per sample cannot be planned.",
        ),
        (
            recipe.adapters is Adapters.NONE or isinstance(network, Transformer),
            "Adapters are planned for transformers only.",
        ),
    ]
    return next((sentence for holds, sentence in checks if not holds), None)
