"""Small work moves so that an ask fits; everyone has a place, nothing is overcommitted."""

import packings
from hypothesis import given, settings
from hypothesis import strategies as st
from packings import Node

from benchmarks.packing.holding import devices_for, give, take
from benchmarks.packing.moves import Held, Movables, Moves, find
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.foresight import Foresight
from gpucommons.scheduler.core.packing.learning import NEUTRAL
from gpucommons.scheduler.core.packing.rows import Rows
from gpucommons.scheduler.core.packing.score_board import Board

WHOLE = Ask(1, 1000, 4, 4)
HALF = Ask(1, 500, 2, 2)
SMALL = Ask(1, 250, 1, 1)


def board_of(*nodes: Node) -> Board:
    rows = packings.rows_of(*nodes)
    return Board(rows, Foresight(NEUTRAL, rows))


def held_on(board: Board, key: int, ask: Ask, row: int, *positions: int) -> Held:
    take(board.rows, row, positions, ask)
    return Held(key, ask, row, positions)


def test_one_share_moves_to_make_a_whole_device() -> None:
    """Two half devices are one whole when one share joins the other."""
    board = board_of(("a", [1000], 9, 9), ("a", [1000], 9, 9))
    held = [held_on(board, 1, HALF, 0, 0), held_on(board, 2, HALF, 1, 0)]
    assert board.best(WHOLE) is None

    found = find(board, WHOLE, Movables(held))

    assert found is not None
    (move,) = found.moves
    assert (found.row, found.positions) == (move.held.row, (0,))
    assert {0, 1} == {move.row, found.row}


def test_the_fewest_move() -> None:
    """One of 500 rather than two of 250."""
    board = board_of(("a", [1000], 9, 9), ("a", [1000], 9, 9), ("a", [500], 9, 9))
    held = [held_on(board, key, SMALL, 0, 0) for key in (1, 2)]
    held.append(held_on(board, 3, HALF, 1, 0))

    found = find(board, WHOLE, Movables(held))

    assert found is not None
    assert [move.held.key for move in found.moves] == [3]


def test_processors_are_made_room_for_too() -> None:
    """A free device without processors: work without a GPU goes elsewhere."""
    board = board_of(("a", [1000], 5, 9), ("", [], 9, 9))
    held = held_on(board, 1, Ask(0, 0, 3, 0), 0)

    found = find(board, WHOLE, Movables([held]))

    assert found is not None
    assert [(move.row, move.positions) for move in found.moves] == [(1, ())]


def test_nobody_moves_without_a_place() -> None:
    """No other room: the ask waits."""
    board = board_of(("a", [1000], 9, 9), ("a", [400], 9, 9))
    held = held_on(board, 1, HALF, 0, 0)

    assert find(board, WHOLE, Movables([held])) is None


def test_what_may_not_move_stays() -> None:
    """Only what is named as movable is moved."""
    board = board_of(("a", [1000], 9, 9), ("a", [1000], 9, 9))
    take(board.rows, 0, (0,), HALF)
    take(board.rows, 1, (0,), HALF)

    assert find(board, WHOLE, Movables()) is None


def test_whoever_moved_can_move_no_more_from_where_it_was() -> None:
    """The record follows."""
    board = board_of(("a", [1000], 9, 9), ("a", [1000], 9, 9))
    held = [held_on(board, 1, HALF, 0, 0), held_on(board, 2, HALF, 1, 0)]
    movables = Movables(held)
    for one in held:
        movables.remove(one)

    assert movables.shapes() == []
    assert find(board, WHOLE, movables) is None


@given(
    st.lists(packings.nodes, min_size=2, max_size=4),
    st.lists(st.tuples(st.sampled_from([SMALL, HALF, Ask(0, 0, 3, 3)]), st.integers(0, 3))),
    st.sampled_from([WHOLE, HALF, Ask(2, 1000, 4, 4), Ask(1, 700, 9, 2, ("a",))]),
)
@settings(deadline=None)  # a linear programme in each example
def test_a_plan_works_and_looking_changes_nothing(
    some: list[Node], work: list[tuple[Ask, int]], ask: Ask
) -> None:
    """Carried out, the plan overcommits nothing; one that moves is found whenever there is one."""
    board = board_of(*some)
    movables, all_held = Movables(), []
    for key, (one, wish) in enumerate(work):
        row = wish % len(some)
        if board.scores(one)[row] > 0:
            held = held_on(board, key, one, row, *devices_for(board, one, row))
            movables.add(held)
            all_held.append(held)
    if board.best(ask) is not None:
        return
    before = _figures(board.rows)

    found = find(board, ask, movables)

    assert before == _figures(board.rows)
    if found is None:
        assert not any(_one_move_helps(board, ask, held) for held in all_held)
    else:
        _carry_out(board.rows, ask, found)


def _figures(rows: Rows) -> list[tuple[list[int], int, int]]:
    return [(list(free), cpu_milli, memory_mib) for free, cpu_milli, memory_mib in rows.plain]


def _carry_out(rows: Rows, ask: Ask, found: Moves) -> None:
    for move in found.moves:
        give(rows, move.held.row, move.held.positions, move.held.ask)
    take(rows, found.row, found.positions, ask)
    assert len(found.positions) == ask.devices
    for move in found.moves:
        take(rows, move.row, move.positions, move.held.ask)
        assert len(move.positions) == move.held.ask.devices
    for free, cpu_milli, memory_mib in rows.plain:
        assert min([*free, cpu_milli, memory_mib]) >= 0


def _one_move_helps(board: Board, ask: Ask, held: Held) -> bool:
    """Brute force: it moves to any row, on any device, and then the ask fits."""
    rows = board.rows
    give(rows, held.row, held.positions, held.ask)
    helps = False
    for row in range(len(rows)):
        free, cpu_milli, memory_mib = rows.plain[row]
        if cpu_milli < held.ask.cpu_milli or memory_mib < held.ask.memory_mib:
            continue
        devices = [(i,) for i, left in enumerate(free) if left >= held.ask.milli]
        for positions in devices if held.ask.devices else [()]:
            take(rows, row, positions, held.ask)
            helps = helps or board.best(ask) == held.row
            give(rows, row, positions, held.ask)
    take(rows, held.row, held.positions, held.ask)
    return helps
