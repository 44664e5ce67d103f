"""Places kept for whose turn it is: decided once, and never idle for longer than a minimum run."""

from __future__ import annotations

import os
from typing import Any

import pytest
from builders import World, a_job, a_node, a_pool, a_team
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.types import State, TeamName, WorkloadId

EXAMPLES = int(os.environ.get("GPUCOMMONS_EXAMPLES", "60"))
#: Ten thousand clusters take their time.
pytestmark = pytest.mark.timeout(max(300, EXAMPLES))
many = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 100)
MINUTE = 60_000
MIN_RUN_MS = 10 * MINUTE
GPUS = 6
#: GPUs and minutes of the next job of a team, and how long after the one before it is submitted.
small = st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from([20, 60, 240]))
large = st.tuples(st.sampled_from([3, 4, 6]), st.sampled_from([20, 60]))


class Days:
    """One node, a team of small jobs and one of large ones that both only borrow."""

    def __init__(self, jobs: dict[str, Any], weights: tuple[int, int]) -> None:
        pool = a_pool(half_life_ms=120 * MINUTE, min_run_ms=MIN_RUN_MS, moved_permille=0)
        teams = [a_team(name, over_quota_weight=w) for name, w in zip("ab", weights, strict=True)]
        self.world = World(a_node("n0", gpus=GPUS), teams=teams, pools=[pool])
        self.left = {team: list(of) for team, of in jobs.items()}
        self.minutes: dict[WorkloadId, int] = {}
        self.ends: dict[WorkloadId, int] = {}

    def of(self, *states: State) -> list[WorkloadId]:
        """The jobs in these states."""
        return [i for i, one in self.world.cluster.workloads.items() if one.state in states]

    @property
    def idle(self) -> set[DeviceId]:
        """The GPUs that nobody holds."""
        cluster = self.world.cluster
        attempts = [one.current for one in cluster.workloads.values() if one.current]
        held = {i for one in attempts for place in one.placements for i in place.device_ids}
        return {one.device_id for node in cluster.nodes.values() for one in node.devices} - held

    def tick(self) -> None:
        """Five minutes: what is over ends, what starts starts, each team has two in line."""
        self.world.wait(5 * MINUTE)
        for job in self.of(State.PREEMPTING):
            self.world.end(job, 143)
            self.ends.pop(job, None)
        for job in [job for job, at_ms in self.ends.items() if at_ms <= self.world.now]:
            if job in self.of(State.RUNNING):
                self.world.end(job)
            del self.ends[job]
        for team, ahead in self.left.items():
            queued = [i for i in self.of(State.QUEUED) if self.world.get(i).spec.team == team]
            for gpus, minutes in ahead[: max(0, 2 - len(queued))]:
                ahead.pop(0)
                job = self.world.submit(a_job(team, gpus * 1000, team=TeamName(team)))
                self.minutes[job] = minutes
        for job in self.of(State.STARTING):
            self.world.start(job)
            self.ends[job] = self.world.now + self.minutes[job] * MINUTE


@many
@given(
    st.lists(small, min_size=15, max_size=30),
    st.lists(large, min_size=3, max_size=8),
    st.sampled_from([(1, 1), (1, 3)]),
)
def test_what_is_kept_is_idle_no_longer_than_a_borrower_would_have_it(
    of_a: Any, of_b: Any, weights: tuple[int, int]
) -> None:
    days = Days({"a": of_a, "b": of_b}, weights)
    since_ms: dict[DeviceId, int] = {}
    for _ in range(150):
        days.tick()
        decided = days.world.cluster
        assert days.world.step().changes.empty
        assert days.world.cluster == decided
        fits = any(
            one.spec.roles[0].milli_gpu <= len(days.idle) * 1000
            for one in map(days.world.get, days.of(State.QUEUED))
        )
        if not fits or days.of(State.NOMINATED, State.PREEMPTING):
            since_ms.clear()
            continue
        since_ms = {gpu: since_ms.get(gpu, days.world.now) for gpu in days.idle}
        event(
            "a place is kept" if days.world.cluster.fair_share_reservations else "no place is kept"
        )
        # The last that became idle is the more for which a place is kept anew.
        assert days.world.now - max(since_ms.values()) <= MIN_RUN_MS
