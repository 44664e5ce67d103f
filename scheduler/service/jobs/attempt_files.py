"""Files of attempts away from their notebooks: what they fetch, hand over, and are ordered."""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.state import FilesKept
from gpucommons.scheduler.core.model.types import Attempt, Workload
from gpucommons.scheduler.errors import Misconfigured, NotFound
from gpucommons.scheduler.file_storage.job_files import JobFiles
from gpucommons.scheduler.files.job_file_limits import MAX_UNPACKED_BYTES
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import speaker
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.where_it_runs import executor_of


def files_of(service: Service, workload: Workload, attempt: Attempt) -> JobFiles | None:
    """Where the attempt's files are kept; None where its executor keeps them itself."""
    cluster = service.loop.cluster
    return service.files.get(executor_of(cluster, workload, attempt) or "")


def attempt_inputs(service: Service, principal: Principal) -> models.AttemptInputs:
    """What the attempt needs before its command runs."""
    who = speaker(service, authorization.attempts.attempt_inputs(principal))
    files = files_of(service, *who)
    return models.AttemptInputs(
        snapshot=_snapshot(service, who.workload),
        work=None if files is None else files.work_files(*who),
        checkpoint=_checkpoint(who.attempt, files),
    )


def _snapshot(service: Service, workload: Workload) -> models.SnapshotInput | None:
    sha256 = workload.spec.snapshot
    if sha256 is None:
        return None
    return models.SnapshotInput(
        sha256=sha256, link=service.snapshots.link(sha256), max_unpacked_bytes=MAX_UNPACKED_BYTES
    )


def _checkpoint(attempt: Attempt, files: JobFiles | None) -> models.CheckpointInput | None:
    resumed = attempt.resumed_from
    if resumed is None:
        return None
    return models.CheckpointInput(
        path=resumed.path,
        size_bytes=resumed.size_bytes,
        sha256=resumed.sha256,
        files=None if files is None else files.checkpoint_files(resumed),
    )


def attempt_snapshot(service: Service, principal: Principal) -> Iterator[bytes]:
    """The files that the attempt's job runs from.

    Raises
    ------
    NotFound
        When the job has none.
    """
    attempt_id = authorization.attempts.attempt_snapshot(principal)
    sha256 = speaker(service, attempt_id).workload.spec.snapshot
    if sha256 is None:
        raise NotFound("This job has no files of its own.")
    return service.snapshots.chunks(sha256)


def attempt_uploads(
    service: Service, principal: Principal, request: models.UploadRequest
) -> models.UploadList:
    """Links with which the attempt hands files over, all below its own folder."""
    who = speaker(service, authorization.attempts.attempt_uploads(principal))
    files = files_of(service, *who)
    if files is None:
        raise Misconfigured(
            "Files of this job are kept by writing them below GPUCOMMONS_ATTEMPT_DIR: there is"
            " nothing to upload."
        )
    return files.uploads(who.attempt.attempt_id, request)


def report_kept(
    service: Service, principal: Principal, report: models.KeptReport
) -> models.AttemptOrders:
    """At its end an attempt tells what it has handed over of its working folder."""
    who = speaker(service, authorization.attempts.report_kept(principal))
    files = files_of(service, *who)
    if files is None:
        raise Misconfigured("The working folder of this job is handed over by its machine.")
    files.keep(*who, report)
    service.loop.observe(FilesKept(attempt_id=who.attempt.attempt_id, files=report.files))
    return models.AttemptOrders()
