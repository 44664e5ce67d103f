"""Which small work has to move so that an ask fits, and where each of it goes.

The smallest set first: one that moves, then two, then three; of equal sets the one that moves the
least GPU. A set counts only if the ask then fits and everyone who moved has a place. Everything is
tried out on the live rows, which are left as they were.

The product's own search is :mod:`gpucommons.scheduler.core.passes.moves`, which knows gangs, checkpoints and
bits; here is the same idea on the traces' arrays, where whole-GPU pods stay where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from benchmarks.packing.holding import devices_for, give, take
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.rows import Rows
from gpucommons.scheduler.core.packing.score_board import Board

#: More moves than this for one place disturb more than they help.
MOST_MOVES = 3

#: So many sets are tried in earnest, and of so many movables of one row: a search must end.
TRIES = 16
_OF_ONE_ROW = 8


class Held(NamedTuple):
    """Work that holds part of a row and may be moved."""

    key: int
    ask: Ask
    row: int
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One that moves, and where to."""

    held: Held
    row: int
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The place that becomes free, and who moves for it."""

    row: int
    positions: tuple[int, ...]
    moves: tuple[Move, ...]


class Movables:
    """Work that may be moved, by row."""

    def __init__(self, held: Iterable[Held] = ()) -> None:
        """Start with these."""
        self._rows: dict[int, dict[int, Held]] = defaultdict(dict)
        self._shapes: dict[Ask, int] = defaultdict(int)
        for one in held:
            self.add(one)

    def add(self, held: Held) -> None:
        """This one may be moved."""
        self._rows[held.row][held.key] = held
        self._shapes[held.ask] += 1

    def remove(self, held: Held) -> None:
        """This one is gone, or elsewhere."""
        del self._rows[held.row][held.key]
        self._shapes[held.ask] -= 1
        if not self._shapes[held.ask]:
            del self._shapes[held.ask]

    def shapes(self) -> list[Ask]:
        """All shapes there are."""
        return list(self._shapes)

    def by_row(self) -> Iterator[tuple[int, dict[int, Held]]]:
        """Rows with what may be moved off them."""
        return iter(self._rows.items())


def find(board: Board, ask: Ask, movables: Movables, most: int = MOST_MOVES) -> Moves | None:
    """Return the smallest set of moves after which the ask fits, or None."""
    # Whoever fits nowhere now has no place to go: most work of a full cluster.
    free = int(board.rows.free.max(initial=0))
    light = {
        shape
        for shape in movables.shapes()
        if shape.milli <= free and board.best(shape) is not None
    }
    candidates = sorted(_candidates(board.rows, ask, movables, light, most), key=_effort)
    for row, held in candidates[:TRIES]:
        moves = _tried(board, ask, row, held)
        if moves is not None:
            return moves
    return None


def _candidates(
    rows: Rows, ask: Ask, movables: Movables, light: set[Ask], most: int
) -> Iterator[tuple[int, tuple[Held, ...]]]:
    for row, held in movables.by_row():
        if not ask.accepts(rows.kind_names[int(rows.kind[row])]) and ask.devices:
            continue
        some = sorted((one for one in held.values() if one.ask in light), key=_weight)
        if not some or not _fits_without(rows, row, ask, some):
            continue
        found: list[tuple[Held, ...]] = []
        for count in range(1, min(most, len(some)) + 1):
            for one in combinations(some[:_OF_ONE_ROW], count):
                spared = any(set(smaller) <= set(one) for smaller in found)
                if not spared and _fits_without(rows, row, ask, one):
                    found.append(one)
                    yield row, one


def _weight(held: Held) -> tuple[int, int, int]:
    return held.ask.milli_gpu, held.ask.cpu_milli, held.key


def _effort(candidate: tuple[int, tuple[Held, ...]]) -> tuple[int, int, int]:
    row, held = candidate
    return len(held), sum(one.ask.milli_gpu for one in held), row


def _fits_without(rows: Rows, row: int, ask: Ask, held: Sequence[Held]) -> bool:
    free, cpu_milli, memory_mib = rows.plain[row]
    if cpu_milli + sum(one.ask.cpu_milli for one in held) < ask.cpu_milli:
        return False
    if memory_mib + sum(one.ask.memory_mib for one in held) < ask.memory_mib:
        return False
    left = list(free)
    for one in held:
        for position in one.positions:
            left[position] += one.ask.milli
    return sum(room >= ask.milli for room in left) >= ask.devices


def _tried(board: Board, ask: Ask, row: int, held: Sequence[Held]) -> Moves | None:
    rows = board.rows
    done: list[tuple[Ask, int, tuple[int, ...]]] = []

    def put(one: Ask, where: int, positions: tuple[int, ...]) -> tuple[int, ...]:
        take(rows, where, positions, one)
        done.append((one, where, positions))
        return positions

    for one in held:
        give(rows, one.row, one.positions, one.ask)
    place = put(ask, row, devices_for(board, ask, row))
    moves = []
    # The largest first: the small ones find a place in what is left.
    for one in sorted(held, key=_weight, reverse=True):
        target = board.best(one.ask)
        if target is None:
            break
        positions = put(one.ask, target, devices_for(board, one.ask, target))
        moves.append(Move(held=one, row=target, positions=positions))
    for shape, where, positions in reversed(done):
        give(rows, where, positions, shape)
    for one in held:
        put(one.ask, one.row, one.positions)
    if len(moves) < len(held):
        return None
    return Moves(row=row, positions=place, moves=tuple(moves))
