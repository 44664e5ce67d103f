"""Which events of the feed are worth a message to whom, and in which words. Pure.

A user is told of what is their own alone. Jobs of a sweep, map or pipeline say nothing one by one:
their parent does once it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler.amount_words import duration
from gpucommons.scheduler.core.events.leases import HIBERNATED, OWN_ENDS, RETURNS
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.going_on import KeptKernels
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.state import Event
from gpucommons.scheduler.core.model.types import Millis, State, UserName, Workload
from gpucommons.scheduler.notifications.preferences import About, Telling
from gpucommons.scheduler.parents import ParentKind

#: Before what is kept of kernels is removed.
_ENDS_SOON_MS = 2 * 86_400_000
_HOUR_MS = 3_600_000

_Words = tuple[About, str, str]


def of_event(number: int, event: Event, workload: Workload | None) -> Telling | None:
    """What to say of an event; ``workload`` is the one that it is about, where that is known."""
    if event.kind in _OF_PARENTS:
        return _of_parent(number, event)
    if workload is None:
        return None
    of_kind = (_OF_LEASES if is_lease(workload) else _OF_JOBS).get(event.kind)
    words = None if of_kind is None else of_kind(event, workload)
    if words is None:
        return None
    about, subject, text = words
    facts: dict[str, str | int] = {
        "event": event.kind,
        "number": number,
        "workload_id": workload.workload_id,
        "name": name_of(workload),
        "team": workload.spec.team,
        "state": workload.state.value,
    }
    return Telling(
        owner=workload.spec.owner,
        about=about,
        source=f"event {number}",
        number=number,
        at_ms=event.at_ms,
        subject=subject,
        text=text,
        facts=facts,
    )


def of_kept(workloads: Iterable[Workload], now_ms: Millis) -> Iterator[Telling]:
    """Saved kernels whose time is over soon; each time once, however often it is looked at."""
    for lease in workloads:
        kept = lease.kept
        if lease.state is not State.HIBERNATED or kept is None or not kept.kernels:
            continue
        if not now_ms < kept.until_ms <= now_ms + _ENDS_SOON_MS:
            continue
        yield Telling(
            owner=lease.spec.owner,
            about=About.IDLE,
            source=f"kept {lease.workload_id} {kept.until_ms}",
            at_ms=now_ms,
            subject=f"{name_of(lease)}: kept kernels end soon",
            text=(
                f"{_kept(kept)}, then removed. Start the notebook before that to have them back."
            ),
            facts={"workload_id": lease.workload_id, "until_ms": kept.until_ms},
        )


def name_of(workload: Workload) -> str:
    """As its owner calls it."""
    server = workload.spec.server_name
    if is_lease(workload):
        return f"Notebook {server}" if server else "Your notebook"
    return workload.spec.name


def _is_a_part(job: Workload) -> bool:
    """Runs of a schedule are told one by one: they come one by one."""
    parent = job.spec.part_of
    return parent is not None and parent.kind is not ParentKind.SCHEDULE


# --- jobs ----------------------------------------------------------------------------------------


def _job_started(event: Event, job: Workload) -> _Words | None:
    if _is_a_part(job):
        return None
    place = format_gpus(_held_now(job))
    return About.START, f"{job.spec.name} started", f"{event.text}\nIt holds {place}."


def _job_stopped(event: Event, job: Workload) -> _Words | None:
    if _is_a_part(job):
        return None
    goes_on = str(event.data.get("way_to_go_on_text", ""))
    then = f"\nIt {goes_on}." if goes_on else ""
    return About.PREEMPT, f"{job.spec.name} was stopped", f"{event.text}{then}"


def _job_stopped_otherwise(event: Event, job: Workload) -> _Words | None:
    """What its owner asked for is no news; a machine that is taken away is."""
    return _job_stopped(event, job) if event.data.get("why") == StopCause.SPOT else None


def _job_back_in_line(event: Event, job: Workload) -> _Words | None:
    if _is_a_part(job):
        return None
    return About.PREEMPT, f"{job.spec.name} is back in line", event.text


def _job_over(outcome: str) -> Callable[[Event, Workload], _Words | None]:
    def words(event: Event, job: Workload) -> _Words | None:
        if _is_a_part(job):
            return None
        return About.FINISH, f"{job.spec.name} {outcome}", f"{event.text}\n{_held(job)}"

    return words


def _held_now(job: Workload) -> int:
    attempt = job.attempts[-1] if job.attempts else None
    return 0 if attempt is None else sum(placed_milli_gpu(one) for one in attempt.placements)


def _held(job: Workload) -> str:
    """What it held from its first attempt to its last, by the attempts themselves."""
    spans = [
        (max(0, (one.ended_ms or one.reserved_ms) - one.reserved_ms), one.placements)
        for one in job.attempts
    ]
    if not spans:
        return "It never held a GPU."
    held_ms = sum(span for span, _ in spans)
    gpu_ms = sum(span * sum(placed_milli_gpu(one) for one in of) for span, of in spans)
    tries = "" if len(spans) == 1 else f" in {len(spans)} attempts"
    said = f"It had its place for {duration(held_ms // 1000)}{tries}"
    return f"{said} and held {gpu_ms / 1000 / _HOUR_MS:.2f} GPU-hours."


# --- notebooks -----------------------------------------------------------------------------------


def _granted(event: Event, lease: Workload) -> _Words | None:
    """A ticket's turn; who starts at once sees it."""
    if lease.redeem_by_ms is None or lease.state is not State.GRANTED:
        return None
    text = f"Your GPU is there. Start the notebook by {_clock(lease.redeem_by_ms)}, or others go first."
    return About.START, f"{name_of(lease)}: it is your turn", text


def _idle_warned(event: Event, lease: Workload) -> _Words | None:
    at_ms = event.data.get("returns_ms")
    when = f" at {_clock(at_ms)}" if isinstance(at_ms, int) else ""
    text = f"It is idle. Its GPU will be returned{when}. Run something in it, or press Keep, to keep it."
    return About.IDLE, f"{name_of(lease)} is idle", text


def _stop_announced(event: Event, lease: Workload) -> _Words | None:
    """For idleness, or by an admin; who gives it back by themselves knows."""
    why = event.data.get("why")
    if event.by == lease.spec.owner or why not in RETURNS:
        return None
    if why == "reclaimed":
        return About.PREEMPT, f"{name_of(lease)}: its GPU is taken back", f"{event.text}."
    if why == HIBERNATED:
        return None  # whether anything is kept is known at its end
    return About.IDLE, f"{name_of(lease)}: its GPU is returned", f"{event.text}."


def _lease_ended(event: Event, lease: Workload) -> _Words | None:
    if event.data.get("why") == "lost":
        return About.PREEMPT, f"{name_of(lease)} was lost", f"{event.text}."
    kept = lease.kept
    if event.text in OWN_ENDS or lease.state is not State.HIBERNATED or kept is None:
        return None
    subject = f"{name_of(lease)} was stopped, and its kernels are kept"
    return About.IDLE, subject, f"{event.text}.\n{_kept(kept)}."


def _parked(event: Event, lease: Workload) -> _Words | None:
    return (
        About.IDLE,
        f"{name_of(lease)} was parked",
        f"{event.text} Run a cell to have a GPU again.",
    )


# --- sweeps and pipelines ------------------------------------------------------------------------


def _of_parent(number: int, event: Event) -> Telling | None:
    owner, name = event.data.get("owner"), event.data.get("name")
    if not owner or not name:
        return None
    what = event.kind.removesuffix("-over")
    failed = event.data.get("failed")
    return Telling(
        owner=UserName(str(owner)),
        about=About.FINISH,
        source=f"event {number}",
        number=number,
        at_ms=event.at_ms,
        subject=f"{what} {name} is over",
        text=f"{event.text[:1].upper()}{event.text[1:]}",
        facts={
            "event": event.kind,
            "name": str(name),
            "ref": str(event.data.get("ref", "")),
            "failed": failed if isinstance(failed, int) else 0,
        },
    )


def _kept(kept: KeptKernels) -> str:
    kernels = "Its kernel is" if kept.kernels == 1 else f"Its {kept.kernels} kernels are"
    return f"{kernels} kept until {_clock(kept.until_ms)}"


def _clock(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at.day} {at:%B %H:%M} UTC"


_OF_JOBS: Mapping[str, Callable[[Event, Workload], _Words | None]] = {
    "started": _job_started,
    "evicted": _job_stopped,
    "moved": _job_stopped,
    "stopped": _job_stopped_otherwise,
    "lost": _job_back_in_line,
    "retry": _job_back_in_line,
    "succeeded": _job_over("finished"),
    "failed": _job_over("failed"),
    "cancelled": _job_over("was cancelled"),
}
_OF_LEASES: Mapping[str, Callable[[Event, Workload], _Words | None]] = {
    "granted": _granted,
    "idle-warned": _idle_warned,
    "stop-announced": _stop_announced,
    "lease-ended": _lease_ended,
    "parked": _parked,
}
_OF_PARENTS = frozenset({"sweep-over", "map-over", "pipeline-over"})
#: Of all others nobody is told.
KINDS = frozenset({*_OF_JOBS, *_OF_LEASES, *_OF_PARENTS})
