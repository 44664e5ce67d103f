"""A smaller size is told only where each pool of the request makes it, and offers it."""

from __future__ import annotations

import pytest
from builders import World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.explain.offered_size import as_made
from gpucommons.scheduler.core.model.types import PoolName, Reason, ReasonClass

TRAIN, OTHER = PoolName("train"), PoolName("other")


def whole_in_other(pool: PoolName, milli_gpu: int) -> str | None:
    return "Whole GPUs only." if pool == OTHER and milli_gpu % 1000 else None


@pytest.mark.parametrize(
    ("pools", "size", "stays"),
    [
        ((TRAIN,), 500, True),
        ((OTHER,), 500, False),
        ((TRAIN, OTHER), 500, False),
        ((TRAIN, OTHER), 1000, True),
    ],
)
def test_a_smaller_size_stays_where_every_pool_makes_it(
    pools: tuple[PoolName, ...], size: int, *, stays: bool
) -> None:
    reason = Reason(
        code=ReasonClass.SHARE,
        text="Others are before it.",
        unblock="Would start now with less.",
        startable_milli_gpu=size,
    )
    found = as_made(reason, a_job("digits-1", 2000, pools=pools), whole_in_other)
    assert found is not None
    assert (found.unblock is not None, found.startable_milli_gpu is not None) == (stays, stays)
    assert found.text == reason.text


@pytest.mark.parametrize(
    ("unblock", "left"),
    [
        ("Would start now with ½ GPU.", None),
        (
            "Wait in line: it starts soon. Would start now with ½ GPU.",
            "Wait in line: it starts soon.",
        ),
        ("Ask an admin for more budget.", "Ask an admin for more budget."),
    ],
)
def test_what_else_would_help_is_still_told(unblock: str, left: str | None) -> None:
    reason = Reason(code=ReasonClass.SHARE, text="", unblock=unblock, startable_milli_gpu=500)
    found = as_made(reason, a_job("digits-1", 1000, pools=(OTHER,)), whole_in_other)
    assert found is not None
    assert found.unblock == left


def test_a_notebook_that_waits_is_told_no_size_that_its_pool_does_not_offer() -> None:
    world = World(
        a_node(gpus=1),
        pools=[a_pool(notebook_sizes=(250, 1000))],
        teams=[a_team(fixed_milli_gpu=1000)],
    )
    world.submit(a_notebook("ann", 250))
    reason = world.get(world.submit(a_notebook("bob", 1000))).reason
    assert reason is not None
    assert reason.startable_milli_gpu == 250
