"""Nobody is stopped for a job that would fit where nobody is, whatever its guarantee gives it a right to."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from properties import truths
from properties.histories import History, days, step

from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import HoldClass, Workload

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
#: Ten thousand histories take their time.
pytestmark = pytest.mark.timeout(max(300, EXAMPLES))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 100,
    suppress_health_check=list(HealthCheck),
)

#: All but the part of a GPU beside a notebook is borrowed, then a job of a guarantee comes.
FREE_BESIDE_A_NOTEBOOK = [
    ("acquire", 1, 0, 2, 0),
    *[("submit", 2, 4, 0, 0)] * 6,
    ("submit", 1, 1, 0, 0),
]


@many
@example(FREE_BESIDE_A_NOTEBOOK)
@given(days(step))
def test_nobody_is_stopped_for_a_job_that_fits_where_nobody_is(steps: Any) -> None:
    """At the decision, and as long as all who are in the way can be spared."""

    def check(history: History) -> None:
        cluster = history.world.cluster
        if cluster.fair_share_reservations:
            return  # what is kept for somebody's turn is not free to others
        for workload in cluster.workloads.values():
            if _could_still_spare(cluster, workload) and _may_borrow(cluster, workload):
                taken = [
                    truths.held_by(cluster, *HoldClass),
                    truths.promised(cluster, *HoldClass, leaving=workload),
                ]
                free = truths.Free(cluster, taken)
                assert not free.fits(truths.needed(workload)), workload

    History(check, nodes=(4, 3)).play(steps)


def _could_still_spare(cluster: Cluster, workload: Workload) -> bool:
    """A job for which others are to be stopped, and none of them has been signalled."""
    nomination = workload.nomination
    if nomination is None or workload.current is not None or is_lease(workload):
        return False
    stops = [one.stop for one in truths.victims_of(cluster, nomination.victims)]
    return not any(stop is not None and stop.signalled for stop in stops)


def _may_borrow(cluster: Cluster, workload: Workload) -> bool:
    """Neither its owner nor its team's limit forbids it."""
    nomination = workload.nomination
    assert nomination is not None
    mine = sum(one.milli_gpu * len(one.device_ids) for one in nomination.placements)
    need = sum(truths.needed(workload))
    others = sum(truths.training_use(cluster, workload.spec.team)) - mine
    limit = truths.quota_of(cluster, workload).limit_milli_gpu
    return workload.spec.over_quota and (limit is None or others + need <= limit)
