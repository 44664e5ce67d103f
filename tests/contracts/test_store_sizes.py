"""The contract of every store for jobs whose size was changed: memory, SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

from stored_rows import NOW, job

from gpucommons.scheduler.core.events.job_size import as_submitted, size_of, with_size
from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import Resized
from gpucommons.scheduler.store.base import Store


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
