"""Processes of attempts away from here: how they run, and whether they are saved when they are stopped."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.core.going_on.hibernating import can_be_hibernated, kept_image
from gpucommons.scheduler.core.going_on.image_places import hindered_since
from gpucommons.scheduler.core.model.going_on import MAX_IMAGE_BYTES, Hibernation
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.state import Cluster, MemoryReported, TreeReported
from gpucommons.scheduler.core.model.types import AttemptId, Workload
from gpucommons.scheduler.errors import StaleAttempt
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import speaker
from gpucommons.scheduler.service.service import Pending, Service
from gpucommons.scheduler.working_folder.reported_image import said


def report_tree(
    service: Service, principal: Principal, report: models.TreeReport
) -> Pending[models.AttemptOrders]:
    """Take how an attempt runs; acknowledged once that is on record, for only then it counts as woken."""
    attempt_id = authorization.attempts.report_tree(principal)
    _of_its_own(service, attempt_id)
    known = Hibernation(
        hindrance=said(report.hindrance),
        cost_ms=report.cost_ms,
        woken_from=report.woken_from,
        not_woken=said(report.not_woken),
    )
    service.loop.observe(TreeReported(attempt_id=attempt_id, hibernation=known))
    if report.memory_mib is not None:
        seen = MemoryReported(
            attempt_id=attempt_id,
            memory_mib=report.memory_mib,
            save_mib_per_s=report.save_mib_per_s,
        )
        service.loop.observe(seen)

    def probe() -> models.AttemptOrders | None:
        workload = _of_its_own(service, attempt_id)
        current = workload.current
        return models.AttemptOrders() if current and current.hibernation is not None else None

    return Pending(probe=probe)


def attempt_saving(service: Service, principal: Principal) -> models.SavingView:
    """Whether a pod that was told to end saves its processes first, whoever ends it."""
    attempt_id = authorization.attempts.attempt_saving(principal)
    workload, cluster = _of_its_own(service, attempt_id), service.loop.cluster
    attempt = workload.current
    if attempt is None:
        return models.SavingView(saves=False)
    if attempt.stop is not None and attempt.stop.signalled:
        saves = attempt.stop.hibernates
    else:
        # A drain, an eviction, an upgrade of its node: nobody here has decided that.
        hindered = hindered_since(workload, cluster.pools, cluster.nodes)
        saves = can_be_hibernated(workload, attempt) and not hindered
    return models.SavingView(saves=saves, max_bytes=_room_of(workload, cluster))


def _of_its_own(service: Service, attempt_id: AttemptId) -> Workload:
    """The workload of an attempt that speaks for itself: processes that it woke do not say how it runs."""
    workload, attempt = speaker(service, attempt_id)
    if attempt.attempt_id != attempt_id:
        raise StaleAttempt
    return workload


def _room_of(workload: Workload, cluster: Cluster) -> int:
    """What is left of its user's limit, divided among all of theirs that are saved just now."""
    kept, saving = 0, 0
    for one in cluster.workloads.values():
        if one.spec.owner != workload.spec.owner or is_lease(one):
            continue
        image, attempt = kept_image(one), one.current
        kept += 0 if image is None else image[1].size_bytes
        is_saved = attempt is not None and attempt.stop is not None and attempt.stop.hibernates
        saving += is_saved or one.workload_id == workload.workload_id
    return max(0, MAX_IMAGE_BYTES - kept) // max(1, saving)
