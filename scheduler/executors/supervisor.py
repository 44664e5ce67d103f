"""The process above one attempt's workers, alive even when the scheduler is not.

It starts all workers or none, pumps what they print into capped logs, obeys a stop order (SIGTERM now,
SIGKILL at its time, whoever else may have died), leaves no descendant behind, and writes down how it
ended. It is a subreaper: daemons that a job forks become its children, so they are found and ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from gpucommons.gpu.slices.cgroups import enter
from gpucommons.scheduler.curves.event_process import EventProcess
from gpucommons.scheduler.executors.local.attempt.answers import Answer, Done
from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    read_json,
    write_json,
)
from gpucommons.scheduler.executors.local.attempt.descendants import (
    descendants,
    kill_children,
    quietly,
    reap_adopted,
)
from gpucommons.scheduler.executors.local.attempt.hibernating import Hibernating, Start
from gpucommons.scheduler.executors.local.attempt.own_files import (
    COUNT_S,
    OwnFiles,
    event_process,
    send_on_errand,
)
from gpucommons.scheduler.executors.local.attempt.plan import Plan, WorkerPlan, as_user
from gpucommons.scheduler.executors.local.attempt.pump import Pump
from gpucommons.scheduler.executors.local.attempt.told import Told, has_finished, is_done
from gpucommons.scheduler.executors.worker import MAX_REFUSAL_BYTES
from gpucommons.scheduler.failures import TAIL_BYTES, Failure, headline
from gpucommons.scheduler.files.log_reader import read_tail

_PR_SET_CHILD_SUBREAPER = 36
#: Between two looks for what an earlier attempt left behind.
_STRAYS_S = 0.05
#: Also without a signal the order to stop is looked for this often.
LOOK_S = 1.0
#: While a save is waited for, more often.
SAVING_S = 0.05
#: The logs of all workers together are as long as so many full ones.
_FULL_LOGS = 4


class Supervisor:
    """Runs one plan to its end."""

    def __init__(self, folder: AttemptFolder, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._files = OwnFiles(folder=folder, plan=plan, run=self._errand)
        self._image = Hibernating(folder, plan, self._errand)
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._codes: dict[int, int] = {}
        #: Of each worker, where it says why its command does not run.
        self._refusals: dict[int, int] = {}
        self._events: EventProcess | None = None
        #: Which worker failed first by itself, and with what.
        self._first_failure: tuple[int, int] | None = None
        #: One worker has left with an error, so the others must.
        self._leaving = False
        self._told = Told(folder.run)
        #: When everything that is left gets SIGKILL, by the wall clock; None = no end is ordered.
        self._kill_at_s: float | None = None
        self._beyond_s = 0.0
        self._killed = False
        self._stopping = False
        #: What the disk would not take yet.
        self._unwritten: dict[Path, Mapping[str, Any]] = {}
        together = _FULL_LOGS * plan.max_log_bytes // max(1, len(plan.workers))
        self._pump = Pump(max_bytes=min(plan.max_log_bytes, together))

    def run(self) -> None:
        """Prepare, start, watch, end."""
        problem = self._files.prepare(self._wait_for_strays)
        self._obey()
        if self._stopping:
            problem = "It was stopped before it began."
        if problem is None:
            problem = self._start()
        if problem is None:
            self._watch()
            self._look_for_events(is_last=not self._killed)
        else:
            with suppress(OSError):
                self._folder.log(0).write_text(problem + "\n")
        self._leave_nobody()
        self._pump.close()
        kept: Mapping[str, Any] = {}
        saved: Mapping[str, Any] | None = None
        if problem is None:
            saved = self._saved()
            if saved is None and self._is_done():
                # Before its end is known: jobs that wait for it may look for what it made.
                self._files.give_back()
            else:
                # Nothing of the job runs any more, and what it keeps shall be known.
                self._beyond_s = COUNT_S + 1
                kept = self._files.kept()
        self._write_exit(problem, {"kept": dict(kept), "image": saved})

    # --- before and after --------------------------------------------------------------------

    def _errand(self, words: Sequence[str], snapshot: Path | None) -> Done:
        """Run an errand as the user, but never beyond the time to kill."""
        try:
            errand = send_on_errand(self._plan, words, snapshot)
        except OSError as error:
            return Done(problem=f"nothing can be run as the job's user: {error}")
        with Answer(errand) as answer:
            while (done := answer.hear(max(0.05, self._patience_s()))) is None:
                self._obey()
                if self._is_time_to_kill():
                    answer.cut_off()
        return done

    def _saved(self) -> Mapping[str, Any] | None:
        """The image with which the worker ended, if it did."""
        if not self._image.tried:
            return None
        # The time to kill may be near, and nothing of the job runs any more.
        self._beyond_s = COUNT_S + 1
        return self._image.saved(self._codes.get(0))

    def _wait_for_strays(self) -> bool:
        time.sleep(_STRAYS_S)
        self._obey()
        return not self._stopping

    def _facts(self) -> dict[str, Any]:
        return self._told.facts(self._exit_code(), failed_before=self._first_failure is not None)

    def _is_done(self) -> bool:
        whole = len(self._codes) == len(self._plan.workers)
        return whole and is_done(self._facts(), self._plan.exit_after_signal)

    def _exit_code(self) -> int | None:
        """What the attempt as a whole ended with: 0 only where each worker did."""
        failed = self._failed()
        return failed[1] if failed is not None else 0 if self._codes else None

    def _failed(self) -> tuple[int, int] | None:
        """The rank and exit status of the worker that failed first."""
        failed = ((rank, code) for rank, code in self._codes.items() if code)
        return self._first_failure or next(failed, None)

    def _write_exit(self, problem: str | None, left: Mapping[str, Any]) -> None:
        refusal = self._refusal()
        # Its own exit status is still to come.
        saved: dict[str, Any] = (
            {"exit_code": None, "told": True, "codes": {}} if left.get("image") else {}
        )
        never_ran = len(self._codes) < len(self._plan.workers) or refusal is not None
        self._write(
            self._folder.exit,
            {
                **self._facts(),
                "codes": {str(rank): self._codes[rank] for rank in sorted(self._codes)},
                "start_failed": never_ran and not self._stopping,
                "killed": self._killed,
                "text": problem or refusal or self._headline(),
                "not_saved": self._image.not_saved,
                "ended_ms": int(time.time() * 1000),
                **left,
                **saved,
            },
        )
        # Without that file nobody learns how it ended.
        while self._unwritten:
            time.sleep(LOOK_S)
            self._write_again()

    def _headline(self) -> str:
        """What the worker that failed first said of it; nothing of one that was told to stop."""
        failed = self._failed()
        if failed is None or self._stopping:
            return ""
        rank, code = failed
        tail = read_tail(self._folder.log(rank), TAIL_BYTES)
        workers = len(self._plan.workers)
        return headline(Failure(tail=tail, exit_code=code, rank=rank, workers=workers))

    def _write(self, path: Path, document: Mapping[str, Any]) -> None:
        """Write it now, or when the disk takes it: a full one is no reason to end a job."""
        self._unwritten[path] = document
        self._write_again()

    def _write_again(self) -> None:
        with suppress(OSError):
            for path, document in list(self._unwritten.items()):
                write_json(path, document)
                del self._unwritten[path]

    def _refusal(self) -> str | None:
        """Why a worker's command did not run; its exit status alone could be the command's own."""
        for descriptor in self._refusals.values():
            # Never waited for: under a shared account another process may hold the pipe open.
            with suppress(BlockingIOError):
                if said := os.read(descriptor, MAX_REFUSAL_BYTES):
                    return said.decode(errors="replace")
        return None

    # --- workers -----------------------------------------------------------------------------

    def _start(self) -> str | None:
        """Start all; returns what went wrong, with whoever started ended again."""
        start: Start | None = self._image.ready()
        while start is not None:
            for worker in self._plan.workers:
                try:
                    self._workers[worker.rank] = self._start_worker(worker, start)
                except OSError as error:
                    return f"worker {worker.rank} could not be put under the limit of its slice: {error}"
            start = self._image.after(start)
        self._events = event_process(self._plan, self._folder.run, since_s=time.time())
        pids = {str(rank): process.pid for rank, process in self._workers.items()}
        facts = {"pids": pids, "hibernation": self._image.known()}
        self._write(self._folder.started, {"started_ms": int(time.time() * 1000), **facts})
        return None

    def _start_worker(self, worker: WorkerPlan, start: Start) -> subprocess.Popen[bytes]:
        refusal, write_end = os.pipe()
        os.set_blocking(refusal, False)
        process = subprocess.Popen(
            [sys.executable, "-m", "gpucommons.scheduler.executors.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
            cwd="/",
            pass_fds=[write_end],
            **as_user(self._plan.account),
        )
        os.close(write_end)
        self._refusals[worker.rank] = refusal
        order = {
            "command": () if start.woken_from is not None else worker.command,
            "prefix": start.prefix,
            "places": start.places,
            "env": worker.env,
            "secrets": self._plan.secrets,
            "environment": self._plan.environment,
            "home": self._plan.home,
            "cwd": str(self._folder.run / "work" / self._plan.working_dir),
            "supervisor": os.getpid(),
            "refusal": write_end,
        }
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        if worker.cgroup is not None:
            # It waits for its order, so it has allocated nothing yet.
            enter(worker.cgroup, process.pid)
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(order).encode())
            process.stdin.close()
        if start.prefix and self._plan.account is not None:
            # A woken process opens it again, as its user.
            os.fchown(process.stdout.fileno(), self._plan.account.uid, self._plan.account.gid)
        self._pump.add(process.stdout, self._folder.log(worker.rank))
        return process

    def _watch(self) -> None:
        while len(self._codes) < len(self._workers):
            self._pump.turn(self._patience_s())
            self._reap()
            self._look_for_events()
            self._write_again()
            self._obey()
            if not self._image.turn():
                self._told.send(signal.SIGTERM, self._living())
            if self._is_time_to_kill():
                self._kill_all()

    def _look_for_events(self, *, is_last: bool = False) -> None:
        if self._events is not None:
            self._events.look(time.monotonic(), is_last=is_last)

    def _is_time_to_kill(self) -> bool:
        return self._kill_at_s is not None and time.time() >= self._kill_at_s + self._beyond_s

    def _patience_s(self) -> float:
        if self._kill_at_s is None:
            return LOOK_S
        look_s = SAVING_S if self._image.is_at_it() else LOOK_S
        return min(look_s, max(0.0, self._kill_at_s - time.time()))

    def _reap(self) -> None:
        for rank, process in self._workers.items():
            code = process.poll()
            if code is None or rank in self._codes:
                continue
            self._codes[rank] = code
            if code and not self._leaving and not self._stopping:
                self._leaving = True
                if not self._told.was(rank):
                    self._first_failure = (rank, code)
                # A gang is whole or it is not: the others may save and must leave.
                self._told.send(signal.SIGTERM, self._living())
                self._kill_by(time.time() + self._plan.leave_s)
        reap_adopted({process.pid for process in self._workers.values()})

    def _obey(self) -> None:
        self._told.hear(read_json(self._folder.notice), self._living())
        order = read_json(self._folder.stop)
        if order is None:
            return
        # An order may be repeated with less time.
        self._kill_by(order["kill_ms"] / 1000)
        if self._stopping:
            return
        self._stopping = True
        if not (order.get("hibernates") and self._is_saved_instead()):
            self._told.send(signal.SIGTERM, self._living())
        self._write(self._folder.signalled, {"signalled_ms": int(time.time() * 1000)})

    def _is_saved_instead(self) -> bool:
        """Whether a save is begun; not of one that knows already that it has to leave."""
        living = self._living()
        if len(living) != 1 or self._told.was(0) or has_finished(self._folder.run):
            return False
        return self._image.begin(living[0], self._kill_at_s or 0.0)

    def _kill_by(self, at_s: float) -> None:
        self._kill_at_s = at_s if self._kill_at_s is None else min(at_s, self._kill_at_s)

    def _living(self) -> dict[int, int]:
        """Pids of workers that were not seen dead, by rank."""
        return {
            rank: process.pid for rank, process in self._workers.items() if rank not in self._codes
        }

    def _kill_all(self) -> None:
        self._killed = True
        for process in descendants():
            quietly(process.kill)

    def _leave_nobody(self) -> None:
        """End what the workers left running: SIGTERM, a moment, SIGKILL."""
        left = descendants()
        for process in left:
            quietly(process.terminate)
        # Whoever was told to stop has had its grace; others get a moment of their own.
        psutil.wait_procs(left, timeout=0 if self._killed else 2)
        patience_s = 0.0
        while kill_children():
            # Quick at first; what the kernel itself holds back is not waited for in haste.
            time.sleep(patience_s)
            patience_s = min(0.1, patience_s + 0.00001)
        self._pump.turn(0)


def main() -> int:
    """Supervise the attempt whose folder is named; returns 1 when another supervisor did or does."""
    folder = AttemptFolder(Path(sys.argv[1]))
    # Whoever asks whether it lives holds the lock for an instant.
    lock = folder.hold_lock(patience_s=LOOK_S)
    if lock is None or folder.supervisor.exists() or folder.exit.exists():
        return 1
    document = read_json(folder.plan)
    if document is None:
        return 1
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The scheduler's terminal must not end jobs; SIGTERM only wakes the loop to read its orders.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    created_s = psutil.Process().create_time()
    write_json(folder.supervisor, {"pid": os.getpid(), "created_s": created_s})
    Supervisor(folder, Plan.from_json(document)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
