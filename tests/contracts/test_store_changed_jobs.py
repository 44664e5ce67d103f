"""What stops, and people, have changed of a job, what is parked, and badges: every store keeps them."""

from __future__ import annotations

from dataclasses import replace

from stored_rows import NOW, job

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.events.job_size import as_submitted, size_of, with_size
from gpucommons.scheduler.core.going_on.drill_verdict import confined
from gpucommons.scheduler.core.model.going_on import Badge, BadgeKey, Drill, Resized
from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Kind,
    Millis,
    NodeId,
    Parked,
    State,
    WorkerPlacement,
)
from gpucommons.scheduler.store.base import Store

KEY, OTHER = BadgeKey("a" * 64), BadgeKey("b" * 64)
BADGE = Badge(team="vision", job="digits-1", way="checkpoint", given_ms=NOW, took_ms=41_000)


def test_badges_come_and_go_with_the_cycle_that_says_so(store: Store) -> None:
    epoch, mirror = store.take_lead("me"), store.mirror()
    other = replace(BADGE, job="digits-2")
    store.commit(epoch, Changes(now_ms=NOW, badges={KEY: BADGE, OTHER: other}))
    assert dict(store.load().badges) == {KEY: BADGE, OTHER: other}
    assert dict(mirror.refresh().badges) == {KEY: BADGE, OTHER: other}
    store.commit(epoch, Changes(now_ms=NOW, removed_badges=(KEY,)))
    assert dict(store.load().badges) == {OTHER: other}
    assert dict(mirror.refresh().badges) == {OTHER: other}


def test_a_job_that_failed_its_test_is_kept_from_borrowing_after_a_restart(store: Store) -> None:
    failed = Drill(
        attempt=1,
        way="checkpoint",
        begun_ms=NOW,
        stopped_ms=NOW,
        on_purpose=True,
        tested=True,
        failed="it had step 200 and began again at step 1",
    )
    workload = confined(replace(job(1), drill=failed))
    assert not workload.spec.over_quota
    store.commit(store.take_lead("me"), Changes(now_ms=NOW, workloads=(workload,)))
    assert store.workload(workload.workload_id) == workload


def test_a_changed_size_is_stored_beside_what_was_submitted(store: Store) -> None:
    epoch = store.take_lead("me")
    before = job(1)
    store.commit(epoch, Changes(now_ms=NOW, workloads=(before,)))
    submitted = size_of(before.spec)
    now = replace(submitted, milli_gpu=250, workers=2)
    resized = Resized(submitted=submitted, now=now)
    after = replace(before, spec=with_size(before.spec, now), resized=resized)
    store.commit(epoch, Changes(now_ms=NOW, workloads=(after,)))
    loaded = store.load().workloads[after.workload_id]
    assert loaded == after == store.workload(after.workload_id)
    assert as_submitted(loaded) == before.spec


def test_what_a_parked_notebook_has_on_the_host_is_known_after_a_restart(store: Store) -> None:
    place = WorkerPlacement(
        role="worker",
        index=0,
        node_id=NodeId("n1"),
        device_ids=(DeviceId("gpu-0"),),
        milli_gpu=500,
        slice_id=SliceId("slice-1"),
    )
    rest = Attempt(
        attempt_id=AttemptId("a" * 32),
        workload_id=job(1).workload_id,
        number=1,
        state=AttemptState.ENDED,
        hold_class=HoldClass.FIXED,
        placements=(replace(place, device_ids=(), milli_gpu=0, slice_id=None),),
        reserved_ms=NOW,
    )
    lease = replace(
        job(1),
        spec=replace(job(1).spec, kind=Kind.NOTEBOOK),
        state=State.PARKED,
        parked=Parked(place=place, rest=rest, since_ms=NOW),
    )
    epoch, mirror = store.take_lead("me"), store.mirror()
    store.commit(epoch, Changes(now_ms=NOW, workloads=(lease,)))
    assert dict(store.load().workloads) == {lease.workload_id: lease}
    assert dict(mirror.refresh().workloads) == {lease.workload_id: lease}
    # It asks for its GPU: in line from then on, in the order of asking.
    waits = replace(lease, state=State.WAITING, submitted_ms=Millis(NOW + 5))
    store.commit(epoch, Changes(now_ms=NOW, workloads=(waits,)))
    assert dict(store.load().workloads) == {lease.workload_id: waits}
