"""The first start on a database that a backup was restored into: what really runs is found again.

A backup is older than what runs. Attempts that it knows go on as after any restart. Those that began
since are nobody's: they are ended, and their jobs go on from what the backup knows of them. A job that
has ended well since is paused: it is not run a second time unless somebody asks for that. All of it
is named once, in an event. A scheduler that dies in between does the same again.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpucommons.scheduler.core.model.intents import Intent, NoteAgent, Pause, Submit
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import AttemptEnded, Cluster
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    IntentId,
    Kind,
    Millis,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.base import Found
from gpucommons.scheduler.loop.acting import Acting
from gpucommons.scheduler.models.history import RECONCILED, RESTORED
from gpucommons.scheduler.store.base import Store

_LOG = logging.getLogger(__name__)

#: Who does it, as the list of changes names it.
_BY = UserName("scheduler")
#: So long it is waited for the end of what nobody knows, and so often looked.
_PATIENCE_S, _LOOK_S = 30.0, 0.1
#: So many are named in the sentence; the event's data have all.
_NAMED = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """A restore after which nobody has looked around yet."""

    #: Of its event: nothing is done twice for it.
    number: int
    #: The moment that the backup shows.
    backup_ms: Millis


def not_yet_reconciled(store: Store) -> Restored | None:
    """The last restore, if this is the first start after it."""
    kinds = frozenset({RESTORED, RECONCILED})
    last = store.events(kinds=kinds, limit=1, newest=True)
    if not last or last[0].event.kind == RECONCILED:
        return None
    backup_ms = Millis(int(last[0].event.data["backup_ms"]))
    return Restored(number=last[0].number, backup_ms=backup_ms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """The time, and how to wait."""

    now: Callable[[], Millis]
    steady_s: Callable[[], float]
    #: Returns at once, and true, when the scheduler is to stop.
    wait: Callable[[float], bool]


def reconcile(
    store: Store, acting: Acting, cluster: Cluster, clocks: Clocks
) -> tuple[AttemptEnded, ...]:
    """Let executors take over what runs, and look around if a backup was restored; returns ends."""
    restored = not_yet_reconciled(store)
    if restored is None:
        return acting.adopt(cluster)
    began = acting.since(restored.backup_ms)
    gone = acting.adopt(cluster)
    if not _await_end(acting, restored, cluster, clocks):
        return gone
    # Of jobs that nobody has decided on yet the backup knows the request.
    asked = frozenset(
        one.action.workload_id for one in store.asked().intents if isinstance(one.action, Submit)
    )
    look = Look(cluster=cluster, asked=asked, began=began, gone=gone)
    for action in _actions(look, clocks.now()):
        store.put_intent(_intent(restored, action, clocks.now()))
    return gone


def _await_end(acting: Acting, restored: Restored, cluster: Cluster, clocks: Clocks) -> bool:
    """Their devices are given to others only when they are gone, or nothing ends them; false = stopped."""
    known, until_s = _known(cluster), clocks.steady_s() + _PATIENCE_S
    while running := [
        one.name
        for one in acting.since(restored.backup_ms)
        if one.running and one.attempt_id not in known
    ]:
        if clocks.steady_s() >= until_s:
            _LOG.error("still running, and not known to the backup: %s", ", ".join(running))
            return True
        if clocks.wait(_LOOK_S):
            return False
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What the backup knows, and what is there."""

    cluster: Cluster
    asked: frozenset[WorkloadId]
    began: Sequence[Found]
    gone: Sequence[AttemptEnded]


def _actions(look: Look, now_ms: Millis) -> tuple[Pause | NoteAgent, ...]:
    cluster, asked = look.cluster, look.asked
    known, lost = _known(cluster), {one.attempt_id for one in look.gone}
    unknown = [one for one in look.began if one.attempt_id not in known]
    live = {job.workload_id: job for job in cluster.workloads.values() if not is_final(job)}
    named = {one: f"{job.spec.team}/{job.spec.name}" for one, job in live.items()}
    done = {
        # Objects of a cluster name no job as its owner knows it.
        one.job_id: named.get(WorkloadId(one.job_id), one.name)
        for one in unknown
        if one.succeeded and WorkloadId(one.job_id) in live.keys() | asked
    }
    jobs = [job for job in live.values() if job.spec.kind is not Kind.NOTEBOOK and job.current]
    figures = {
        "found": _names(job for job in jobs if _attempt(job) not in lost),
        "again": _names(job for job in jobs if _attempt(job) in lost),
        "paused": sorted(done.values()),
        "stopped": sorted(
            named.get(WorkloadId(one.job_id), one.name) or one.attempt_id
            for one in unknown
            if one.running
        ),
        "over": sorted(
            one.name or one.attempt_id
            for one in unknown
            if not one.running and WorkloadId(one.job_id) not in live.keys() | asked
        ),
        "notebooks": _names(
            one for one in live.values() if one.spec.kind is Kind.NOTEBOOK and one.current
        ),
    }
    note = NoteAgent(node="", at_ms=now_ms, kind=RECONCILED, text=sentence(figures), data=figures)
    return (*(Pause(workload_id=WorkloadId(one)) for one in sorted(done)), note)


def sentence(figures: Mapping[str, Sequence[str]]) -> str:
    """What was found, for admins; lists that are empty are not mentioned, but for the first."""
    words = (
        ("found", "found again: {}"),
        ("again", "gone, and started again from what they saved: {}"),
        ("paused", "ended well since the backup, so paused; resume or cancel them: {}"),
        ("stopped", "ran without being known to the backup, so stopped: {}"),
        ("over", "ended without being known to the backup: {}"),
        ("notebooks", "notebooks that held a GPU, kept if their servers run: {}"),
    )
    said = [
        text.format(_listed(figures[key])) for key, text in words if figures[key] or key == "found"
    ]
    return f"A backup was restored. Jobs {'; '.join(said)}."


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _intent(restored: Restored, action: Pause | NoteAgent, now_ms: Millis) -> Intent:
    """The same one however often this is repeated, whatever else has ended in between."""
    about = f"pause-{action.workload_id}" if isinstance(action, Pause) else "note"
    key = f"restored-{restored.number}-{about}"
    return Intent(
        intent_id=IntentId(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{restored.backup_ms} {key}"))),
        action=action,
        by=_BY,
        at_ms=now_ms,
        idempotency_key=key,
        fingerprint=key,
    )


def _known(cluster: Cluster) -> frozenset[AttemptId]:
    return frozenset(
        attempt.attempt_id for one in cluster.workloads.values() for attempt in one.attempts
    )


def _attempt(job: Workload) -> AttemptId | None:
    return None if job.current is None else job.current.attempt_id


def _names(jobs: Iterable[Workload]) -> list[str]:
    return sorted(
        f"{one.spec.team}/{one.spec.name}"
        if one.spec.kind is not Kind.NOTEBOOK
        else f"{one.spec.owner}/{one.spec.server_name or 'default'}"
        for one in jobs
    )
