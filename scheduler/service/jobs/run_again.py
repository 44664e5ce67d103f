"""A request that was made before, submitted again: by somebody, or by a schedule at its time."""

from __future__ import annotations

from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.intents import Submit
from gpucommons.scheduler.core.model.lifecycle import check_over
from gpucommons.scheduler.core.model.types import Spec, UserName, Workload
from gpucommons.scheduler.data_loading import LoaderChoice
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.idempotency import fingerprint, key_of_caller
from gpucommons.scheduler.models.fields import name_by_itself
from gpucommons.scheduler.models.jobs.jobs import KEY_ORIGINS, OBJECT_LABEL, ORIGIN_LABEL
from gpucommons.scheduler.parents import Parent
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs import snapshots
from gpucommons.scheduler.service.jobs.environments import script_reader
from gpucommons.scheduler.service.jobs.jobs import Repeated, checked_spec, submitted
from gpucommons.scheduler.service.jobs.submit_limits import check_hour
from gpucommons.scheduler.service.lookup import find_job, workload_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import request_of
from gpucommons.scheduler.sweeps.script_arguments import command_with, variables_of
from gpucommons.scheduler.sweeps.sweep import Values

#: What belongs to the moment of a submit, not to what runs.
_ANEW = {"not_before_ms": 0, "resume_from": None, "plan": None}
#: What means something else where another person runs it.
_OF_ITS_OWNER: dict[str, object] = {"secrets": {}, "results_to": None}
_LABELS_OF_FIRST = frozenset({OBJECT_LABEL, ORIGIN_LABEL})


def again(  # noqa: PLR0913 - one wish, in parts
    service: Service,
    principal: Principal,
    ref: str,
    *,
    key: str | None,
    from_here: bool = False,
    loader: models.LoaderOfAnotherRun | None = None,
) -> models.JobView:
    """Submit the same request again, as a new job of the caller; from its last checkpoint, or anew.

    It loads its data as was chosen for that one, or as is chosen now.
    """
    found = find_job(service, principal, ref)
    snapshots.check_may_run(service, principal, found)
    onward = {}
    if from_here:
        authorization.jobs.resume_from(principal, found)
        check_over(found)
        onward = {"resume_from": found.workload_id}
    request = own_request(principal, found).model_copy(update=onward)
    return submitted(
        service,
        principal,
        lambda: _checked(service, principal, request, found.spec.name, Repeated()),
        request=(
            "again",
            found.workload_id,
            *(("from here",) if from_here else ()),
            *(() if loader is None else ("loader", loader.workers, loader.prefetch)),
        ),
        key=key,
        loader=found.loader if loader is None else _chosen(service, principal, loader),
    )


def _chosen(
    service: Service, principal: Principal, loader: models.LoaderOfAnotherRun
) -> LoaderChoice:
    return LoaderChoice(
        workers=loader.workers,
        prefetch=loader.prefetch,
        by=principal.name,
        at_ms=service.now_ms(),
    )


def stored_request(stored: str, *, of: str, remedy: str) -> models.JobRequest:
    """The job that a schedule, a step or a sweep of this name makes; ``remedy`` ends the sentence below.

    Raises
    ------
    Misconfigured
        When another release has written it.
    """
    try:
        return models.JobRequest.model_validate_json(stored)
    except ValidationError:
        message = (
            f"What was stored of {of} is not understood by this release of the scheduler: {remedy}."
        )
        raise Misconfigured(message) from None


def own_request(principal: Principal, found: Workload) -> models.JobRequest:
    """What makes the same job again, of the caller's.

    What a teammate's job may do with its owner's secrets and home folder, it may not do with the
    caller's: both are left out.
    """
    stored = request_of(found.spec)
    others = {} if found.spec.owner == principal.name else _OF_ITS_OWNER
    # Whatever the first one was made of, and by whatever program, this one is not; a key that is among
    # its files is among this one's.
    keyed = stored.labels.get(ORIGIN_LABEL) in KEY_ORIGINS
    left_out = _LABELS_OF_FIRST - {ORIGIN_LABEL} if keyed else _LABELS_OF_FIRST
    labels = {name: text for name, text in stored.labels.items() if name not in left_out}
    waits: dict[str, object] = {"after": [], "after_any": [], "after_failed": []}
    part_of = found.spec.part_of
    name = name_by_itself(stored.name, None if part_of is None else part_of.kind)
    alone = {"name": name, "near": [], "labels": labels, **waits}
    return stored.model_copy(update={**alone, **_ANEW, **others})


def submit_of_parent(
    service: Service, principal: Principal, request: models.JobRequest, *, key: str, part_of: Parent
) -> models.JobView:
    """Submit a child of a schedule, a sweep or a pipeline; the same key answers with the same job.

    Its files and image are looked at as those of a submit of today: what was shared, or was an image of
    this place, may be so no more.
    """
    repeated = Repeated(part_of=part_of, is_known=False)
    return submitted(
        service,
        principal,
        lambda: _checked(service, principal, request, request.name, repeated),
        request=_scheduled(key),
        key=key,
    )


def scheduled_job(service: Service, by: UserName, *, key: str) -> Workload | None:
    """The job that :func:`submit_of_parent` stored for somebody under this key; None where it did not."""
    asked = fingerprint(Submit.__name__, _scheduled(key))
    intent = service.store.intent_with_key(by, key_of_caller(by, key), asked)
    if intent is None:
        return None
    assert isinstance(intent.action, Submit)  # noqa: S101 - the fingerprint names the kind of action
    return workload_of(service, intent.action.workload_id)


def _scheduled(key: str) -> tuple[str, str]:
    return ("schedule", key)


def _checked(
    service: Service,
    principal: Principal,
    request: models.JobRequest,
    name: str,
    repeated: Repeated,
) -> Spec:
    """Checked as it is today; that the caller may run its files was found before, or is so now."""
    _check_here(service, request, name)
    if repeated.part_of is None:  # else it is asked where it is stored, and only there
        check_hour(service, UserName(principal.name), size_bytes=0)
    read = script_reader(service, request)
    return checked_spec(service, principal, request, read, repeated=repeated)


def _check_here(service: Service, request: models.JobRequest, name: str) -> None:
    if request.snapshot is not None and not service.snapshots.has(request.snapshot):
        message = (
            f"The files that {name} ran from are gone, as it ended long ago: submit it anew from its"
            " folder or notebook."
        )
        raise Misconfigured(message)


def with_values(job: models.JobRequest, values: Values, values_as: str) -> models.JobRequest:
    """The job with the values of a trial."""
    if values_as == "environment":
        return job.model_copy(update={"env": {**job.env, **variables_of(values)}})
    roles = [
        role.model_copy(update={"command": command_with(role.command, values)})
        for role in job.roles
    ]
    return job.model_copy(update={"roles": roles})
