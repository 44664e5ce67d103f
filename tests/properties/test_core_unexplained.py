"""Reasons are told and never decided by: a replay leaves them out, and goes as the real pool goes.

Every step of a random history is decided twice: by a core that tells everybody why it waits, and by one
that tells nobody anything and was told nothing before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import builders
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.histories import History, as_well_as, days, rough

from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.intents import Verdict
from gpucommons.scheduler.core.model.state import Cluster, Outcome
from gpucommons.scheduler.core.model.types import Workload

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
pytestmark = pytest.mark.timeout(max(300, 2 * EXAMPLES))


def _bare(workloads: Iterable[Workload]) -> dict[str, Workload]:
    return {one.workload_id: replace(one, reason=None) for one in workloads}


def _untold(cluster: Cluster) -> Cluster:
    """The cluster as it is in a replay: nobody in it knows why it waits."""
    return replace(cluster.apart(), workloads=_bare(cluster.workloads.values()))


def _answer(verdict: Verdict) -> Verdict:
    """A start that is refused is told the reason of its wait, where there is one."""
    return replace(verdict, text="")


def _decided(outcome: Outcome) -> Any:
    changes = outcome.changes
    told = replace(changes, workloads=(), verdicts=tuple(_answer(one) for one in changes.verdicts))
    return _untold(outcome.cluster), told, outcome.actions, outcome.wake_ms


def _unexplained(cluster: Cluster, *asked: Any, **more: Any) -> Outcome:
    return advance(_untold(cluster), *asked, **more, explain=False)


#: An elastic job beside one that never starts: nothing but a reason tells that one from who waits for room.
GROWING = [
    ("submit", 0, 7, 0, 0),
    ("submit", 0, 4, 7, 0),
    ("submit", 2, 7, 0, 1),
    ("finish", 0, 0, 0, 0),
]
small = st.integers(0, 7)
saves = st.tuples(st.just("checkpoint"), small, small, small, small)
waits = st.tuples(st.just("wait"), small, small, small, small)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 100,
    suppress_health_check=list(HealthCheck),
)
@given(
    days(st.one_of(rough, saves, waits)),
    st.sampled_from([0, 500, 1000]),
    st.sampled_from([64_000, 2000]),
)
def test_with_reasons_and_without_the_core_decides_the_same(
    steps: Any, headroom: int, cpu_milli: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builders, "advance", as_well_as(_unexplained, _decided))
        history = History(lambda _: None, headroom=headroom, cpu_milli=cpu_milli)
        history.play([*GROWING, *steps])
