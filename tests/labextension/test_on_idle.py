from typing import Any

import pytest

from gpucommons.labextension.on_idle import keeps_nothing
from gpucommons.scheduler.models import IdleView, LeaseView

NOW_MS = 1_800_000_000_000


def a_lease(state: str = "warned", **idle: Any) -> LeaseView:
    told = {"on_idle": "cull", "returns_ms": NOW_MS} | idle
    return LeaseView(
        id="019",
        user="ann",
        server_name="",
        team="vision",
        pool="build",
        state=state,
        milli_gpu=500,
        requested_ms=1,
        since_ms=1,
        idle=IdleView(**told),
    )


def test_nothing_is_kept_where_that_was_chosen_and_the_announced_time_has_come() -> None:
    assert keeps_nothing(a_lease(), NOW_MS)


@pytest.mark.parametrize(
    "lease",
    [
        None,
        a_lease("active"),
        a_lease(on_idle="hibernate"),
        a_lease(on_idle="release"),
        a_lease(returns_ms=NOW_MS + 60_000),
        a_lease(returns_ms=None),
        a_lease(reclaimed=True),
    ],
)
def test_any_other_stop_keeps_what_it_can(lease: LeaseView | None) -> None:
    assert not keeps_nothing(lease, NOW_MS)
