"""What is learned of arrivals, and when."""

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.learning import (
    FIRST_LESSON,
    MEMORY,
    NEUTRAL,
    LearnedDemand,
    learned,
    typical_of,
)

WHOLE = Ask.of(1000, 4000, 8192)
HALF = Ask.of(500, 2000, 4096)
CPU = Ask.of(0, 8000, 4096)


def test_before_anything_was_seen_usual_sizes_are_typical() -> None:
    """A new cluster packs sensibly."""
    assert LearnedDemand().known == NEUTRAL
    assert LearnedDemand().after(WHOLE).known == NEUTRAL


def test_typical_work_is_what_came() -> None:
    """After the first lesson only arrivals count, work without a GPU among them."""
    demand = learned([WHOLE, HALF, CPU, WHOLE] * FIRST_LESSON)

    assert {(WHOLE, 32), (HALF, 16), (CPU, 16)} == set(demand.known)


def test_rare_shapes_are_left_out() -> None:
    """The rarest twentieth is noise."""
    assert typical_of(((WHOLE, 95), (HALF, 3), (CPU, 2))) == ((WHOLE, 95),)


def test_learning_leaves_the_earlier_value_alone() -> None:
    """Values are shared between cycles and threads."""
    before = LearnedDemand().after(WHOLE)
    before.after(HALF)

    assert before.counts == {WHOLE: 1}


def test_lessons_are_rare() -> None:
    """Scores rest on what is typical, so that changes seldom."""
    demand, lessons = LearnedDemand(), 0
    for _ in range(4000):
        after = demand.after(WHOLE)
        lessons += after.known is not demand.known
        demand = after

    assert lessons < 20


def test_old_work_fades() -> None:
    """A shape that no longer comes is forgotten, and memory stays bounded."""
    demand = learned([HALF] * 200)
    for _ in range(10):
        demand = demand.after(*[WHOLE] * (MEMORY // 2))

    assert HALF not in demand.counts
    assert demand.total <= MEMORY
