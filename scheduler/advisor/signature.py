"""Where a training belongs among those that were run: the same one, and ones like it."""

from __future__ import annotations

import hashlib

from gpucommons.scheduler.advisor.network import Network, Transformer
from gpucommons.scheduler.advisor.recipe import Recipe

_DIGITS = 16
#: The family of those of which nothing but their steps is known.
UNKNOWN = "unknown"


def signature_of(network: Network, recipe: Recipe) -> str:
    """The same for the same sizes, batch and number formats; layouts differ within it."""
    said = f"{network!r} {recipe!r}"
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
