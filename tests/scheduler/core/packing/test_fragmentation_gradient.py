"""Scores by the fragmentation gradient, checked by hand and against a slow reference."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from packings import Node, asks, nodes, rows_of

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.gradient import Gradient
from gpucommons.scheduler.core.packing.score_board import NO_FIT, Board
from gpucommons.scheduler.core.packing.worth import Worth


def usable_by_hand(node: Node, typical: list[tuple[Ask, int]]) -> int:
    """Usable milli-GPU as the paper defines it, shape by shape and device by device."""
    kind, free, cpu_milli, memory_mib = node
    total = 0
    for ask, weight in typical:
        good = [left for left in free if left >= ask.milli]
        fits = len(good) >= ask.devices and cpu_milli >= ask.cpu_milli
        if ask.devices and fits and memory_mib >= ask.memory_mib and ask.accepts(kind):
            total += weight * sum(good)
    return total


typicals = st.lists(st.tuples(asks, st.integers(1, 9)), min_size=1, max_size=8)


def test_a_share_goes_where_a_whole_gpu_is_not_broken() -> None:
    """Typical work is one whole GPU: 300 of a device that is cut already wastes nothing more."""
    rows = rows_of(("a", [1000, 1000], 9, 9), ("a", [1000, 400], 9, 9))
    gradient = Gradient([(Ask(1, 1000, 0, 0), 1)], rows.kind_names)

    scores, devices = gradient.scores(Ask(1, 300, 1, 1), rows, np.arange(2))

    # Row 0: 1000 usable are lost for 300 spent, growth 700. Row 1, device 1: growth -300.
    assert [int(100 / (1 + math.exp(0.7))), int(100 / (1 + math.exp(-0.3)))] == scores.tolist()
    assert devices[1] == 1


def test_processor_that_the_rest_needs_counts() -> None:
    """Taking the processor away strands a GPU that typical work could have used."""
    rows = rows_of(("a", [1000, 1000], 8, 9), ("a", [1000, 1000], 12, 9))
    gradient = Gradient([(Ask(1, 1000, 4, 0), 1)], rows.kind_names)

    scores, _ = gradient.scores(Ask(1, 1000, 6, 0), rows, np.arange(2))

    # Row 0 keeps one GPU with 2 processors: 1000 stranded. Row 1 keeps it usable: nothing lost.
    assert [int(100 / (1 + math.exp(1))), 50] == scores.tolist()


def test_of_equals_the_first_row_is_taken() -> None:
    """Fixed order decides ties, for always the same place."""
    rows = rows_of(*[("a", [1000], 9, 9)] * 3)
    board = Board(rows, Gradient([(Ask(1, 1000, 0, 0), 1)], rows.kind_names))

    assert board.best(Ask(1, 500, 1, 1)) == 0


def test_what_does_not_fit_is_never_chosen() -> None:
    """Processor, memory, device share, device count and kind are hard limits."""
    rows = rows_of(("a", [900, 900], 9, 9))
    board = Board(rows, Gradient([(Ask(1, 1000, 0, 0), 1)], rows.kind_names))

    for ask in (
        Ask(1, 500, 10, 0),
        Ask(1, 500, 0, 10),
        Ask(1, 901, 0, 0),
        Ask(2, 1000, 0, 0),
        Ask(1, 500, 0, 0, ("b",)),
    ):
        assert board.best(ask) is None
    assert board.best(Ask(1, 900, 9, 9, ("a",))) == 0


def test_a_refused_row_comes_back_when_it_changes() -> None:
    """A finer check may rule a row out, but only as it is now."""
    rows = rows_of(("a", [900], 9, 9))
    board = Board(rows, Gradient([(Ask(1, 1000, 0, 0), 1)], rows.kind_names))
    ask = Ask(1, 500, 1, 1)
    assert board.best(ask) == 0

    board.refuse(ask, 0)
    assert board.best(ask) is None

    rows.write(0, [800], 9, 9)
    assert board.best(ask) == 0


@given(st.lists(nodes, min_size=1, max_size=4), typicals)
def test_tables_say_what_the_definition_says(
    some: list[Node], typical: list[tuple[Ask, int]]
) -> None:
    """Usable milli-GPU from the tables is that of the paper's definition."""
    rows = rows_of(*some)

    usable = Worth(typical, rows.kind_names).usable(rows, np.arange(len(some)))

    assert [usable_by_hand(node, typical) for node in some] == usable.tolist()


@given(nodes, typicals, asks)
def test_growth_is_the_difference_a_placement_makes(
    node: Node, typical: list[tuple[Ask, int]], ask: Ask
) -> None:
    """The growth per device equals fragmentation afterwards minus fragmentation before."""
    rows = rows_of(node)
    kind, free, cpu_milli, memory_mib = node
    weight = sum(count for _, count in typical)
    fitting = [i for i, left in enumerate(free) if left >= ask.milli]
    if len(fitting) < ask.devices or cpu_milli < ask.cpu_milli or memory_mib < ask.memory_mib:
        assert Board(rows, Gradient(typical, rows.kind_names)).best(ask) is None
        return

    growth, _ = Worth(typical, rows.kind_names).growth(ask, rows, np.arange(1))

    choices = [[i] for i in fitting] if ask.shared else [fitting[: ask.devices]]
    for choice in choices:
        left = [v - ask.milli * (i in choice) for i, v in enumerate(free)]
        after: Node = (kind, left, cpu_milli - ask.cpu_milli, memory_mib - ask.memory_mib)
        wanted = weight * (sum(left) - sum(free))
        wanted -= usable_by_hand(after, typical) - usable_by_hand(node, typical)
        assert wanted == growth[0, choice[0] if ask.shared else 0]


@given(
    st.lists(nodes, min_size=1, max_size=5),
    typicals,
    st.lists(st.tuples(asks, st.integers(0, 4), nodes), max_size=12),
)
def test_scores_kept_up_to_date_equal_scores_from_scratch(
    some: list[Node], typical: list[tuple[Ask, int]], steps: list[tuple[Ask, int, Node]]
) -> None:
    """Whatever is asked and written in between, the board says what a new board would say."""
    rows = rows_of(*[(kind, [*free, 0, 0, 0][:4], cpu, mem) for kind, free, cpu, mem in some])
    gradient = Gradient(typical, rows.kind_names)
    board = Board(rows, gradient)

    for ask, where, (_, free, cpu_milli, memory_mib) in steps:
        rows.write(where % len(rows), free, cpu_milli, memory_mib)
        fresh = Board(rows, gradient)
        assert fresh.scores(ask).tolist() == board.scores(ask).tolist()
        best = board.best(ask)
        assert fresh.best(ask) == best
        assert best is None or board.scores(ask)[best] > NO_FIT
        if best is not None and ask.shared:
            assert rows.free[best, board.device(ask, best)] >= ask.milli


def test_many_demands_are_told_apart_coarsely() -> None:
    """Thousands of shapes: the tables stay small, and only what surely fits counts as usable."""
    typical = [(Ask(1, 1 + i % 1000, i % 977, i % 991), 1) for i in range(3000)]
    nodes = [("a", [1000, 500], 500, 500), ("a", [1000, 1000], 2000, 2000)]
    rows = rows_of(*nodes)

    usable = Worth(typical, rows.kind_names).usable(rows, np.arange(2)).tolist()

    exact = [usable_by_hand(node, typical) for node in nodes]
    assert exact[0] * 0.7 < usable[0] <= exact[0]
    assert exact[1] * 0.95 < usable[1] <= exact[1]
