"""Who has had its turn in a cycle has another when something becomes free after it.

Else the next cycle would decide otherwise on the same facts.
"""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState


def after_a_promise(cycle: CycleState) -> None:
    """A place is kept for nobody any more: whoever missed it looks again."""
    cycle.searches.clear()
    cycle.misses.clear()
    cycle.withdrawn += 1


def after_a_notice(cycle: CycleState) -> None:
    """More is being cleared than was asked for: what ends anyway counts against nobody's share."""
    cycle.left_over += 1
    cycle.misses = {miss for miss in cycle.misses if miss[0] != "share"}
