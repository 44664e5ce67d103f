"""Numbers that no data sheet has: how much of a peak is reached, how much is hidden.

The defaults are round numbers near what public measurements show (`docs/explanation/benchmarks.md`);
history moves them within bounds, and no further than its runs bear out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Constants:
    """All positive, so that they are fitted as logarithms."""

    #: Share of the peak that large products reach, in 16 and in 8 bits.
    products: float = 0.74
    products_fp8: float = 0.55
    #: Share of the peak that attention reaches, counted without a mask.
    attention: float = 0.52
    #: Share of the memory's bandwidth that everything beside products reaches.
    traffic: float = 0.85
    #: What doing a forward pass again costs, of what it cost the first time.
    recompute: float = 0.9
    #: Share of links' bandwidth that collectives reach, inside a node and between nodes.
    inside: float = 1.0
    between: float = 0.8
    #: Power of the norm that joins computation and communication; 1 hides nothing.
    overlap: float = 1.5
    #: The same of what is sent once a step, in pieces of some layers: of what the pass hides, one of
    #: some thirty pieces is left (NeMo's user guide, *Communication overlap*).
    overlap_at_end: float = 6.0
    #: Seconds to start one layer's kernels.
    launch_s: float = 0.0004
    #: How much of handing on to the next pipeline stage is not hidden.
    handing_on: float = 0.5


#: How far history may move each, as a factor up or down, and how loosely it is held (log units).
_BOUND = np.log(4.0)
_LOOSE = {
    "products": 0.25,
    "attention": 0.4,
    "traffic": 0.4,
    "recompute": 0.3,
    "overlap": 0.4,
    "overlap_at_end": 0.4,
}
_LOOSE_ELSE = 0.5


def moved(known: Constants, by: NDArray[np.float64]) -> Constants:
    """Constants, each multiplied by a factor given as logarithm, within bounds."""
    held = np.clip(by, -_BOUND, _BOUND)
    names = [one.name for one in fields(known)]
    changed = {
        name: float(getattr(known, name) * np.exp(change))
        for name, change in zip(names, held, strict=True)
    }
    # A norm of a power below 1 would make two things take longer than one after the other.
    for name in ("overlap", "overlap_at_end"):
        changed[name] = max(1.0, changed[name])
    return replace(known, **changed)


def looseness() -> NDArray[np.float64]:
    """How loosely each is held, in log units."""
    return np.array([_LOOSE.get(one.name, _LOOSE_ELSE) for one in fields(Constants)])
