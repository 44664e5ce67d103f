"""What running costs where it may be interrupted, and how often to save.

Sources: the interval between checkpoints of least loss: Young 1974, Daly 2006. Price per useful hour
counts what saving, lost work and restarts take.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How a pool takes work back and what it costs."""

    #: Money per GPU and hour; None: no price is known.
    price: float | None = None
    #: Interruptions per hour.
    interruptions_per_h: float = 0.0
    #: Hours that saving and restarting take.
    checkpoint_h: float = 0.0
    restart_h: float = 0.0


def refusal(terms: Terms) -> str | None:
    """Why terms cannot be reckoned with; None if they can."""
    if terms.price is not None and not 0 <= terms.price < inf:
        return f"A price of {terms.price} per GPU-hour cannot be."
    rest = (terms.interruptions_per_h, terms.checkpoint_h, terms.restart_h)
    if not all(0 <= one < inf for one in rest):
        return "Interruptions, saving and restarting cannot take less than nothing."
    return None


def interval_h(terms: Terms) -> float:
    """Hours between checkpoints of least loss; endless where nothing interrupts."""
    if terms.interruptions_per_h <= 0:
        return inf
    return sqrt(2 * terms.checkpoint_h / terms.interruptions_per_h)


def useful_share(terms: Terms) -> float:
    """Share of the time that is not saving, repeating or restarting; 0: it never gets anywhere."""
    if terms.interruptions_per_h <= 0:
        return 1.0
    between = max(interval_h(terms), 1e-6)
    lost = terms.checkpoint_h / between
    lost += terms.interruptions_per_h * (between / 2 + terms.restart_h)
    return max(0.0, 1.0 - lost)
