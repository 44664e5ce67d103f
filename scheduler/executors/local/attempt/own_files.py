"""A job's files before and after its commands: what its supervisor has done with them, as their owner.

Each step is an errand of the job's user, and may be repeated: the supervisor can be killed at any
moment, and the next attempt goes on from whatever was done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from gpucommons.scheduler.curves.event_process import EventProcess, Reading
from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    read_json,
    write_json,
)
from gpucommons.scheduler.executors.local.attempt.errand_answers import Answer, Done
from gpucommons.scheduler.executors.local.attempt.plan import Plan, as_user, passed_on
from gpucommons.scheduler.executors.local.attempt.supervision import MARK, kill_marked, kill_overdue
from gpucommons.scheduler.failures import TAIL_BYTES, Failure
from gpucommons.scheduler.files.log_reader import read_tail
from gpucommons.scheduler.working_folder import taking_over
from gpucommons.scheduler.working_folder.giving_back import Outcome
from gpucommons.scheduler.working_folder.holders import kill_holders

ERRAND = "gpucommons.scheduler.executors.errand"
#: A GPU waits meanwhile: what is not counted by then is "at least".
COUNT_S = 1.0
#: Of a count that its user has stopped nobody waits for the end.
_LATE_S = 10.0
#: One that runs still may take so much longer.
_BUSY_S = 60.0
#: Of the first worker's variables, what is told to the program beside it.
_TOLD = ("GPUCOMMONS_URL", "GPUCOMMONS_TOKEN", "KUBEFLOW_TRAINER_SERVER_TOKEN")


#: An errand's words, and the snapshot that it is given.
Errand = tuple[list[str], Path | None]
#: Runs an errand, but never beyond the time to kill.
Run = Callable[[Sequence[str], Path | None], Done]


def send_on_errand(
    plan: Plan, words: Sequence[str], snapshot: Path | None, stdout: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start an errand as the job's user, with the snapshot's bytes on its standard input."""
    with (snapshot or Path(os.devnull)).open("rb") as source:
        return subprocess.Popen(
            [sys.executable, "-m", ERRAND, *words],
            stdin=source,
            stdout=stdout,
            stderr=subprocess.PIPE,
            umask=0o077,
            cwd="/",
            # The user can read it: no token of the service may be in it.
            env=passed_on(os.environ) | _kept(MARK, "PYTHONPATH"),
            **as_user(plan.account),
        )


def _kept(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def event_process(plan: Plan, run: Path, *, since_s: float) -> EventProcess | None:
    """Whoever reads the working folder's TensorBoard files; None where nobody is to be told of them."""
    env = plan.workers[0].env
    told = {name: env[name] for name in _TOLD if name in env}
    if not {"GPUCOMMONS_URL", "GPUCOMMONS_TOKEN"} <= told.keys():
        return None
    account = plan.account
    return EventProcess(
        reading=Reading(
            work=str(run / "work"),
            # With its mark it is found and ended where the supervisor was killed.
            env=told | _kept(MARK),
            account=None if account is None else (account.uid, account.gid, account.groups),
            since_s=since_s,
        )
    )


def failure_of(plan: Plan, folder: AttemptFolder, rank: int, exit_code: int) -> Failure:
    """What is known of the worker that failed first."""
    return Failure(
        tail=read_tail(folder.log(rank), TAIL_BYTES),
        exit_code=exit_code,
        rank=rank,
        workers=len(plan.workers),
        files=_names_in(folder.run / "work"),
        taken_from=PurePath(plan.results_to or "").name,
        simulated=any(one.simulated for one in plan.workers if one.rank == rank),
    )


def _names_in(folder: Path) -> frozenset[str]:
    """At its top; a link that the job's user put in its place leads nowhere."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return frozenset()
    try:
        with os.scandir(opened) as found:
            return frozenset(one.name for one in found)
    finally:
        os.close(opened)


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnFiles:
    """The files of one attempt."""

    folder: AttemptFolder
    plan: Plan
    run: Run

    def prepare(self, wait: Callable[[], bool]) -> str | None:
        """Give the attempt its working folder; returns what went wrong.

        ``wait`` passes a moment while something of an earlier attempt is still there; False = no more.
        """
        problem, taken = self.take_over()
        if problem is not None:
            return problem
        # Whoever was in it before the rename is in it still.
        while self.plan.earlier and self._end_strays():
            if not wait():
                return "processes of the attempt before hold its working folder and do not end"
        if self.plan.superseded:
            self.run(["clear", *self.plan.superseded], None)
        return None if taken else self._make()

    def take_over(self) -> tuple[str | None, bool]:
        """Have the working folder of an earlier attempt, if there is one; says what went wrong."""
        own, account = self.folder.run, self.plan.account
        try:
            own.mkdir(mode=0o700, exist_ok=True)
            if account is not None:
                os.chown(own, account.uid, account.gid)
        except OSError as error:
            return f"its folder could not be made: {error.strerror}", False
        done = self.run(["take-over", str(own), *self.plan.earlier], None)
        if done.problem is not None:
            return f"its working folder could not be handed over: {done.problem}", False
        return None, done.document().get("taken") is True

    def _end_strays(self) -> bool:
        """End what an earlier attempt may have left; True while there was something."""
        before = AttemptFolder(Path(self.plan.earlier[0]).parent)
        alive = before.supervised()
        if alive:
            # Its node was fenced, so nothing of it may go on.
            kill_overdue(before)
        marked = kill_marked(before.path.name)
        account = self.plan.account
        held = kill_holders(
            self.folder.path.resolve() / self.folder.run.name / taking_over.NAME,
            uid=None if account is None else account.uid,
        )
        return alive or marked or held

    def _make(self) -> str | None:
        words = ["make", str(self.folder.run), "--max-bytes", str(self.plan.max_unpacked_bytes)]
        return self.run([*words, *self._on_snapshot(), *self._links()], self._snapshot).problem

    def _links(self) -> list[str]:
        if not self.plan.links or self.plan.links_from is None:
            return []
        found = [f"--home={self.plan.home}", f"--below={self.plan.links_from}"]
        return [*found, *(f"--link={path}" for path in self.plan.links)]

    @property
    def _snapshot(self) -> Path | None:
        return Path(self.plan.snapshot) if self.plan.snapshot else None

    def _on_snapshot(self) -> list[str]:
        return ["--snapshot"] if self.plan.snapshot else []

    def counting(self) -> Errand:
        """Count what the next attempt finds: files that are new or changed since the snapshot."""
        words = ["count", str(self.folder.run), *self.plan.earlier, "--seconds", str(COUNT_S)]
        return [*words, *self._on_snapshot()], self._snapshot

    def kept(self) -> dict[str, Any]:
        """How much the next attempt finds; empty where that is not known."""
        return _counted(self.run(*self.counting()))

    def give_back(self) -> str | None:
        """Copy what the job made to its owner's folder, and write down what became of it.

        Returns what went wrong with the copying itself: it can be repeated.
        """
        plan, limit = self.plan, str(self.plan.max_results_bytes)
        names = ["--job", plan.job, "--job-id", plan.job_id, "--max-bytes", limit]
        place = [str(self.folder.run), plan.home, f"./{plan.results_to or ''}"]
        done = self.run(["give-back", *place, *names, *self._on_snapshot()], self._snapshot)
        if done.problem is not None:
            return done.problem
        try:
            outcome = Outcome.from_json(done.document())
        except (AttributeError, KeyError, TypeError, ValueError):
            return "the copying gave no answer"
        write_json(self.folder.given_back, outcome.as_json())
        return None

    def sending(self, only: str = "") -> Errand:
        """Send all that it made, or one file, as a tar on standard output."""
        limit = str(self.plan.max_results_bytes)
        words = ["send", str(self.folder.run), "--max-bytes", limit, f"--only={only}"]
        words += self._on_snapshot()
        return words, self._snapshot


class Counts:
    """Counts what attempts keep whose supervisor was killed, beside whoever asks time and again."""

    def __init__(self) -> None:
        self._errands: dict[Path, tuple[Answer, float]] = {}

    def has_begun(self, folder: AttemptFolder) -> bool:
        """Whether somebody of ours is in the folder."""
        return folder.path in self._errands

    def of(self, folder: AttemptFolder) -> dict[str, Any] | None:
        """How much it keeps, and its image; empty where that cannot be known, None while it is counted."""
        known = self._errands.get(folder.path)
        try:
            if known is None:
                known = Answer(_count(folder)), time.monotonic() + COUNT_S + _LATE_S
                self._errands[folder.path] = known
        except (OSError, KeyError, ValueError):
            return {}
        answer, until_s = known
        done = answer.hear(0)
        late_s = time.monotonic() - until_s
        # On a busy machine it only takes its time; its user may have stopped it, too.
        if done is None and (late_s < 0 or (late_s < _BUSY_S and not answer.is_stopped())):
            return None
        with answer:
            del self._errands[folder.path]
        if done is None:
            return {}
        image = done.document().get("image")
        return {**_counted(done), "image": image} if image else _counted(done)


def _counted(done: Done) -> dict[str, Any]:
    """What was counted; empty where that is no count."""
    found = done.document() if done.problem is None else {}
    # That none was found among some says nothing of the others.
    found.pop("image", None)
    is_unknown = found.get("files") == 0 and bool(found.get("more"))
    return found if type(found.get("files")) is int and not is_unknown else {}


def _count(folder: AttemptFolder) -> subprocess.Popen[bytes]:
    plan = Plan.from_json(read_json(folder.plan) or {})
    files = OwnFiles(folder=folder, plan=plan, run=lambda _words, _snapshot: Done())
    return send_on_errand(plan, *files.counting())
