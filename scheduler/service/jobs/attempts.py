"""What a running attempt reports about itself, and the orders it gets back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.state import (
    AttemptFinished,
    CheckpointReported,
    ProgressReported,
)
from gpucommons.scheduler.core.model.types import AttemptId, Checkpoint, Progress, Workload
from gpucommons.scheduler.curves.points import Counter, Point, Source, Unit
from gpucommons.scheduler.curves.storing import progress_of, stored_point
from gpucommons.scheduler.curves.trainer_status import point_of
from gpucommons.scheduler.data_loading import Loading
from gpucommons.scheduler.errors import StaleAttempt
from gpucommons.scheduler.file_storage.job_files import JobFiles
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs.attempt_files import files_of
from gpucommons.scheduler.service.lookup import speaker
from gpucommons.scheduler.service.service import Pending, Service
from gpucommons.scheduler.service.views.jobs import stop_view


def report_progress(
    service: Service, principal: Principal, report: models.ProgressReport
) -> models.AttemptOrders:
    """Take a progress report; the answer says when the attempt will be stopped."""
    workload, attempt = speaker(service, authorization.attempts.report_progress(principal))
    attempt_id = attempt.attempt_id
    progress = Progress(
        step=report.step,
        total_steps=report.total_steps,
        metrics=dict(report.metrics),
        at_ms=service.now_ms(),
    )
    told = report.loading
    loading = None if told is None else Loading(**told.model_dump())
    service.loop.observe(
        ProgressReported(attempt_id=attempt_id, progress=progress, loading=loading)
    )
    return _orders(workload)


def report_trainer_status(
    service: Service, principal: Principal, report: models.TrainerStatusReport
) -> models.AttemptOrders:
    """Take what a trainer posts by itself, in the words of its own protocol."""
    workload, attempt = speaker(service, authorization.attempts.report_trainer_status(principal))
    attempt_id = attempt.attempt_id
    status = report.trainerStatus
    metrics = {one.name: one.value for one in status.metrics}
    point = point_of(metrics, status.progressPercentage, _last_of_trainer(service, workload))
    if point is not None:
        _take_points(service, workload, attempt_id, [point], Source.TRAINER)
    return _orders(workload)


def report_curve(
    service: Service, principal: Principal, report: models.CurveReport
) -> models.AttemptOrders:
    """Take points that were read from files where the attempt runs."""
    workload, attempt = speaker(service, authorization.attempts.report_curve(principal))
    attempt_id = attempt.attempt_id
    points = [
        Point(counter=Counter(unit=Unit.STEP, step=one.step), metrics=one.metrics)
        for one in report.points
    ]
    _take_points(service, workload, attempt_id, points, Source(report.source))
    return _orders(workload)


def _last_of_trainer(service: Service, workload: Workload) -> Counter | None:
    """Where the trainer was last; a log that was read since may have told the job's progress."""
    told, attempt = workload.progress, workload.current
    if attempt is None or told is None:
        return None
    if told.source == Source.TRAINER:
        is_earlier = told.at_ms < attempt.reserved_ms
        if is_earlier or told.unit not in set(Unit):
            return None
        return Counter(unit=Unit(told.unit), step=told.step, total=told.total_steps)
    points = service.store.points(workload.workload_id, source=Source.TRAINER)
    kept = [one for one in points if one.attempt_number == attempt.number]
    last = kept[-1] if kept else None
    if last is None or last.unit not in set(Unit):
        return None
    return Counter(unit=Unit(last.unit), step=last.step)


def _take_points(
    service: Service,
    workload: Workload,
    attempt_id: AttemptId,
    points: Sequence[Point],
    source: Source,
) -> None:
    now_ms, attempt = service.now_ms(), workload.current
    newest = progress_of(max(points, key=lambda one: one.counter.step), source, now_ms)
    service.loop.observe(ProgressReported(attempt_id=attempt_id, progress=newest))
    told = [one for one in points if one.metrics]
    if attempt is not None and told:
        stored = [stored_point(attempt, one, source, now_ms) for one in told]
        service.loop.keep_points(workload.workload_id, stored)


def report_checkpoint(
    service: Service, principal: Principal, report: models.CheckpointReport
) -> Pending[models.AttemptOrders]:
    """Take a checkpoint's receipt; acknowledged once a cycle has committed it."""
    workload, attempt = speaker(service, authorization.attempts.report_checkpoint(principal))
    attempt_id = attempt.attempt_id
    checkpoint = Checkpoint(
        attempt_id=attempt_id,
        step=report.step,
        path=report.path,
        size_bytes=report.size_bytes,
        sha256=report.sha256,
        at_ms=service.now_ms(),
    )
    files = _files(service, workload)
    if not _has(workload, checkpoint):
        if files is not None:
            # A receipt means that it is there, whatever becomes of the pod.
            files.check(checkpoint)
        service.loop.observe(CheckpointReported(attempt_id=attempt_id, checkpoint=checkpoint))

    def probe() -> models.AttemptOrders | None:
        now = service.loop.cluster.workloads.get(workload.workload_id)
        found = now if now is not None else service.store.workload(workload.workload_id)
        if found is not None and _has(found, checkpoint):
            if files is not None:
                # Before the answer: an attempt that hears nothing hands it in again.
                files.accepted(found)
            return _orders(found)
        if found is None or not _is_current(found, attempt_id):
            raise StaleAttempt
        return None

    return Pending(probe=probe)


def report_finished(service: Service, principal: Principal) -> Pending[models.AttemptOrders]:
    """Take the word of an attempt that its work is done; acknowledged once a cycle has committed it."""
    workload, attempt = speaker(service, authorization.attempts.report_finished(principal))
    attempt_id = attempt.attempt_id
    service.loop.observe(AttemptFinished(attempt_id=attempt_id))

    def probe() -> models.AttemptOrders | None:
        now = service.loop.cluster.workloads.get(workload.workload_id)
        found = now if now is not None else service.store.workload(workload.workload_id)
        known = () if found is None else found.attempts
        if found is not None and any(
            one.attempt_id == attempt_id and one.finished_ms is not None for one in known
        ):
            return _orders(found)
        if found is None or not _is_current(found, attempt_id):
            raise StaleAttempt
        return None

    return Pending(probe=probe)


def attempt_orders(service: Service, principal: Principal) -> models.AttemptOrders:
    """Whether the attempt is to stop."""
    return _orders(speaker(service, authorization.attempts.attempt_orders(principal)).workload)


def workers_of(service: Service, principal: Principal) -> int:
    """How many workers the caller's attempt has."""
    return len(
        speaker(service, authorization.attempts.attempt_orders(principal)).attempt.placements
    )


def _files(service: Service, workload: Workload) -> JobFiles | None:
    attempt = workload.current
    return None if attempt is None else files_of(service, workload, attempt)


def _has(workload: Workload, checkpoint: Checkpoint) -> bool:
    """It, or a later one of the same attempt, is on record. A step may be saved once more."""
    known = workload.checkpoint
    if known is None or known.attempt_id != checkpoint.attempt_id:
        return False
    same = replace(known, at_ms=checkpoint.at_ms) == checkpoint
    return same or known.step > checkpoint.step


def _is_current(workload: Workload, attempt_id: AttemptId) -> bool:
    return workload.current is not None and workload.current.attempt_id == attempt_id


def _orders(workload: Workload) -> models.AttemptOrders:
    attempt = workload.current
    return models.AttemptOrders(stop=None if attempt is None else stop_view(attempt.stop))
