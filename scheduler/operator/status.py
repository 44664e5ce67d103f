"""What an object's status says of a job or a team. Pure: views in, documents out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.models import AttemptView, JobView

Status = dict[str, Any]
Condition = dict[str, Any]

#: States in which nothing happens to a job any more.
FINAL = frozenset({"succeeded", "failed", "cancelled"})
#: The scheduler has it.
ACCEPTED = "Accepted"
#: What is shown is up to date.
FOLLOWED = "Followed"
#: It has ended.
FINISHED = "Finished"
#: The scheduler has the team as it is written.
READY = "Ready"


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One condition, before it has a time."""

    kind: str
    holds: bool
    reason: str
    message: str


def time_text(at_ms: int) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions(before: Sequence[Condition], *said: Said, now_ms: int) -> list[Condition]:
    """The conditions with what is said now; the time changes only with the verdict."""
    found = {one["type"]: dict(one) for one in before}
    for one in said:
        known = found.get(one.kind, {})
        status = "True" if one.holds else "False"
        at = known.get("lastTransitionTime") if known.get("status") == status else None
        found[one.kind] = {
            "type": one.kind,
            "status": status,
            "reason": one.reason,
            "message": one.message,
            "lastTransitionTime": at or time_text(now_ms),
        }
    return list(found.values())


def of_job(view: JobView, before: Mapping[str, Any], *, now_ms: int) -> Status:
    """The status of a job that the scheduler has. What no longer holds is written as null."""
    said = [
        Said(kind=ACCEPTED, holds=True, reason="Submitted", message=f"The job is {view.name}."),
        Said(kind=FOLLOWED, holds=True, reason="UpToDate", message="This is how it stands."),
    ]
    if view.state in FINAL:
        message = view.ended_text or view.state
        said.append(
            Said(kind=FINISHED, holds=True, reason=view.state.capitalize(), message=message)
        )
    attempt = view.attempts[-1] if view.attempts else None
    waits = view.position is not None and view.state not in FINAL
    return {
        "state": view.state,
        "team": view.team,
        "job": view.name,
        "jobId": view.id,
        "place": view.position if waits else None,
        "gpus": format_milli_gpu(view.milli_gpu),
        "class": view.hold_class,
        "reason": _reason(view, attempt),
        "node": None if attempt is None else ", ".join(attempt.nodes) or attempt.node,
        "progress": _progress(view),
        "attempts": len(view.attempts),
        "submittedAt": time_text(view.submitted_ms),
        "startedAt": _started(view.attempts),
        "endedAt": None if view.ended_ms is None else time_text(view.ended_ms),
        "conditions": conditions(before.get("conditions") or [], *said, now_ms=now_ms),
    }


def _reason(view: JobView, attempt: AttemptView | None) -> str | None:
    if view.state in FINAL:
        return view.ended_text
    if attempt is not None and attempt.ended_ms is None and attempt.stop is not None:
        return attempt.stop.text
    return None if view.reason is None else view.reason.text


def _progress(view: JobView) -> str | None:
    known = view.progress
    if known is None:
        return None
    return f"{known.step}" if known.total_steps is None else f"{known.step}/{known.total_steps}"


def _started(attempts: Sequence[AttemptView]) -> str | None:
    found = [one.started_ms for one in attempts if one.started_ms is not None]
    return time_text(min(found)) if found else None


def of_failure(
    before: Mapping[str, Any], said: Said, *, state: str | None = None, now_ms: int
) -> Status:
    """The status when something could not be done: a sentence, and the state if that changed."""
    found: Status = {
        "reason": said.message,
        "conditions": conditions(before.get("conditions") or [], said, now_ms=now_ms),
    }
    return found if state is None else {"state": state, **found}


def of_team(before: Mapping[str, Any], said: Said, *, now_ms: int) -> Status:
    """The status of a team."""
    return {
        "ready": "yes" if said.holds else "no",
        "reason": None if said.holds else said.message,
        "conditions": conditions(before.get("conditions") or [], said, now_ms=now_ms),
    }


def changes(before: Mapping[str, Any], after: Status) -> Status:
    """What of a status is new; nothing is left when nothing is."""
    return {key: value for key, value in after.items() if before.get(key) != value}
