"""Receipts of evictions: who lost a GPU to whom, by which rule, and whether it was worth it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.models import EventView, JobView, LeaseView
from gpucommons.scheduler.pages.present import words

#: Event kinds of receipts: of stops for somebody else, and of all others.
EVICTED, OTHERS = "evicted", ("stopped", "moved")
#: Causes of those others that nobody asked for, with the rule in words.
_UNASKED = {
    "drill": gettext_noop("test that it can be stopped"),
    "confine": gettext_noop("its test failed: no borrowing"),
    "spot": gettext_noop("the cloud takes its node back"),
    "move": gettext_noop("consolidation"),
    "lost": gettext_noop("a node was lost"),
}
#: Event kinds of what node agents did to processes, or refused, and of what ails a cluster.
BY_AGENTS = ("memory-terminate", "memory-kill", "limit-refused", "trouble")
#: What is said of a beneficiary that the reader may not see.
_TOLD = {
    "started": (gettext_noop("yes"), False),
    "waiting": (gettext_noop("not yet"), False),
    "ended": (gettext_noop("no"), True),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class EvictionRow:
    """One receipt."""

    at_ms: int
    victim: str
    team: str
    beneficiary: str
    rule: str
    lost_gpu_min: str
    saved: str
    outcome: str
    #: True where the beneficiary never got what was taken for it.
    in_vain: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentRow:
    """What a node agent did."""

    at_ms: int
    by: str
    team: str
    text: str


def agent_rows(events: Sequence[EventView]) -> tuple[AgentRow, ...]:
    """What node agents did to processes over their memory, newest first."""
    return tuple(
        AgentRow(at_ms=event.at_ms, by=event.by, team=event.team or "–", text=event.text)
        for event in reversed(events)
        if event.kind in BY_AGENTS
    )


def beneficiaries(events: Sequence[EventView]) -> tuple[str, ...]:
    """Ids of the workloads for whom GPUs were taken, newest receipt first, each once."""
    ids = (event.data.get("beneficiary_id") for event in reversed(events))
    return tuple(dict.fromkeys(str(found) for found in ids if found))


def eviction_rows(
    events: Sequence[EventView], outcomes: Mapping[str, JobView | LeaseView]
) -> tuple[EvictionRow, ...]:
    """Receipts, newest first; ``outcomes`` holds the beneficiaries by id."""
    shown = (event for event in events if event.kind == EVICTED or _is_unasked(event))
    ordered = sorted(shown, key=lambda event: event.number, reverse=True)
    return tuple(_row(event, outcomes) for event in ordered)


def _is_unasked(event: EventView) -> bool:
    return event.kind in OTHERS and event.data.get("why") in _UNASKED


def _row(event: EventView, outcomes: Mapping[str, JobView | LeaseView]) -> EvictionRow:
    data = event.data
    lost, step = data.get("lost_milli_gpu_s"), data.get("checkpoint_step")
    found = outcomes.get(str(data.get("beneficiary_id", "")))
    told = _TOLD.get(str(data.get("beneficiary_outcome", "")), (gettext_noop("not known"), False))
    outcome, in_vain = (
        (gettext(told[0]), told[1]) if found is None else _outcome(found, event.at_ms)
    )
    if not data.get("beneficiary_id") and _is_unasked(event):
        outcome = "–"  # it was for nobody
    return EvictionRow(
        at_ms=event.at_ms,
        victim=str(data.get("victim") or event.text),
        team=event.team or "",
        beneficiary=str(data.get("beneficiary") or "–"),
        rule=str(data.get("rule") or _unasked(str(data.get("why"))) or "–"),
        lost_gpu_min=words.gpu_minutes(lost) if isinstance(lost, int) else "–",
        saved=_checkpoint(step, data) if isinstance(step, int) else _without_checkpoint(data),
        outcome=outcome,
        in_vain=in_vain,
    )


def _unasked(why: str) -> str:
    return gettext(_UNASKED[why]) if why in _UNASKED else ""


def _checkpoint(step: int, data: Mapping[str, object]) -> str:
    number = words.amount(step, ",")
    if data.get("checkpoint_unit") == "epoch":
        return gettext("epoch %(number)s", number=number)
    return gettext("step %(number)s", number=number)


def _without_checkpoint(data: Mapping[str, object]) -> str:
    """What a script keeps in its working folder is no checkpoint, and not nothing."""
    own = data.get("way_to_go_on") == "working_folder"
    return gettext("files of its own") if own else gettext("no checkpoint")


def _outcome(workload: JobView | LeaseView, at_ms: int) -> tuple[str, bool]:
    if _has_started(workload, at_ms):
        return gettext("yes"), False
    if workload.state in ("cancelled", "failed", "ended"):
        why = workload.ended_text or words.state(workload.state)
        return gettext("no: %(why)s", why=why), True
    return gettext("not yet: %(state)s", state=words.state(workload.state)), False


def _has_started(workload: JobView | LeaseView, at_ms: int) -> bool:
    """Since then: a start before says nothing of what was taken for it now."""
    if isinstance(workload, LeaseView):
        return workload.started_ms is not None
    since = any((attempt.started_ms or 0) >= at_ms for attempt in workload.attempts)
    return since or workload.state == "running"
