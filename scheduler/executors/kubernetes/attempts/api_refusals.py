"""What the cluster refuses to do for attempts, as sentences for whoever owns or runs them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.executors.kubernetes.attempts import sentences
from gpucommons.scheduler.executors.kubernetes.attempts.records import Record


def by_workload(records: Iterable[Record]) -> Mapping[WorkloadId, str]:
    """For each owner, what is refused for the job."""
    return {
        record.attempt.workload_id: sentences.cannot(str(key[0]), message)
        for record in records
        if record.ended is None
        for key, message in tuple(record.refused.items())[:1]
    }


def by_kind(records: Iterable[Record]) -> Mapping[str, str]:
    """For an admin: one example of each kind, however many jobs meet the same refusal."""
    found: dict[str, str] = {}
    for record in sorted(records, key=lambda one: one.attempt.attempt_id):
        for key, message in record.refused.items() if record.ended is None else ():
            found.setdefault(f"jobs/{key[0]}", sentences.cannot(str(key[0]), message))
    return found
