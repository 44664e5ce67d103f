"""What trials found is known until something moves."""

from __future__ import annotations

from dataclasses import replace

from service_world import ServiceWorld, a_request

from gpucommons.scheduler.core.model.types import Idleness, Millis, Progress, State, WorkloadId
from gpucommons.scheduler.service.in_memory.trial_cycles import FRESH_MS, KnownTrials, Trials
from gpucommons.scheduler.service.jobs import jobs

NOW = Millis(1_000)
TRIALS = Trials(made_ms=NOW, ways=(), at_latest_ms=None)


def test_reports_of_progress_keep_what_is_known_and_a_move_does_not(world: ServiceWorld) -> None:
    job = jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    world.pass_time(1_000)
    cluster, name = world.cluster, WorkloadId(job.id)
    known = KnownTrials()
    known.keep(cluster, name, TRIALS)

    def with_job(**changes: object) -> object:
        changed = replace(cluster.workloads[name], **changes)  # type: ignore[arg-type] # any field
        return replace(cluster, workloads={**cluster.workloads, name: changed})

    # It idles since, or may not start before: what would help, and when, is another answer.
    for changes in (
        {"idleness": Idleness(idle_since_ms=NOW)},
        {"not_before_ms": Millis(NOW + 60_000)},
        {"withdrawn_ms": (NOW,)},
    ):
        assert known.found(with_job(**changes), name, NOW) is None  # type: ignore[arg-type] # a cluster
    reported, moved = with_job(progress=Progress(step=7)), with_job(state=State.PAUSED)
    assert known.found(reported, name, NOW) == TRIALS  # type: ignore[arg-type] # a cluster
    assert known.found(moved, name, NOW) is None  # type: ignore[arg-type] # a cluster
    assert known.found(cluster, name, Millis(NOW + FRESH_MS + 1)) is None
