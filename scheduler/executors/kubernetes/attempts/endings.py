"""How an attempt that is over ended: pure, from what was seen of its objects.

What stands above each command knows whether a signal reached it in time, and whether it said that its
work is done: its status is 0 only where it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from gpucommons.scheduler.core.model.going_on import ProcessImage
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.executors.kubernetes.attempts import sentences
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import Seen
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import (
    PodSeen,
    indexes,
    seconds_of,
)
from gpucommons.scheduler.in_pod.tree import IMAGE, VARIABLE
from gpucommons.scheduler.in_pod.worker import NOT_EXECUTABLE, NOT_FOUND, STOPPED
from gpucommons.scheduler.working_folder.reported_image import process_image, said

_KILLED, _SIGKILL = 137, -9


def end_of(seen: Seen) -> AttemptEnded:
    """How an attempt that is over ended."""
    known = _known_end(seen)
    if known is not None:
        return known
    text = _told_why(seen) or _vanished(seen)
    return AttemptEnded(attempt_id=seen.attempt.attempt_id, exit_code=None, text=text)


def is_unexplained(seen: Seen) -> bool:
    """Pods of it were removed, and nothing says why: its Jobs may, of which it is heard apart."""
    removed = any(pod.deleting or pod.uid in seen.gone for pod in seen.pods.values())
    return removed and _known_end(seen) is None and _told_why(seen) is None


def _known_end(seen: Seen) -> AttemptEnded | None:
    """None where it was lost to what was done to its objects."""
    attempt_id = seen.attempt.attempt_id
    if seen.failing is not None:
        return AttemptEnded(
            attempt_id=attempt_id,
            exit_code=None,
            start_failed=not seen.failing.again,
            text=seen.failing.text,
        )
    kept = _kept_of(seen)
    if kept is not None:
        return kept
    codes = _codes(seen)
    if len(codes) == seen.workers and not any(codes.values()):
        return AttemptEnded(attempt_id=attempt_id, exit_code=0)
    if seen.stopped:
        return _stopped(seen, codes)
    return _by_itself(seen)


def _codes(seen: Seen) -> dict[int, int]:
    """Exit status by rank, also from the Job's own record where a pod is gone."""
    found: dict[int, int] = {}
    for role in names.roles_of(seen.attempt):
        job = seen.jobs.get(names.job_name(seen.attempt, role))
        done = indexes(job.completed_indexes) if job is not None else frozenset()
        ranks = names.ranks_of(seen.attempt, role)
        found.update({rank: 0 for index, rank in enumerate(ranks) if index in done})
    for rank, pod in seen.pods.items():
        if pod.exit_code is not None:
            found[rank] = pod.exit_code
    return found


def _stopped(seen: Seen, codes: Mapping[int, int]) -> AttemptEnded:
    killed = _KILLED in codes.values()
    worst = _SIGKILL if killed else max((code for code in codes.values() if code), default=None)
    text = "" if seen.pods or seen.jobs or seen.ran else "It was stopped before it ran"
    return AttemptEnded(
        attempt_id=seen.attempt.attempt_id,
        exit_code=worst,
        killed=killed,
        text=text,
        not_saved=_of_only_pod(seen)[1],
    )


def _kept_of(seen: Seen) -> AttemptEnded | None:
    """Its processes were saved, whoever ended its pod; None where they were not."""
    image, _ = _of_only_pod(seen)
    if image is None:
        return None
    return AttemptEnded(attempt_id=seen.attempt.attempt_id, exit_code=None, told=True, image=image)


def _of_only_pod(seen: Seen) -> tuple[ProcessImage | None, str]:
    pod = seen.pods.get(0) if seen.workers == 1 else None
    if pod is None or VARIABLE not in pod.variables:
        return None, ""
    # What stands above the command leaves its word where the pod is told to end: else any program may have.
    if not (seen.stopped or pod.deleting or pod.disrupted.reason or _evicted(pod)):
        return None, ""
    image, not_saved = told_of_image(pod.end.message, pod.owner)
    return (image if pod.exit_code in (STOPPED, _KILLED) else None), not_saved


def told_of_image(message: str, owner: str) -> tuple[ProcessImage | None, str]:
    """What a pod left word of: an image, or why there is none."""
    if not message.startswith(IMAGE):
        return None, ""
    try:
        told = json.loads(message.removeprefix(IMAGE))
        return process_image({**told["image"], "user": owner}), said(told["not_saved"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, ""


def _by_itself(seen: Seen) -> AttemptEnded | None:
    attempt_id = seen.attempt.attempt_id
    for pod in _in_order(seen):
        if pod.end.reason in sentences.NEVER_RAN or _not_begun(pod):
            text = sentences.could_not_run(pod.end, pod.command)
            return AttemptEnded(attempt_id=attempt_id, exit_code=None, start_failed=True, text=text)
    for pod in _in_order(seen):
        # What the cluster took away says nothing about the job: it is tried again.
        if pod.exit_code and not pod.disrupted.reason and not _evicted(pod):
            if _deleted(pod, seen):
                continue
            text = sentences.ended_by_itself(pod, workers=seen.workers)
            code = _SIGKILL if pod.end.reason == "OOMKilled" else pod.exit_code
            return AttemptEnded(attempt_id=attempt_id, exit_code=code, text=text)
    return None


def _not_begun(pod: PodSeen) -> bool:
    return pod.exit_code in (NOT_FOUND, NOT_EXECUTABLE) and bool(
        sentences.not_begun(pod.end.message, pod.command)
    )


def _in_order(seen: Seen) -> list[PodSeen]:
    """The first to end first: when one fails the cluster ends the others."""
    return sorted(seen.pods.values(), key=lambda pod: (pod.finished_at or "9", pod.index))


def _deleted(pod: PodSeen, seen: Seen) -> bool:
    """Somebody else than its Job ended it: the Job deletes others only when one has failed by itself."""
    if _ended_undeleted(pod):
        return False
    job = seen.jobs.get(pod.job)
    if job is None or not job.failure.reason:
        return True
    # The end of one that was deleted by hand makes its Job fail, too.
    of_job = (one for one in seen.pods.values() if one.job == pod.job and one.exit_code)
    return not any(_ended_undeleted(one) for one in of_job)


def _ended_undeleted(pod: PodSeen) -> bool:
    """It had ended before anybody deleted it, if anybody did."""
    ended_ms = seconds_of(pod.finished_at) * 1000 if pod.finished_at else math.inf
    return not pod.deleting or ended_ms < (pod.deleted_at_ms or 0)


def _evicted(pod: PodSeen) -> bool:
    return pod.end.reason in {"Evicted", "NodeShutdown", "Terminated", "NodeLost"}


def _told_why(seen: Seen) -> str | None:
    """What the cluster says of its end, or its Jobs show."""
    for pod in _in_order(seen):
        if pod.disrupted.reason or _evicted(pod):
            return sentences.taken_away(pod)
    return next(filter(None, (_done_to(name, seen) for name in seen.job_names)), None)


def _vanished(seen: Seen) -> str:
    for pod in _in_order(seen):
        if pod.deleting or pod.uid in seen.gone:
            return sentences.taken_away(pod)
    if seen.ran and not seen.pods and not seen.jobs:
        return "It was gone when the scheduler came back"
    return "It was lost without a trace"


def _done_to(name: str, seen: Seen) -> str | None:
    """What somebody did to a Job of it."""
    job = seen.jobs.get(name)
    if job is not None and job.suspended:
        return f"Somebody suspended its Job {name}: stop jobs here, not in the cluster"
    if (job is not None and job.deleting) or (job is None and seen.pods):
        return f"Somebody deleted its Job {name}"
    if job is not None and job.failure.reason == "DeadlineExceeded":
        return f"Its Job {name} had a deadline that is not ours"
    return None
