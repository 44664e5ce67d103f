"""Taking places from rows and giving them back: what the core does on bits and mirrors in its rows."""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.rows import Rows
from gpucommons.scheduler.core.packing.score_board import Board


def devices_for(board: Board, ask: Ask, row: int) -> tuple[int, ...]:
    """Devices for an ask that fits a row: the best one for a share, else the first whole."""
    if ask.shared:
        return (board.device(ask, row),)
    free = board.rows.plain[row][0]
    whole = [position for position, left in enumerate(free) if left >= ask.milli]
    return tuple(whole[: ask.devices])


def take(rows: Rows, row: int, places: Sequence[int], ask: Ask) -> None:
    """Take what an ask needs, at these devices."""
    _add(rows, row, places, ask, -1)


def give(rows: Rows, row: int, places: Sequence[int], ask: Ask) -> None:
    """Give back what was taken."""
    _add(rows, row, places, ask, 1)


def _add(rows: Rows, row: int, places: Sequence[int], ask: Ask, sign: int) -> None:
    before, cpu_milli, memory_mib = rows.plain[row]
    free = list(before)
    for position in places:
        free[position] += sign * ask.milli
    rows.write(row, free, cpu_milli + sign * ask.cpu_milli, memory_mib + sign * ask.memory_mib)
