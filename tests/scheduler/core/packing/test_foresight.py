"""Places by expected loss: patterns, stranded GPUs, scarce kinds."""

import numpy as np
import packings
from hypothesis import given, settings
from hypothesis import strategies as st
from packings import Node

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.foresight import Foresight
from gpucommons.scheduler.core.packing.learning import NEUTRAL, Known
from gpucommons.scheduler.core.packing.outlook import claimed_part
from gpucommons.scheduler.core.packing.rows import Rows
from gpucommons.scheduler.core.packing.score_board import FEW, NO_FIT, Board


def board_of(known: Known, *nodes: Node) -> Board:
    """A board on rows with these kinds, free devices, processor and memory."""
    rows = packings.rows_of(*nodes)
    return Board(rows, Foresight(known, rows))


def test_a_share_completes_a_pattern_rather_than_any_device() -> None:
    """470 goes beside 470, not into the room that 650 waits for."""
    known: Known = ((Ask(1, 470, 0, 0), 20), (Ask(1, 650, 0, 0), 10), (Ask(1, 350, 0, 0), 10))
    board = board_of(known, ("a", [650, 530], 9, 9))

    assert board.device(Ask(1, 470, 0, 0), 0) == 1
    assert board.device(Ask(1, 650, 0, 0), 0) == 0


def test_hungry_work_goes_where_processors_are_plenty() -> None:
    """Typical work needs 4 processors per GPU; on the lean node 8 at once would strand a GPU."""
    known: Known = ((Ask(1, 1000, 4000, 0), 10),)
    lean, rich = ("a", [1000] * 4, 16000, 9), ("a", [1000] * 4, 64000, 9)
    board = board_of(known, lean, rich)

    assert board.best(Ask(1, 1000, 8000, 0)) == 1
    assert board.best(Ask(1, 1000, 4000, 0)) == 0


def test_work_without_a_gpu_strands_none_and_keeps_away() -> None:
    """A CPU node first; else the GPU node that can spare processors."""
    known: Known = ((Ask(1, 1000, 4000, 0), 10),)
    lean, rich = ("a", [1000] * 4, 16000, 9), ("a", [1000] * 4, 64000, 9)

    assert board_of(known, lean, rich, ("", [], 32000, 9)).best(Ask(0, 0, 8000, 0)) == 2
    assert board_of(known, lean, rich).best(Ask(0, 0, 8000, 0)) == 1


def test_memory_strands_like_processors() -> None:
    """A node that is out of memory has no use of its GPUs."""
    known: Known = ((Ask(1, 1000, 0, 100), 10),)
    board = board_of(known, ("a", [1000] * 4, 9, 400), ("a", [1000] * 4, 9, 1600))

    assert board.best(Ask(1, 1000, 0, 200)) == 1


def test_work_that_can_go_anywhere_leaves_scarce_kinds_alone() -> None:
    """A third of all work needs the rare kind; the rest goes elsewhere while it can."""
    known: Known = ((Ask(1, 1000, 0, 0), 20), (Ask(1, 1000, 0, 0, ("rare",)), 10))
    nodes: list[Node] = [("rare", [1000], 9, 9), ("common", [1000] * 3, 9, 9)]
    board = board_of(known, *nodes)

    assert board.best(Ask(1, 1000, 0, 0)) == 1
    assert board.best(Ask(1, 1000, 0, 0, ("rare",))) == 0

    board.rows.write(1, [0, 0, 0], 9, 9)
    assert board.best(Ask(1, 1000, 0, 0)) == 0


def test_claims_are_parts_of_what_is_installed() -> None:
    """One clusterful: 4 GPUs of work, of which 1 for two rare GPUs and 1 for either kind."""
    rows = Rows(["rare", "common"], [2, 2])
    known: Known = (
        (Ask(1, 1000, 0, 0), 20000),
        (Ask(1, 1000, 0, 0, ("rare",)), 10000),
        (Ask(1, 1000, 0, 0, ("common", "rare")), 10000),
    )

    common, rare = claimed_part(known, rows).tolist()

    assert (common, rare) == (250, 750)


def test_a_kind_that_nobody_asked_for_yet_is_not_free_for_all() -> None:
    """Of what came, nothing was bound to the rare kind; something may be."""
    known: Known = ((Ask(1, 1000, 0, 0), 90), (Ask(1, 1000, 0, 0, ("common",)), 10))
    rows = Rows(["rare", *["common"] * 99], [8] * 100)

    common, rare = claimed_part(known, rows).tolist()

    assert common < 200
    assert rare == 1000


def test_where_no_work_is_bound_no_kind_is_claimed() -> None:
    """All kinds are alike."""
    rows = Rows(["rare", "common"], [2, 2])

    assert claimed_part(((Ask(1, 1000, 0, 0), 9),), rows).tolist() == [0, 0]


def test_a_new_cluster_packs_shares_together() -> None:
    """With nothing learned, a second share joins the first and whole devices stay whole."""
    board = board_of(NEUTRAL, ("a", [1000, 500], 9, 9), ("a", [1000, 1000], 9, 9))

    assert board.best(Ask(1, 500, 0, 0)) == 0
    assert board.device(Ask(1, 500, 0, 0), 0) == 1


def test_an_empty_cluster_has_no_place() -> None:
    """No rows, no answer."""
    assert board_of(NEUTRAL).best(Ask(1, 500, 0, 0)) is None


def test_a_shape_never_seen_is_placed_too() -> None:
    """An odd size breaks a device that is broken already."""
    known: Known = ((Ask(1, 470, 0, 0), 20), (Ask(1, 1000, 0, 0), 10))
    board = board_of(known, ("a", [1000, 530], 9, 9))

    assert np.array_equal(board.scores(Ask(1, 77, 0, 0)) > 0, [True])
    assert board.device(Ask(1, 77, 0, 0), 0) == 1


@given(
    st.lists(packings.nodes, min_size=FEW + 1, max_size=FEW + 4),
    st.lists(st.tuples(packings.asks, st.integers(1, 9)), min_size=1, max_size=8),
    packings.asks,
)
@settings(deadline=None)  # a linear programme in each example
def test_rows_scored_one_by_one_and_together_are_equal(
    some: list[Node], known: list[tuple[Ask, int]], ask: Ask
) -> None:
    """However many rows changed, a score is the same."""
    rows = packings.rows_of(*some)
    policy = Foresight(tuple(known), rows)

    together, devices = policy.scores(ask, rows, np.arange(len(rows)))
    single = [policy.one_by_one.score(ask, rows, row) for row in range(len(rows))]

    assert [score for score, _ in single] == together.tolist()
    for (_, device), score, chosen in zip(single, together, devices, strict=True):
        assert score == NO_FIT or not ask.shared or device == chosen
