"""What jobs of this machine made, once they are over: brought to their owners, told, and sent.

A success is copied by its supervisor. Here comes all else: jobs that failed or were cancelled, also
while they waited, and copies that were cut short. Everything is read from attempts' folders, so a
scheduler that was killed goes on where it was.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucommons.scheduler.core.lifecycle import is_final
from gpucommons.scheduler.core.types import AttemptId, Workload, WorkloadId
from gpucommons.scheduler.errors import Conflict, TooLarge, Unavailable
from gpucommons.scheduler.executors.attempt_folder import AttemptFolder, read_json, write_json
from gpucommons.scheduler.executors.own_files import Done, OwnFiles, send_on_errand
from gpucommons.scheduler.executors.plan import Plan
from gpucommons.scheduler.working_folder.giving_back import Outcome

log = logging.getLogger("gpucommons.scheduler.results")

#: A copy of the largest results to a slow disk takes so long; then something hangs.
PATIENCE_S = 3600.0
#: Tries of one job's copy while this scheduler runs.
_TRIES = 3
_CHUNK_BYTES = 1 << 18


class LocalResults:
    """Looks after the results of all jobs of this machine; its steps come from one thread."""

    def __init__(self, attempts: Path, *, job_of: Callable[[WorkloadId], Workload | None]) -> None:
        self._attempts = attempts
        self._job_of = job_of
        #: Attempts whose job was not seen to be over; None = nobody has looked yet.
        self._open: set[str] | None = None
        self._tries: dict[str, int] = {}
        #: Attempts' folders that were there at the last look.
        self._seen: set[str] = set()

    # --- bringing ----------------------------------------------------------------------------

    def step(self) -> int:
        """One pass over what is new; returns for how many jobs something was brought."""
        there = (
            {path.name for path in self._attempts.iterdir()} if self._attempts.is_dir() else set()
        )
        self._open = ((self._open or set()) & there) | (there - self._seen)
        self._seen = there
        brought = 0
        for name in sorted(self._open):
            done = self._look_at(AttemptFolder(self._attempts / name))
            if done is None:
                continue
            self._open.discard(name)
            brought += done
        return brought

    def _look_at(self, folder: AttemptFolder) -> bool | None:
        """Whether something was brought; None = it is to be looked at again."""
        if folder.given_back.exists():
            return False
        document = read_json(folder.plan)
        if document is None:
            return None if not folder.exit.exists() else False
        plan = Plan.from_json(document)
        job = self._job_of(WorkloadId(plan.job_id)) if plan.job_id else None
        if job is None:
            return False
        if not is_final(job):
            # Of an attempt with a successor nothing is left to bring.
            return False if _has_successor(job, plan.attempt_id) else None
        if self._last(job) != folder.path.name:
            return False
        return self._bring(folder, plan)

    def _last(self, job: Workload) -> str | None:
        """The newest attempt that was laid out: it has the working folder, or it takes it over."""
        for attempt in reversed(job.attempts):
            if (self._attempts / attempt.attempt_id / "plan.json").exists():
                return attempt.attempt_id
        return None

    def _bring(self, folder: AttemptFolder, plan: Plan) -> bool | None:
        files = OwnFiles(folder=folder, plan=plan, run=_runs(plan))
        problem, _ = files.take_over()
        problem = problem or files.give_back()
        if problem is None:
            return True
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

    def chunks(self, job: Workload) -> Iterator[bytes]:
        """All that a job made, as a tar.

        Raises
        ------
        Conflict, TooLarge, Unavailable
            When it is gone, too much, or cannot be read; before anything is sent.
        """
        last = self._last(job)
        folder = None if last is None else AttemptFolder(self._attempts / last)
        document = None if folder is None else read_json(folder.plan)
        if folder is None or document is None:
            raise Conflict(f"{job.spec.name} left no files, or they are gone by now.")
        plan = Plan.from_json(document)
        words, snapshot = OwnFiles(folder=folder, plan=plan, run=_runs(plan)).sending()
        try:
            errand = send_on_errand(plan, words, snapshot)
        except OSError as error:
            message = f"The files of {job.spec.name} cannot be read: {error.strerror}."
            raise Unavailable(message) from None
        return _begun(errand, job.spec.name)


def _has_successor(job: Workload, attempt_id: str) -> bool:
    return bool(job.attempts) and job.attempts[-1].attempt_id != AttemptId(attempt_id)


def _runs(plan: Plan) -> Callable[[Sequence[str], Path | None], Done]:
    def run(words: Sequence[str], snapshot: Path | None) -> Done:
        try:
            with send_on_errand(plan, words, snapshot) as errand:
                try:
                    said, complained = errand.communicate(timeout=PATIENCE_S)
                except subprocess.TimeoutExpired:
                    errand.kill()
                    return Done(problem="it took too long")
        except OSError as error:
            return Done(problem=f"nothing can be run as the job's user: {error}")
        if errand.returncode == 0:
            return Done(said=said.decode())
        return Done(problem=complained.decode(errors="replace").strip()[-500:] or "it was killed")

    return run


def _begun(errand: subprocess.Popen[bytes], name: str) -> Iterator[bytes]:
    """The errand's bytes, once there are some: a refusal comes before any."""
    assert errand.stdout is not None  # noqa: S101 - it is a pipe
    assert errand.stderr is not None  # noqa: S101 - it is a pipe
    first = errand.stdout.read1(_CHUNK_BYTES)  # type: ignore[attr-defined] # a buffered pipe
    if not first:
        said = errand.stderr.read(2048).decode(errors="replace").strip()
        errand.wait()
        _close(errand)
        raise TooLarge(f"The files of {name} are not sent: {said.removeprefix('gpucommons: ')}.")
    return _rest(errand, first)


def _rest(errand: subprocess.Popen[bytes], first: bytes) -> Iterator[bytes]:
    assert errand.stdout is not None  # noqa: S101 - it is a pipe
    try:
        yield first
        while chunk := errand.stdout.read1(_CHUNK_BYTES):  # type: ignore[attr-defined] # a buffered pipe
            yield chunk
    finally:
        # Also when whoever fetched has gone away.
        with suppress(ProcessLookupError):
            errand.kill()
        errand.wait()
        _close(errand)


def _close(errand: subprocess.Popen[bytes]) -> None:
    for pipe in (errand.stdout, errand.stderr):
        if pipe is not None:
            pipe.close()
