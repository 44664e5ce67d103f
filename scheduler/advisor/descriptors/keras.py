"""A network from what ``model.summary()`` of Keras counts, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gpucommons.scheduler.advisor.network import Network, Traced, Unknown, refusal

_FLOAT_BYTES = 4
#: Layers whose weights are read, not multiplied with everything.
_LOOKED_UP = frozenset({"Embedding"})


@dataclass(frozen=True, kw_only=True, slots=True)
class KerasLayer:
    """A line of the summary."""

    kind: str
    #: Without the batch.
    output_shape: tuple[int, ...]
    parameters: int


def from_summary(layers: Sequence[KerasLayer]) -> Network:
    """A description: each weight of a layer is used once per place of its output."""
    if not layers:
        return Unknown(why="The summary has no layers: build the model first.")
    if any(size < 1 for layer in layers for size in layer.output_shape):
        return Unknown(why="The summary has layers of no fixed shape: build the model with one.")
    found = Traced(
        parameters=sum(layer.parameters for layer in layers),
        forward_flops=float(sum(_flops(layer) for layer in layers)),
        activation_bytes=float(sum(prod(layer.output_shape) for layer in layers) * _FLOAT_BYTES),
        largest_layer_parameters=max(layer.parameters for layer in layers),
        modules=len(layers),
    )
    refused = refusal(found)
    return Unknown(why=refused) if refused else found


def _flops(layer: KerasLayer) -> int:
    if layer.kind in _LOOKED_UP:
        return 0
    places = prod(layer.output_shape[:-1]) if len(layer.output_shape) > 1 else 1
    return 2 * layer.parameters * places
