"""How much of the surplus each team has had, so that the next GPU goes to whom it is due.

Borrowed GPU time decays: what was used a day ago counts half. A team's standing is its decayed
use plus what its present holdings will add, divided by its weight; the lowest goes first.
Everything is an integer, so the order is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.core.quota import Uses
from gpucommons.scheduler.core.types import Millis, PoolName, TeamName

HALF_LIFE_MS = 24 * 3600 * 1000
#: After so many half-lives nothing older matters.
_FORGOTTEN = 40
#: Resolution of a standing after division by the weight.
_SCALE = 1000


def decayed(use: int, borrowed_milli_gpu: int, elapsed_ms: int) -> int:
    """Use after some time during which so much was borrowed, in milli-GPU·seconds.

    Within a half-life the decay is linear, over several it is exponential.
    """
    if elapsed_ms > _FORGOTTEN * HALF_LIFE_MS:
        use, elapsed_ms = 0, _FORGOTTEN * HALF_LIFE_MS
    while elapsed_ms > 0:
        step = min(elapsed_ms, HALF_LIFE_MS)
        use -= use * step // (2 * HALF_LIFE_MS)
        use += borrowed_milli_gpu * step * (4 * HALF_LIFE_MS - step) // (4 * HALF_LIFE_MS * 1000)
        elapsed_ms -= step
    return use


def brought_up(
    usage: Mapping[tuple[TeamName, PoolName], int],
    uses: Uses,
    at_ms: Millis,
    now_ms: Millis,
) -> dict[tuple[TeamName, PoolName], int]:
    """Usage as of now, given what was borrowed since it was last written down."""
    keys = usage.keys() | {key for key, use in uses.items() if use.borrowed}
    found = {
        key: decayed(
            usage.get(key, 0), uses[key].borrowed if key in uses else 0, max(0, now_ms - at_ms)
        )
        for key in sorted(keys)
    }
    return {key: use for key, use in found.items() if use}


def standing(usage: int, borrowed_milli_gpu: int, weight: int) -> int:
    """A team's place in line for the surplus: the lower, the earlier. Weight 0 never borrows."""
    coming = borrowed_milli_gpu * HALF_LIFE_MS // 1000
    return (usage + coming) * _SCALE // max(1, weight)
