"""Use cases about parking: a notebook's GPU memory goes to the host, and comes back on its turn."""

from __future__ import annotations

from gpucommons.gpu.parking.driver import FIRST_BRANCH
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.intents import NoteParked, Park, Unpark
from gpucommons.scheduler.core.model.types import State, Workload
from gpucommons.scheduler.errors import InvalidTransition
from gpucommons.scheduler.intake.leases import check_on_idle
from gpucommons.scheduler.models.text.state_words import state_words
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.leases import view
from gpucommons.scheduler.service.lookup import find_lease, workload_of
from gpucommons.scheduler.service.service import Pending, Service, decision

_SIMULATED = "Its GPU is simulated, and only a real one has memory that could be moved to the host."
_NOT_SAID = (
    "Its server has not said that it can move GPU memory to the host, which it tries in its first minutes:"
    f" it takes a whole NVIDIA GPU (no MIG, no MPS) and driver {FIRST_BRANCH} or newer on x86-64. The"
    " server's log says what the trial found."
)
#: By what its server says that it keeps when it stops.
_INSTEAD = {
    "kernels": "Hibernate it instead: its kernels are saved, and its GPU is free.",
    "variables": "Release its GPU instead: variables of its Python kernels are kept.",
    "nothing": "Release its GPU instead: nothing of its kernels is kept then.",
}
_NOT_KNOWN = "What else its server could keep is not known yet: ask again in a minute."


def park(
    service: Service, principal: Principal, lease_id: str, request: models.ParkRequest
) -> Pending[models.LeaseView]:
    """Ask its server to move its GPU memory to the host."""
    found = find_lease(service, lease_id)
    authorization.notebooks.park(principal, found)
    if found.state not in (State.PARKING, State.PARKED):
        _check_can(service, principal, found)
    by_another = authorization.notebooks.may_word_end(principal)
    text = request.text if by_another else f"parked by {principal.name}"
    intent = service.ask(principal, Park(workload_id=found.workload_id, text=text))
    return decision(service, intent, lambda _: view(service, principal, found.workload_id))


def _check_can(service: Service, principal: Principal, lease: Workload) -> None:
    if lease.state not in (State.ACTIVE, State.WARNED):
        message = f"This notebook is {state_words(lease.state)}: only a running one is parked."
        raise InvalidTransition(message)
    pool = service.loop.cluster.pools.get(lease.spec.pools[0])
    because = service.slices.why_not_parked(lease)
    if because:
        message = f"This notebook cannot be parked. {because} Hibernate it, or release its GPU."
        raise InvalidTransition(message)
    if not service.activity.parks(lease.workload_id):
        held = view(service, principal, lease.workload_id).slice
        why = _SIMULATED if held is not None and held.simulated else _NOT_SAID
        instead = _INSTEAD.get(service.activity.keeps_of(lease.workload_id), _NOT_KNOWN)
        message = f"This notebook cannot be parked. {why} {instead}"
        raise InvalidTransition(message)
    if pool is not None:
        check_on_idle("park", pool)


def report_parked(
    service: Service, principal: Principal, lease_id: str, report: models.ParkedReport
) -> Pending[models.LeaseView]:
    """Its server says what came of it; the node is asked at once, so that the GPU is soon free."""
    found = find_lease(service, lease_id)
    authorization.notebooks.report_parked(principal, found)
    because = f"its server says: {report.because}" if report.because else ""
    action = NoteParked(workload_id=found.workload_id, because=because, host_mib=report.host_mib)
    intent = service.ask(principal, action)

    def answer() -> models.LeaseView:
        service.slices.clear_if_parked(workload_of(service, found.workload_id))
        return view(service, principal, found.workload_id)

    return decision(service, intent, lambda _: answer())


def unpark(
    service: Service, principal: Principal, lease_id: str, request: models.UnparkRequest
) -> Pending[models.LeaseView]:
    """Have its GPU back when its turn comes. Where it has it, its slice is open when this is answered."""
    found = find_lease(service, lease_id)
    authorization.notebooks.unpark(principal, found)
    intent = service.ask(principal, Unpark(workload_id=found.workload_id, waits=request.waits))

    def answer() -> models.LeaseView:
        held = workload_of(service, found.workload_id)
        if held.state is not State.PARKING:
            service.slices.open(held)
        return view(service, principal, found.workload_id)

    return decision(service, intent, lambda _: answer())
