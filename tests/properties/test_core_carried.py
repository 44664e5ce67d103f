"""What a cycle hands on to the next saves work and changes nothing.

Every step of a random history is decided twice: by a core that goes on from what the last cycle
worked out, and by one that works it out anew from the cluster alone.
"""

from __future__ import annotations

import os
from typing import Any

import builders
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.histories import History, as_well_as, days, rough

from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.state import Cluster, Outcome

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
pytestmark = pytest.mark.timeout(max(300, 2 * EXAMPLES))


def _anew(cluster: Cluster, *asked: Any, **more: Any) -> Outcome:
    return advance(cluster.apart(), *asked, **more)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 100,
    suppress_health_check=list(HealthCheck),
)
@given(
    days(rough),
    st.sampled_from([0, 500, 1000]),
    st.sampled_from([64_000, 2000]),
    st.sampled_from([(60_000, 0, 0), (0, 0, 0), (0, 300_000, 0), (0, 300_000, 400)]),
)
def test_going_on_and_beginning_anew_decide_the_same(
    steps: Any, headroom: int, cpu_milli: int, pauses: tuple[int, int, int]
) -> None:
    min_run_ms, lend_after_ms, unlent_permille = pauses
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builders, "advance", as_well_as(_anew))
        history = History(
            lambda _: None,
            headroom=headroom,
            cpu_milli=cpu_milli,
            min_run_ms=min_run_ms,
            lend_after_ms=lend_after_ms,
            unlent_permille=unlent_permille,
        )
        history.play(steps)


def test_a_trial_does_not_take_what_the_next_cycle_goes_on_from() -> None:
    world = builders.World(teams=[builders.a_team()])
    world.run(builders.a_job())
    advance(world.cluster.apart(), (), (), now_ms=world.now, new_ids=iter(()))
    made_of = (world.cluster.workloads, world.cluster.nodes)
    assert world.cluster.derived.take((dict(world.cluster.workloads), world.cluster.nodes)) is None
    assert world.cluster.derived.take(made_of) is not None
    assert world.cluster.derived.take(made_of) is None
    assert not world.wait(0).changes.workloads
