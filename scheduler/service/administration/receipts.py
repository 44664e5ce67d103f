"""Receipts as both sides read them: who lost devices, and for whose sake.

An event is its victim's team's. The team that got the devices reads it too, without the victim's
name where policy hides it; and the victim's team reads whether it was worth it, not for whose job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import TeamName, Workload
from gpucommons.scheduler.errors import UnknownWorkload
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.history import event_view
from gpucommons.scheduler.store.base import StoredEvent

RECEIPTS = frozenset({"evicted"})
#: Among so many of the newest receipts those for somebody's team are looked for.
_SEARCHED = 2000


def with_those_for(
    service: Service, principal: Principal, own: Sequence[StoredEvent], *, after: int
) -> tuple[StoredEvent, ...]:
    """The caller's own receipts, and those of others who lost devices for the caller's teams."""
    found = service.store.events(after=after, kinds=RECEIPTS, limit=_SEARCHED, newest=True)
    cluster = service.loop.cluster
    known = {one.number: one for one in own}
    for one in found:
        if one.number not in known and _for_team(one) in principal.sees:
            known[one.number] = _without_names(one, cluster)
    return tuple(known[number] for number in sorted(known))


def _for_team(stored: StoredEvent) -> TeamName:
    return TeamName(str(stored.event.data.get("beneficiary_team") or ""))


def _without_names(stored: StoredEvent, cluster: Cluster) -> StoredEvent:
    """The receipt, its victim named by its team alone unless policy shows names."""
    event = stored.event
    team = None if event.team is None else cluster.teams.get(event.team)
    if cluster.policy.show_names or (team is not None and team.policy.show_names):
        return stored
    text = f"A job of {event.team} was stopped for {_for_team(stored)}."
    hidden = replace(
        event,
        text=text,
        workload_id=None,
        attempt_id=None,
        data={**event.data, "victim": event.team},
    )
    return replace(stored, event=hidden)


def shown(
    service: Service, principal: Principal, page: Iterable[StoredEvent]
) -> list[models.EventView]:
    """Events as this caller reads them; a receipt says whether its beneficiary started."""
    found: dict[str, Workload | None] = {}
    views = []
    for stored in page:
        view = event_view(stored, principal)
        beneficiary = str(stored.event.data.get("beneficiary_id") or "")
        if stored.event.kind in RECEIPTS and beneficiary and "beneficiary_id" not in view.data:
            if beneficiary not in found:
                found[beneficiary] = _found(service, beneficiary)
            outcome = _outcome(found[beneficiary], view.at_ms)
            told = {**view.data, "beneficiary_outcome": outcome}
            view = view.model_copy(update={"data": told})
        views.append(view)
    return views


def _found(service: Service, workload_id: str) -> Workload | None:
    try:
        return workload_of(service, workload_id)
    except UnknownWorkload:
        return None


def _outcome(workload: Workload | None, at_ms: int) -> str | None:
    """``started`` since then, ``waiting``, or ``ended`` without a start; None where it is forgotten."""
    if workload is None:
        return None
    if any((attempt.started_ms or 0) >= at_ms for attempt in workload.attempts):
        return "started"
    return "ended" if is_final(workload) else "waiting"
