"""Files of attempts away from their notebooks: what they fetch, hand over, and are ordered."""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.state import FilesKept
from gpucommons.scheduler.core.model.types import Attempt, Workload
from gpucommons.scheduler.errors import Misconfigured, NotFound
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import current_attempt, speaks_as
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.where_it_runs import executor_of
from gpucommons.scheduler.storage.job_files import JobFiles

#: As for jobs of this machine.
MAX_UNPACKED_BYTES = 4 << 30


def files_of(service: Service, workload: Workload, attempt: Attempt) -> JobFiles | None:
    """Where the attempt's files are kept; None where its executor keeps them itself."""
    cluster = service.loop.cluster
    return service.files.get(executor_of(cluster, workload, attempt) or "")


def attempt_inputs(service: Service, principal: Principal) -> models.AttemptInputs:
    """What the attempt needs before its command runs."""
    attempt_id = authorization.attempt_inputs(principal)
    workload = current_attempt(service, attempt_id)
    return models.AttemptInputs(
        snapshot=_snapshot(service, workload),
        work=_work(service, workload),
        checkpoint=_checkpoint(service, workload),
    )


def _work(service: Service, workload: Workload) -> list[models.DownloadView] | None:
    attempt = workload.current
    files = None if attempt is None else files_of(service, workload, attempt)
    return None if files is None or attempt is None else files.work_files(workload, attempt)


def _snapshot(service: Service, workload: Workload) -> models.SnapshotInput | None:
    sha256 = workload.spec.snapshot
    if sha256 is None:
        return None
    return models.SnapshotInput(
        sha256=sha256, link=service.snapshots.link(sha256), max_unpacked_bytes=MAX_UNPACKED_BYTES
    )


def _checkpoint(service: Service, workload: Workload) -> models.CheckpointInput | None:
    attempt = workload.current
    if attempt is None or attempt.resumed_from is None:
        return None
    files = files_of(service, workload, attempt)
    resumed = attempt.resumed_from
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
    attempt_id = authorization.attempt_snapshot(principal)
    sha256 = current_attempt(service, attempt_id).spec.snapshot
    if sha256 is None:
        raise NotFound("This job has no files of its own.")
    return service.snapshots.chunks(sha256)


def attempt_uploads(
    service: Service, principal: Principal, request: models.UploadRequest
) -> models.UploadList:
    """Links with which the attempt hands files over, all below its own folder."""
    attempt_id = authorization.attempt_uploads(principal)
    workload = current_attempt(service, attempt_id)
    attempt = workload.current
    files = None if attempt is None else files_of(service, workload, attempt)
    if files is None:
        raise Misconfigured(
            "Files of this job are kept by writing them below GPUCOMMONS_ATTEMPT_DIR: there is"
            " nothing to upload."
        )
    return files.uploads(attempt_id, request)


def report_kept(
    service: Service, principal: Principal, report: models.KeptReport
) -> models.AttemptOrders:
    """At its end an attempt tells what it has handed over of its working folder."""
    attempt_id = authorization.report_kept(principal)
    workload = current_attempt(service, attempt_id)
    attempt = workload.current
    files = None if attempt is None else files_of(service, workload, attempt)
    if files is None or attempt is None:
        raise Misconfigured("The working folder of this job is handed over by its machine.")
    files.keep(workload, attempt, report)
    attempt_id = speaks_as(workload, attempt_id)
    service.loop.observe(FilesKept(attempt_id=attempt_id, files=report.files))
    return models.AttemptOrders()
