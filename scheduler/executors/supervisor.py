"""The process above one attempt's workers, alive even when the scheduler is not.

It starts all workers or none, pumps what they print into capped logs, obeys a stop order (SIGTERM now,
SIGKILL at its time, whoever else may have died), leaves no descendant behind, and writes down how it
ended. It is a subreaper: daemons that a job forks become its children, so they are found and ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from gpucommons.scheduler.curves.event_process import EventProcess
from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    Records,
    read_json,
    write_json,
)
from gpucommons.scheduler.executors.local.attempt.descendants import (
    descendants,
    kill_children,
    quietly,
    reap_adopted,
)
from gpucommons.scheduler.executors.local.attempt.errand_answers import Answer, Done
from gpucommons.scheduler.executors.local.attempt.hibernating import Hibernating
from gpucommons.scheduler.executors.local.attempt.log_pump import Pump
from gpucommons.scheduler.executors.local.attempt.own_files import (
    COUNT_S,
    OwnFiles,
    event_process,
    failure_of,
    send_on_errand,
)
from gpucommons.scheduler.executors.local.attempt.plan import Plan
from gpucommons.scheduler.executors.local.attempt.ports import end_for_want_of_a_port
from gpucommons.scheduler.executors.local.attempt.signals_seen import Told, has_finished, is_done
from gpucommons.scheduler.executors.local.attempt.starts import Start, Worker, start_worker
from gpucommons.scheduler.failures import headline

_PR_SET_CHILD_SUBREAPER = 36
#: Between two looks for what an earlier attempt left behind.
_STRAYS_S = 0.05
#: Also without a signal the order to stop is looked for this often.
LOOK_S = 1.0
#: While a save is waited for, more often.
SAVING_S = 0.05
#: So long a tree may take to start, and an image to be woken.
_START_S, _WAKE_S = 120.0, 600.0
#: So long what became of a start is waited for when its worker has ended already.
_AFTER_END_S = 10.0
_TRIES = 3
_BEFORE = "It was stopped before it began."
#: The logs of all workers together are as long as so many full ones.
_FULL_LOGS = 4

_UNHEARD = Done(problem="what became of its start was not said in time")


class Supervisor:
    """Runs one plan to its end."""

    def __init__(self, folder: AttemptFolder, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._files = OwnFiles(folder=folder, plan=plan, run=self._errand)
        self._image = Hibernating(folder, plan, self._errand)
        self._workers: dict[int, Worker] = {}
        self._codes: dict[int, int] = {}
        self._events: EventProcess | None = None
        #: Which worker failed first by itself, and with what.
        self._first_failure: tuple[int, int] | None = None
        #: One worker has left with an error, so the others must.
        self._leaving = False
        self._told = Told(folder.run, before=plan.was_told)
        #: When everything that is left gets SIGKILL, by the wall clock; None = no end is ordered.
        self._kill_at_s: float | None = None
        self._beyond_s = 0.0
        self._killed = False
        self._stopping = False
        #: By the order to stop: saved, where that can be.
        self._hibernates = False
        #: A start is not over: a signal now could be missed, and a save could not begin.
        self._starting = False
        self._waking = False
        self._records = Records()
        together = _FULL_LOGS * plan.max_log_bytes // max(1, len(plan.workers))
        self._pump = Pump(max_bytes=min(plan.max_log_bytes, together))

    def run(self) -> None:
        """Prepare, start, watch, end."""
        problem = self._files.prepare(self._wait_for_strays)
        self._obey()
        if self._stopping:
            problem = _BEFORE
        if problem is None:
            problem = self._start()
        if problem is None:
            self._watch()
            self._look_for_events(is_last=not self._killed)
        elif not self._waking:
            with suppress(OSError):
                self._folder.log(0).write_text(problem + "\n")
        self._leave_nobody()
        self._pump.close()
        kept: Mapping[str, Any] = {}
        saved = self._saved()
        if problem is None:
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
        """The image that there is now that nothing of the job runs any more."""
        # The time to kill may be near.
        self._beyond_s = COUNT_S + 1
        return self._image.left(self._codes.get(0), told=self._told.was(0))

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
        refusal = next(filter(None, (one.refused() for one in self._workers.values())), None)
        # Its own exit status is still to come.
        saved: dict[str, Any] = {}
        if left.get("image") and self._codes:
            saved = {"exit_code": None, "told": True, "codes": {}}
        if self._first_failure and not (saved or self._stopping or has_finished(self._folder.run)):
            saved = end_for_want_of_a_port(self._plan, self._folder)
        never_ran = len(self._codes) < len(self._plan.workers) or refusal is not None
        self._records.write(
            self._folder.exit,
            {
                **self._facts(),
                "codes": {str(rank): self._codes[rank] for rank in sorted(self._codes)},
                "start_failed": never_ran and not self._stopping,
                "killed": self._killed,
                "text": problem or refusal or self._headline(),
                "not_saved": self._image.not_saved,
                "hibernation": self._image.known(),
                "ended_ms": int(time.time() * 1000),
                **left,
                **saved,
            },
        )
        # Without that file nobody learns how it ended.
        while not self._records.are_written():
            time.sleep(LOOK_S)

    def _headline(self) -> str:
        """What the worker that failed first said of it; nothing of one that was told to stop."""
        failed = self._failed()
        if failed is None or self._stopping:
            return ""
        return headline(failure_of(self._plan, self._folder, *failed))

    # --- workers -----------------------------------------------------------------------------

    def _start(self) -> str | None:
        """Start all; returns what went wrong, with whoever started ended again."""
        start = self._image.ready()
        while True:
            if self._stopping:
                return _BEFORE
            self._starting, self._waking = True, start.woken_from is not None
            for worker in self._plan.workers:
                try:
                    one = start_worker(self._plan, worker, start, self._folder.run)
                except OSError as error:
                    return f"worker {worker.rank} could not be put under the limit of its slice: {error}"
                self._workers[worker.rank] = one
                self._pump.add(one.output(), self._folder.log(worker.rank))
            if not start.prefix:
                break
            done = self._hear_of(start)
            if self._workers[0].refused() or self._image.runs(start, done):
                break
            self._end_start()
            if self._stopping:
                return _BEFORE
            start = self._image.instead(start, done)
        self._starting = self._waking = False
        self._events = event_process(self._plan, self._folder.run, since_s=time.time())
        pids = {str(rank): worker.process.pid for rank, worker in self._workers.items()}
        facts = {"started_ms": int(time.time() * 1000), "hibernation": self._image.known()}
        self._records.write(self._folder.started, {"pids": pids, **facts})
        if self._stopping:
            self._stop_workers()
        return None

    def _hear_of(self, start: Start) -> Done:
        """What its user's errand says of a start in a tree; an errand that fails is sent again."""
        until_s = time.monotonic() + (_WAKE_S if self._waking else _START_S)
        for _ in range(_TRIES):
            try:
                errand = send_on_errand(self._plan, self._image.question(), None)
            except OSError as error:
                return Done(problem=f"nothing can be run as the job's user: {error.strerror}")
            with Answer(errand) as answer:
                done = self._hear_until(answer, until_s)
            if done.problem is None or done is _UNHEARD or self._has_ended():
                break
        return done

    def _hear_until(self, answer: Answer, until_s: float) -> Done:
        """Hear it out while the worker is looked at, its log goes on, and orders are obeyed."""
        asked = False
        while (done := answer.hear(0)) is None:
            self._pump.turn(self._patience_s())
            self._obey()
            if self._has_ended():
                until_s = min(until_s, time.monotonic() + _AFTER_END_S)
            if self._stopping and self._waking and not asked:
                asked = True
                if self._image.keep_asleep():
                    return _UNHEARD
            if self._workers[0].refused() or self._is_time_to_kill() or time.monotonic() >= until_s:
                return _UNHEARD
        return done

    def _has_ended(self) -> bool:
        return self._workers[0].process.poll() is not None

    def _end_start(self) -> None:
        """End a start that failed, with all that may live of it: no second one stands beside it."""
        self._workers[0].end()
        while kill_children():
            time.sleep(_STRAYS_S)
        self._pump.turn(0)
        self._codes.clear()

    def _watch(self) -> None:
        while len(self._codes) < len(self._workers):
            self._pump.turn(self._patience_s())
            self._reap()
            self._look_for_events()
            self._image.look(self._living().values(), time.monotonic())
            self._records.are_written()
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
        for rank, worker in self._workers.items():
            code = worker.process.poll()
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
        reap_adopted({worker.process.pid for worker in self._workers.values()})

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
        self._hibernates = bool(order.get("hibernates"))
        if not self._starting:
            self._stop_workers()

    def _stop_workers(self) -> None:
        if not (self._hibernates and self._is_saved_instead()):
            self._told.send(signal.SIGTERM, self._living())
        self._records.write(self._folder.signalled, {"signalled_ms": int(time.time() * 1000)})

    def _is_saved_instead(self) -> bool:
        """Whether a save is begun; not of one that knows already that it has to leave."""
        living = self._living()
        if len(living) != 1 or self._told.leaves() or has_finished(self._folder.run):
            return False
        return self._image.begin(living[0], self._kill_at_s or 0.0)

    def _kill_by(self, at_s: float) -> None:
        self._kill_at_s = at_s if self._kill_at_s is None else min(at_s, self._kill_at_s)

    def _living(self) -> dict[int, int]:
        """Pids of workers that were not seen dead, by rank."""
        return {
            rank: worker.process.pid
            for rank, worker in self._workers.items()
            if rank not in self._codes
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
    if (document := read_json(folder.plan)) is None:
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
