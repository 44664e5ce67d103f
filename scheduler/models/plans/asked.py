"""A training as the advisor is told of it: sizes from which work and memory follow, each bounded.

Whoever asks has read them from a configuration, a summary or a trace: the service runs no code of it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gpucommons.scheduler.models.fields import Line, Model, Name

_MOST = 1e18


def _count(most: int) -> object:
    return Field(strict=True, ge=1, le=most)


Layers = Annotated[int, _count(10_000)]
Width = Annotated[int, _count(1_000_000)]
Amount = Annotated[float, Field(ge=0, le=_MOST, allow_inf_nan=False)]


class TransformerModel(Model):
    """A decoder or encoder of equal layers."""

    kind: Literal["transformer"]
    layers: Layers
    hidden: Width
    heads: Width
    #: Left out: as many as heads.
    kv_heads: Width | None = None
    #: Width of the feed-forward part; left out: four times ``hidden``.
    ffn: Annotated[int, _count(10_000_000)] | None = None
    vocabulary: Annotated[int, _count(10_000_000)]
    #: Three matrices in the feed-forward part instead of two (SwiGLU).
    gated: bool = False
    #: One matrix embeds tokens and makes logits.
    tied: bool = False
    dropout: bool = False
    experts: Layers = 1
    experts_used: Layers = 1
    #: Learned positions that have weights.
    positions: int = Field(default=0, strict=True, ge=0, le=100_000_000)
    #: Width of a head where it is not an equal part of ``hidden``; 0: it is.
    head_width: int = Field(default=0, strict=True, ge=0, le=1_000_000)


class TracedModel(Model):
    """Any network, as a trace or a summary counted it; it runs data parallel."""

    kind: Literal["traced"]
    parameters: Annotated[int, _count(100_000_000_000_000)]
    #: Multiplications and additions of one sample's forward pass, each counted.
    forward_flops: Amount
    #: What one sample leaves behind for the backward pass, in bytes of 32-bit floats.
    activation_bytes: Amount
    largest_layer_parameters: int = Field(default=0, strict=True, ge=0, le=100_000_000_000_000)
    #: Modules that compute.
    modules: Annotated[int, _count(1_000_000)] = 50


class UnknownModel(Model):
    """Nothing is known of it, and why."""

    kind: Literal["unknown"]
    why: Line = "What layers this model has is not known."
    #: Jobs that trained it with this batch, by name or id: what their steps took is all that is known.
    like: list[Line] = Field(default_factory=list, max_length=16)


NetworkModel = Annotated[TransformerModel | TracedModel | UnknownModel, Field(discriminator="kind")]


class AdviceRequest(Model):
    """A training that is not submitted yet: what it is, and what counts."""

    network: NetworkModel
    #: Samples (sequences) of one optimizer step, over all GPUs.
    batch: Annotated[int, _count(100_000_000)]
    #: Tokens of a sample; 1 for what has none. A transformer must have them said.
    sequence: Annotated[int, _count(100_000_000)] = 1
    #: Optimizer steps of the whole training.
    steps: Annotated[int, _count(1_000_000_000_000)]
    precision: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,32}$")] = "amp"
    optimizer: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,32}$")] = "adamw"
    adapters: Literal["none", "lora", "qlora"] = "none"
    #: Of adapters.
    rank: Annotated[int, _count(65_536)] = 16
    #: Attention that never writes its scores.
    flash: bool = True
    #: Of the data, where loading it may be what takes longest.
    bytes_per_sample: Annotated[float, Field(ge=0, lt=1e15, allow_inf_nan=False)] = 0.0
    #: What the script is written in: it decides which launcher a plan names. ``megatron`` and ``torchtitan``:
    #: it takes the arguments of Megatron-LM or torchtitan, so that plans may cut layers and stages, too.
    framework: Literal["torch", "keras", "megatron", "torchtitan"] = "torch"
    #: The script can share out weights or moments over GPUs (FSDP, ZeRO).
    sharded: bool = True
    #: The script can make activations again instead of keeping them.
    recompute: bool = True
    objective: Literal["fastest", "cheapest", "cheapest_by_deadline"] = "fastest"
    #: For ``cheapest_by_deadline``.
    deadline_ms: int | None = Field(default=None, strict=True, ge=0, le=4_102_444_800_000)
    #: A number of GPUs of which it is asked why it is not among the plans.
    why_not: int | None = Field(default=None, strict=True, ge=1, le=1_000_000)
    team: Name | None = None
    pools: list[Name] = Field(default_factory=list, max_length=16)
    #: As a job has it: rules of teams may depend on it.
    environment: Annotated[str, StringConstraints(pattern=r"^[ -~]{0,256}$")] = ""
    priority: Literal["low", "normal", "high"] = "normal"
    over_quota: bool = True
    cpu_milli: int = Field(default=1000, strict=True, ge=1, le=1_024_000)
    memory_mib: int = Field(default=1024, strict=True, ge=16, le=16_777_216)

    @model_validator(mode="after")
    def _says_its_deadline(self) -> Self:
        if self.objective == "cheapest_by_deadline" and self.deadline_ms is None:
            raise ValueError("Say by when it is to be done: deadline_ms.")
        return self

    @model_validator(mode="after")
    def _says_its_tokens(self) -> Self:
        if self.network.kind == "transformer" and "sequence" not in self.model_fields_set:
            raise ValueError("Say how many tokens a sample of this transformer has: sequence.")
        return self
