"""What a cycle hands on to the next saves work and changes nothing.

Every step of a random history is decided twice: by a core that goes on from what the last cycle
worked out, and by one that works it out anew from the cluster alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import builders
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.histories import History, days, rough

from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.intents import Intent
from gpucommons.scheduler.core.model.state import Cluster, Observation, Outcome
from gpucommons.scheduler.core.model.types import Millis

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
pytestmark = pytest.mark.timeout(max(300, 2 * EXAMPLES))


def _both_ways(
    cluster: Cluster,
    intents: Sequence[Intent],
    observations: Sequence[Observation],
    *,
    now_ms: Millis,
    new_ids: Iterator[str],
) -> Outcome:
    drawn: list[str] = []

    def noting() -> Iterator[str]:
        for one in new_ids:
            drawn.append(one)
            yield one

    anew = advance(cluster.apart(), intents, observations, now_ms=now_ms, new_ids=noting())
    ids = chain(drawn, new_ids)
    going_on = advance(cluster, intents, observations, now_ms=now_ms, new_ids=ids)
    assert going_on == anew
    return going_on


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
        patch.setattr(builders, "advance", _both_ways)
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
