"""What stops, and people, have changed of a job; and badges: every store keeps them."""

from __future__ import annotations

from dataclasses import replace

from stored_rows import NOW, job

from gpucommons.scheduler.core.events.job_size import as_submitted, size_of, with_size
from gpucommons.scheduler.core.going_on.drills import confined
from gpucommons.scheduler.core.model.kept import Badge, BadgeKey, Drill
from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import Resized
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
