"""The score of one row in plain Python.

Most decisions change one row, and for one row plain Python is several times quicker than arrays of
length one. The figures are those of :mod:`foresight`, to the last digit.
"""

from __future__ import annotations

from typing import overload

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.gradient import Gradient
from gpucommons.scheduler.core.packing.outlook import Outlook
from gpucommons.scheduler.core.packing.patterns import FINE
from gpucommons.scheduler.core.packing.rows import Ints, Rows
from gpucommons.scheduler.core.packing.score_board import NO_FIT
from gpucommons.scheduler.core.packing.worth import Place

#: Losses closer than a hundredth of a GPU are equal: what is learned is no more exact than that.
RESOLUTION = 10 * FINE

#: More than any loss, so that scores stay above NO_FIT.
HIGH = 1 << 40

#: The gradient's scores lie below this.
GRADES = 101


@overload
def steps(loss: int) -> int: ...
@overload
def steps(loss: Ints) -> Ints: ...
def steps(loss: int | Ints) -> int | Ints:
    """Return a loss in steps of the resolution, to the nearest."""
    return (loss + RESOLUTION // 2) // RESOLUTION


class OneByOne:
    """Scores rows one at a time."""

    def __init__(self, gradient: Gradient, outlook: Outlook) -> None:
        """Use these tables."""
        self._gradient = gradient
        self._outlook = outlook

    def score(self, ask: Ask, rows: Rows, row: int) -> tuple[int, int]:
        """Return score and device of a row."""
        free, cpu_milli, memory_mib = rows.plain[row]
        kind = rows.plain_kind[row]
        cpu_left, memory_left = cpu_milli - ask.cpu_milli, memory_mib - ask.memory_mib
        if cpu_left < 0 or memory_left < 0 or not _has_devices(ask, free, rows.kind_names[kind]):
            return NO_FIT, 0
        idle = sum(free)
        stranded = self._outlook.stranded_one
        loss = FINE * (
            stranded(idle - ask.milli_gpu, cpu_left, memory_left)
            - stranded(idle, cpu_milli, memory_mib)
        )
        if ask.devices:
            loss += ask.milli_gpu * self._outlook.claimed_plain[kind]
        elif free:
            loss += RESOLUTION
        worth = self._gradient.worth
        before = worth.of_row(worth.at(kind, cpu_milli, memory_mib), free)
        place = worth.at(kind, cpu_left, memory_left)
        spent = before - ask.milli_gpu * worth.total_weight
        if ask.shared:
            return self._best_device(ask, free, loss, spent - worth.of_row(place, free), place)
        whole = free.count(WHOLE_MILLI_GPU)
        after = worth.of_row(place, free) - worth.of_group(place, whole)
        after += worth.of_group(place, whole - ask.devices)
        after -= ask.devices * WHOLE_MILLI_GPU * place.single[worth.reached[WHOLE_MILLI_GPU]]
        return HIGH - steps(loss) * GRADES + self._gradient.grade(spent - after), 0

    def _best_device(
        self, ask: Ask, free: list[int], loss: int, base: int, place: Place
    ) -> tuple[int, int]:
        """Best score and device for a share; ``base`` is the growth were nothing placed."""
        worth, capacity = self._gradient.worth, self._outlook.capacity_plain
        single, reached = place.single, worth.reached
        loss -= self._outlook.own_worth(ask.milli)
        whole = free.count(WHOLE_MILLI_GPU)
        best = (NO_FIT, 0)
        seen = set()
        for position, left in enumerate(free):
            if left < ask.milli or left in seen:
                continue
            seen.add(left)
            less = left - ask.milli
            growth = base + left * single[reached[left]] - less * single[reached[less]]
            if left == WHOLE_MILLI_GPU:
                growth += worth.of_group(place, whole) - worth.of_group(place, whole - 1)
            pattern = capacity[left] - capacity[less]
            score = HIGH - steps(loss + pattern) * GRADES + self._gradient.grade(growth)
            if score > best[0]:
                best = (score, position)
        return best


def _has_devices(ask: Ask, free: list[int], kind: str) -> bool:
    if not ask.devices:
        return True
    if ask.kinds and kind not in ask.kinds:
        return False
    if ask.devices == 1:
        return max(free, default=0) >= ask.milli
    return free.count(WHOLE_MILLI_GPU) >= ask.devices
