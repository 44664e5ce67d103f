"""Where a training belongs among those that were run: the same one, and ones like it."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from gpucommons.scheduler.advisor.network import Network, Transformer
from gpucommons.scheduler.advisor.recipe import Recipe

_DIGITS = 16
#: The family of those of which nothing but their steps is known.
UNKNOWN = "unknown"


def signature_of(network: Network, recipe: Recipe) -> str:
    """The same for the same sizes, batch and number formats; layouts differ within it."""
    return _digest(f"{network!r} {recipe!r}")


def network_called(network: Network) -> str:
    """The same for the same network, whatever its batch, sequence and number formats."""
    # Learned positions grow with the sequence.
    alike = replace(network, positions=0) if isinstance(network, Transformer) else network
    return _digest(repr(alike))


def _digest(said: str) -> str:
    return hashlib.sha256(said.encode()).hexdigest()[:_DIGITS]


def family_of(network: Network) -> str:
    """Trainings whose formula is likely wrong in the same way."""
    if not isinstance(network, Transformer):
        return type(network).__name__.lower()
    kinds = [
        "gated" if network.gated else "plain",
        *(["experts"] if network.experts > 1 else []),
    ]
    return f"transformer {' '.join(kinds)}"
