"""Who has had its turn in a cycle has another when something becomes free after it.

Else the next cycle would decide otherwise on the same facts.
"""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.draft import Draft


def after_a_promise(draft: Draft) -> None:
    """A place is kept for nobody any more: whoever missed it looks again."""
    draft.searches.clear()
    draft.misses.clear()
    draft.withdrawn += 1


def after_a_notice(draft: Draft) -> None:
    """More is being cleared than was asked for: what ends anyway counts against nobody's share."""
    draft.left_over += 1
    draft.misses = {miss for miss in draft.misses if miss[0] != "share"}
