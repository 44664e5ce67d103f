"""What jobs of this machine made, once they are over: brought to their owners, told, and sent.

A success is copied by its supervisor. Here comes all else: jobs that failed or were cancelled, also
while they waited, and copies that were cut short. Everything is read from attempts' folders, so a
scheduler that was killed goes on where it was.
"""

from __future__ import annotations

import logging
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, Any, NamedTuple
from weakref import WeakKeyDictionary

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import AttemptId, Workload, WorkloadId
from gpucommons.scheduler.errors import (
    Conflict,
    SchedulerError,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    read_json,
    write_json,
)
from gpucommons.scheduler.executors.local.attempt.errand_answers import Answer, Done
from gpucommons.scheduler.executors.local.attempt.own_files import OwnFiles, send_on_errand
from gpucommons.scheduler.executors.local.attempt.plan import Plan
from gpucommons.scheduler.executors.local.copy_turns import TURN_S, CopyTurns
from gpucommons.scheduler.working_folder.giving_back import Outcome

log = logging.getLogger("gpucommons.scheduler.results")

#: A copy of the largest results to a slow disk takes so long; then something hangs.
PATIENCE_S = 3600.0
#: Tries of one job's copy while this scheduler runs.
_TRIES = 3
#: One pass waits so long for those who copy.
TOGETHER_S = 2.0
#: So soon a copy that is to give its place up does so.
_LISTENS_S = 1.0
_CHUNK_BYTES = 1 << 18
#: The files of one user's jobs, and of all, are sent so many times at once.
_SENT_TO_ONE, _SENT_TOGETHER = 2, 12
#: An errand that sends nothing for so long has been stopped by its user.
SILENCE_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Due:
    """Files that are to be brought to their owner."""

    owner: str
    folder: AttemptFolder
    plan: Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class _Copying:
    """A thread that copies one user's files, and how it is told to give its place up."""

    thread: Thread
    cut: Event


class _Sent(NamedTuple):
    """Whose files an errand sends, and since when."""

    owner: str
    since_s: float


class LocalResults:
    """Looks after the results of all jobs of this machine; its steps come from one thread."""

    def __init__(
        self,
        attempts: Path,
        *,
        job_of: Callable[[WorkloadId], Workload | None],
        turns: CopyTurns | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attempts = attempts
        self._job_of = job_of
        #: Attempts whose job was not seen to be over; None = nobody has looked yet.
        self._open: set[str] | None = None
        self._tries: dict[str, int] = {}
        #: Attempts' folders that were there at the last look.
        self._seen: set[str] = set()
        #: Errands that send files, and whose; one that nobody listens to goes by itself.
        self._sending: WeakKeyDictionary[subprocess.Popen[bytes], _Sent] = WeakKeyDictionary()
        #: By owner, who copies.
        self._copying: dict[str, _Copying] = {}
        self._turns = turns or CopyTurns()
        self._clock = clock
        #: Attempts that are done with, and whether something was brought.
        self._done: dict[str, bool] = {}
        self._lock = Lock()

    # --- bringing ----------------------------------------------------------------------------

    def step(self) -> int:
        """One pass over what is new; returns for how many jobs something was brought."""
        there = (
            {path.name for path in self._attempts.iterdir()} if self._attempts.is_dir() else set()
        )
        self._open = ((self._open or set()) & there) | (there - self._seen)
        self._seen = there
        due: dict[str, list[_Due]] = {}
        for name in sorted(self._open):
            found = self._look_at(AttemptFolder(self._attempts / name))
            if isinstance(found, _Due):
                due.setdefault(found.owner, []).append(found)
            elif found:
                self._open.discard(name)
        return self._bring_all(due)

    def _bring_all(self, due: Mapping[str, Sequence[_Due]]) -> int:
        """Copy beside one another what is of different users: one may stop the copying of their own."""
        for owner in self._turns.begin(due, self._clock()):
            cut = Event()
            thread = Thread(target=self._bring_each, args=(due[owner], cut), daemon=True)
            self._copying[owner] = _Copying(thread=thread, cut=cut)
            thread.start()
        for owner in self._turns.give_up(self._clock()):
            log.warning("copying files of %s has gone on for long, and others wait", owner)
            self._copying[owner].cut.set()
        until_s = time.monotonic() + TOGETHER_S
        for owner, copying in list(self._copying.items()):
            copying.thread.join(max(0.0, until_s - time.monotonic()))
            if not copying.thread.is_alive():
                del self._copying[owner]
                self._turns.ended(owner)
        with self._lock:
            done, self._done = self._done, {}
        self._open = (self._open or set()) - done.keys()
        return sum(done.values())

    def _bring_each(self, those: Sequence[_Due], cut: Event) -> None:
        for one in those:
            if cut.is_set():
                return
            brought = self._bring(one.folder, one.plan, cut)
            if brought is not None:
                with self._lock:
                    self._done[one.folder.path.name] = brought

    def _look_at(self, folder: AttemptFolder) -> _Due | bool:
        """What is to be brought; True = nothing ever is, False = it is to be looked at again."""
        if folder.given_back.exists():
            return True
        document = read_json(folder.plan)
        if document is None:
            return folder.exit.exists()
        plan = Plan.from_json(document)
        job = self._job_of(WorkloadId(plan.job_id)) if plan.job_id else None
        if job is None:
            return True
        if not is_final(job):
            # Of an attempt with a successor nothing is left to bring.
            return _has_successor(job, plan.attempt_id)
        if self._last(job) != folder.path.name:
            return True
        return _Due(owner=job.spec.owner, folder=folder, plan=plan)

    def _last(self, job: Workload) -> str | None:
        """The newest attempt that was laid out: it has the working folder, or it takes it over."""
        for attempt in reversed(job.attempts):
            if (self._attempts / attempt.attempt_id / "plan.json").exists():
                return attempt.attempt_id
        return None

    def _bring(self, folder: AttemptFolder, plan: Plan, cut: Event) -> bool | None:
        files = OwnFiles(folder=folder, plan=plan, run=_runs(plan, cut))
        problem, _ = files.take_over()
        problem = problem or files.give_back()
        if problem is None:
            return True
        if cut.is_set():
            return None  # for others' sake: it is no try in vain
        tries = self._tries[plan.attempt_id] = self._tries.get(plan.attempt_id, 0) + 1
        if tries < _TRIES:
            return None
        log.warning("the files of %s were not brought back: %s", plan.job, problem)
        write_json(folder.given_back, Outcome(problem=problem).as_json())
        return False

    # --- telling -----------------------------------------------------------------------------

    def outcome(self, job: Workload) -> Outcome | None:
        """What became of a job's files; None before they were copied, or where nobody knows."""
        for attempt in reversed(job.attempts):
            document = read_json(AttemptFolder(self._attempts / attempt.attempt_id).given_back)
            if document is not None:
                return Outcome.from_json(document)
        return None

    def is_coming(self, job: Workload) -> bool:
        """Whether the files of a job that is over are copied by this scheduler, now or soon."""
        document = self._last_plan(job)
        # An earlier release laid out attempts that do not say whose they are.
        return document is not None and bool(document.get("job_id"))

    def are_left(self, job: Workload) -> bool:
        """Whether a job's files, copied or not, still lie with it."""
        return self._last_plan(job) is not None

    def _last_plan(self, job: Workload) -> dict[str, Any] | None:
        last = self._last(job)
        return None if last is None else read_json(AttemptFolder(self._attempts / last).plan)

    # --- sending -----------------------------------------------------------------------------

    def chunks(self, job: Workload, only: str = "") -> Iterator[bytes]:
        """All that a job made, or one file of it, as a tar.

        Raises
        ------
        Conflict, TooLarge, TooManyRequests, Unavailable
            When it is gone, too much, or cannot be read; before anything is sent.
        """
        last = self._last(job)
        folder = None if last is None else AttemptFolder(self._attempts / last)
        document = None if folder is None else read_json(folder.plan)
        if folder is None or document is None:
            raise Conflict(f"{job.spec.name} left no files, or they are gone by now.")
        plan = Plan.from_json(document)
        words, snapshot = OwnFiles(folder=folder, plan=plan, run=_runs(plan)).sending(only)
        with self._lock:
            self._refuse_too_many(job.spec.owner)
            try:
                errand = send_on_errand(plan, words, snapshot)
            except OSError as error:
                message = f"The files of {job.spec.name} cannot be read: {error.strerror}."
                raise Unavailable(message) from None
            self._sending[errand] = _Sent(job.spec.owner, self._clock())
        # Of one file any size is sent: it is refused only where there is none.
        return _begun(errand, job.spec.name, Conflict if only else TooLarge)

    def _refuse_too_many(self, owner: str) -> None:
        """Each of them may hold a thread of the service for as long as its user wants to be silent."""
        under_way = {one: sent for one, sent in self._sending.items() if one.poll() is None}
        mine = sum(sent.owner == owner for sent in under_way.values())
        if mine < _SENT_TO_ONE and len(under_way) < _SENT_TOGETHER:
            return
        if not mine:
            longest, sent = min(under_way.items(), key=lambda item: item[1].since_s)
            if self._clock() - sent.since_s >= TURN_S:
                longest.kill()
                return
        raise TooManyRequests(
            f"{len(under_way)} fetches of files are under way, {mine} of them of"
            f" jobs of {owner}; at most {_SENT_TOGETHER} and {_SENT_TO_ONE} go on at a time."
            " Wait until one is done."
        )


def _has_successor(job: Workload, attempt_id: str) -> bool:
    return bool(job.attempts) and job.attempts[-1].attempt_id != AttemptId(attempt_id)


def _runs(plan: Plan, cut: Event | None = None) -> Callable[[Sequence[str], Path | None], Done]:
    """Run an errand as the job's user; ``cut`` ends it before its time."""

    def run(words: Sequence[str], snapshot: Path | None) -> Done:
        until_s = time.monotonic() + PATIENCE_S
        try:
            with Answer(send_on_errand(plan, words, snapshot)) as answer:
                while (done := answer.hear(_LISTENS_S)) is None:
                    if cut is not None and cut.is_set():
                        return Done(problem="it was cut short, because others wait")
                    if time.monotonic() >= until_s:
                        return Done(problem="it took too long")
                return done
        except OSError as error:
            return Done(problem=f"nothing can be run as the job's user: {error}")

    return run


def _begun(
    errand: subprocess.Popen[bytes], name: str, refusal: type[SchedulerError]
) -> Iterator[bytes]:
    """The errand's bytes, once there are some: a refusal comes before any."""
    assert errand.stdout is not None  # noqa: S101 - it is a pipe
    assert errand.stderr is not None  # noqa: S101 - it is a pipe
    first = _next(errand.stdout, SILENCE_S)
    if not first:
        said = _next(errand.stderr, 1.0)[:2048].decode(errors="replace").strip()
        errand.kill()
        errand.wait()
        _close(errand)
        raise refusal(f"The files of {name} are not sent: {said.removeprefix('gpucommons: ')}.")
    return _rest(errand, first)


def _rest(errand: subprocess.Popen[bytes], first: bytes) -> Iterator[bytes]:
    assert errand.stdout is not None  # noqa: S101 - it is a pipe
    try:
        yield first
        while chunk := _next(errand.stdout, SILENCE_S):
            yield chunk
    finally:
        # Also when whoever fetched has gone away.
        with suppress(ProcessLookupError):
            errand.kill()
        errand.wait()
        _close(errand)


def _next(pipe: IO[bytes], patience_s: float) -> bytes:
    """The next bytes of an errand; none where it has ended, or says nothing for too long."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return os.read(pipe.fileno(), _CHUNK_BYTES) if selector.select(patience_s) else b""


def _close(errand: subprocess.Popen[bytes]) -> None:
    for pipe in (errand.stdout, errand.stderr):
        if pipe is not None:
            pipe.close()
