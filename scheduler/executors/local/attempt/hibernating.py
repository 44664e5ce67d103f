"""The supervisor's part in saving a worker's processes and waking them: when, and what became of it.

All that touches an image is an errand of the job's user. A save may take half of the grace at most, so
that SIGTERM still finds the other half; one that would take longer is not begun. SIGTERM is sent then
in any case, and heard once CRIU has let go of the processes, or was ended a quarter of the grace later.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucommons.gpu.hibernation.folder import SAVED_STATUS
from gpucommons.gpu.hibernation.inside.processes import MemoryLooks
from gpucommons.scheduler.core.going_on import saving_time
from gpucommons.scheduler.executors.local import saving_speed
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, write_json
from gpucommons.scheduler.executors.local.attempt.descendants import memory_bytes
from gpucommons.scheduler.executors.local.attempt.errand_answers import Answer, Done
from gpucommons.scheduler.executors.local.attempt.own_files import Run, send_on_errand
from gpucommons.scheduler.executors.local.attempt.plan import Plan
from gpucommons.scheduler.executors.local.attempt.saving_turns import (
    TURNS,
    Turn,
    alone,
    give_back,
    kept_bytes,
    note_save,
    reserved_bytes,
    speed_of,
    take_turn,
)
from gpucommons.scheduler.executors.local.attempt.starts import Start
from gpucommons.scheduler.working_folder.reported_image import image_facts, said

#: So much longer an answer is waited for before the worker is told to leave by itself.
_LATE_S = 0.5
_WAKE_S = 600.0
_MIB = 1 << 20
#: Of an attempt's folder.
_MOUNTED = ("run", "notice")


class Hibernating:
    """Of one attempt."""

    def __init__(self, folder: AttemptFolder, plan: Plan, run: Run) -> None:
        self._folder, self._plan, self._run = folder, plan, run
        self._hindrance = plan.hibernation.hindrance if plan.hibernation else ""
        self._woken_from: int | None = None
        self._not_woken = ""
        #: There is an image from which nothing has run yet.
        self._asleep = False
        self._answer: Answer | None = None
        self._turn: Turn | None = None
        #: Until when a save may last, and when it began.
        self._until_s = self._began_s = 0.0
        #: What the disk takes, as saves before have taught.
        self._mib_per_s = 0
        #: By its memory when it was to be stopped, and how long saving that takes.
        self._memory_mib = self._need_ms = self._grace_ms = 0
        #: Of its memory while it runs, from the first time that it was there.
        self._looks: MemoryLooks | None = None
        self._is_at_it = False
        #: Why nothing was saved although that was to be done.
        self.not_saved = ""
        #: A save was begun.
        self.tried = False

    # --- the start -----------------------------------------------------------------------------

    def ready(self) -> Start:
        """How the worker is to be started, with the image that there is."""
        planned = self._plan.hibernation
        if planned is None:
            return Start()
        if self._hindrance:
            return self._plainly()
        words = ["ready-tree", str(self._folder.run), *self._plan.earlier]
        if planned.promised:
            words += ["--promised", planned.promised]
        found = self._from_errand(words) or self._from_errand(words)
        if found is None:
            return self._plainly()
        self._asleep = found.woken_from is not None
        if planned.promised and not self._asleep:
            self._not_woken = "it was not found as it was saved"
        return found

    def _plainly(self) -> Start:
        """Without a tree: what was saved would bring back older work some time, so it goes first."""
        planned = self._plan.hibernation
        if not self._plan.earlier:
            return Start()
        done = self._run(["drop-image", str(self._folder.run), *self._plan.earlier], None)
        if done.document().get("dropped") or (planned is not None and planned.promised):
            self._not_woken = self._hindrance
        return Start()

    def question(self) -> list[str]:
        """The errand that waits until it is known what became of a start."""
        return ["tree-outcome", str(self._folder.run), "--seconds", str(_WAKE_S)]

    def runs(self, start: Start, done: Done) -> bool:
        """Whether the worker runs, by what was heard of its start."""
        if done.problem is not None or "refused" in done.document():
            return False
        self._woken_from, self._asleep = start.woken_from, False
        return True

    def instead(self, start: Start, done: Done) -> Start:
        """How it is started after a start that failed, and of which nothing runs any more."""
        because = said(done.problem or done.document().get("refused"))
        self._asleep = False
        if start.woken_from is not None:
            self._not_woken = because
            found = self._from_errand(["anew-tree", str(self._folder.run)])
            return Start() if found is None else found
        self._hindrance = because
        return Start()

    def keep_asleep(self) -> bool:
        """Whether the image that is being woken stays valid: from then on no wake of it succeeds."""
        done = self._run(["keep-image", str(self._folder.run)], None)
        return done.document().get("kept") is True

    def _from_errand(self, words: Sequence[str]) -> Start | None:
        planned = self._plan.hibernation
        criu = json.dumps(planned.criu if planned else ())
        done = self._run([*words, "--number", str(self._plan.number), "--criu", criu], None)
        found = done.document()
        if done.problem is not None or "prefix" not in found:
            self._hindrance = said(done.problem or "what was to be said of it was not said")
            return None
        try:
            start = _start(found, before=self._plan.number)
        except (KeyError, TypeError, ValueError):
            self._hindrance = "what was said of its saved memory makes no sense"
            return None
        if (
            planned is not None
            and planned.by_root
            and not are_ours(self._folder.path.parent, start.places)
        ):
            self._hindrance = "its saved memory is said to be of a place where no job runs"
            return None
        self._hindrance = ""
        return start

    def known(self) -> dict[str, Any] | None:
        """For the record of the start; None where nobody has looked."""
        planned = self._plan.hibernation
        if planned is None:
            return None
        return {
            "hindrance": self._hindrance,
            "cost_ms": planned.cost_ms,
            "save_mib_per_s": planned.save_mib_per_s,
            "wake_mib_per_s": planned.wake_mib_per_s,
            "woken_from": self._woken_from,
            "not_woken": self._not_woken,
        }

    def look(self, pids: Collection[int], now_s: float) -> None:
        """Have it on record, now and then, how much saving would write: what a stop costs depends on it."""
        if self._plan.hibernation is None or self._hindrance or self._is_at_it or len(pids) != 1:
            return
        looks = self._looks = self._looks or MemoryLooks(now_s)
        if looks.wait_s(now_s):
            return
        looks.looked(now_s)
        [pid] = pids
        seen_mib = memory_bytes(pid) // _MIB
        if looks.is_news(seen_mib):
            with suppress(OSError):
                write_json(self._folder.memory, {"memory_mib": seen_mib})
                looks.told(seen_mib)

    # --- the stop ------------------------------------------------------------------------------

    def begin(self, pid: int, kill_at_s: float) -> bool:
        """Whether the worker is saved in place of SIGTERM."""
        planned = self._plan.hibernation
        if planned is None or self._hindrance:
            return False
        now_s = time.time()
        self._grace_ms = max(0, _ms(kill_at_s) - _ms(now_s))
        self._until_s = now_s + saving_time.may_take_ms(self._grace_ms) / 1000
        self._memory_mib = memory_bytes(pid) // _MIB
        speed = speed_of(self._turns, planned.save_mib_per_s)
        self._mib_per_s = saving_speed.predicted_mib_per_s(speed, _ms(now_s))
        self._need_ms = saving_time.save_ms(self._memory_mib, self._mib_per_s)
        kept = kept_bytes(self._folder.path.parent, self._user)
        self.not_saved = self._too_much(kept) or self._no_turn(now_s)
        self._is_at_it = not self.not_saved
        return self._is_at_it

    def turn(self) -> bool:
        """Go on with it; False where the worker has to be told to leave after all."""
        if not self._is_at_it:
            return True
        now_s = time.time()
        if self._answer is None:
            try:
                because = self._no_turn(now_s) or self._try_to_begin(now_s)
            except OSError as error:
                because = f"what else is saved here could not be read: {error.strerror}"
            return not because or self._give_up(because)
        done = self._answer.hear(0)
        if done is None:
            if now_s < self._until_s + _LATE_S:
                return True
            self._learn(now_s, in_time=False)
            return self._give_up("it took longer than half of its grace")
        found = done.document()
        if not found.get("saved"):
            if now_s >= self._until_s - _LATE_S:
                self._learn(now_s, in_time=False)
            return self._give_up(said(done.problem or found.get("refused", "nobody knows why")))
        self._learn(now_s, in_time=True)
        self._let_go(reserved_bytes=self._memory_mib * _MIB)
        return True

    def is_at_it(self) -> bool:
        """Whether a save is waited for."""
        return self._is_at_it

    def left(self, code: int | None, *, told: bool) -> dict[str, Any] | None:
        """The image that there is in the end: saved now, or not woken; None where there is none."""
        if not self._asleep and not (self.tried and code == SAVED_STATUS):
            if self._is_at_it:
                self._let_go()
            return None
        found = image_facts(self._run(["image-facts", str(self._folder.run)], None).document())
        if self.tried:
            self._let_go(reserved_bytes=0 if found is None else found["size_bytes"])
        if found is not None:
            self.not_saved = ""
            return {**found, "user": self._user, "told": told}
        if self._asleep:
            self._not_woken = "it was stopped while it was being woken"
        else:
            self.not_saved = self.not_saved or "no whole image was found afterwards"
        return None

    def _too_much(self, kept: int) -> str:
        """Why its user's limit forbids it for good; empty where it does not."""
        most_mib, kept_mib = self._max_bytes // _MIB, kept // _MIB
        if kept_mib + self._memory_mib <= most_mib:
            return ""
        return (
            f"it uses {self._memory_mib} MiB, {kept_mib} MiB of {self._user}'s jobs are saved already,"
            f" and {most_mib} MiB may be"
        )

    def _no_turn(self, now_s: float) -> str:
        """Why it gets no turn in time; empty where it has one, or one may still come.

        Others seldom need all of the time that they have, and what they give back is had by who waits.
        """
        if self._turn is None:
            times = {"now_ms": _ms(now_s), "need_ms": self._need_ms, "by_ms": _ms(self._until_s)}
            with suppress(OSError):
                self._turn = take_turn(self._turns, **times)
        return "" if self._turn is not None else self._too_late(now_s)

    def _too_late(self, now_s: float) -> str:
        if _ms(now_s) + self._need_ms <= _ms(self._until_s):
            return ""
        alone_too_long = saving_time.too_long(self._memory_mib, self._mib_per_s, self._grace_ms)
        return alone_too_long or (
            f"saving its {self._memory_mib} MiB after other jobs would take more than half of its grace"
        )

    def _try_to_begin(self, now_s: float) -> str:
        """Begin in its turn, with what is left of its user's limit by then; or why it never can."""
        if self._turn is None or _ms(now_s) < self._turn.from_ms:
            return ""
        root = self._folder.path.parent
        with alone(self._turns):
            kept = kept_bytes(root, self._user)
            left = self._max_bytes - kept - reserved_bytes(root, self._user)
            has_room = left // _MIB >= self._memory_mib
            if has_room:
                self._reserve(left)
        if has_room:
            return self._send(left)
        # Others of its user may take less than they reserved.
        return self._too_much(kept) or self._too_late(now_s)

    def _reserve(self, most_bytes: int) -> None:
        # No record of an end, so it need not survive one, and a busy disk is not waited for.
        document = {"user": self._user, "bytes": most_bytes}
        self._folder.saving.write_text(json.dumps(document), encoding="utf-8")

    def _send(self, most_bytes: int) -> str:
        self.tried, self._began_s = True, time.time()
        words = ["save-tree", str(self._folder.run), "--number", str(self._plan.number)]
        # Whether there is time was decided here: an errand that starts late only has to end in time.
        let_go_s = saving_time.may_let_go_ms(self._grace_ms) / 1000
        words += [f"--until={self._until_s:.3f}", f"--let-go={let_go_s:.3f}"]
        words.append(f"--max-bytes={most_bytes}")
        try:
            self._answer = Answer(send_on_errand(self._plan, words, None))
        except OSError as error:
            return f"nothing can be run as the job's user: {error.strerror}"
        return ""

    def _learn(self, now_s: float, *, in_time: bool) -> None:
        """Have it known how long it took, by this clock: the errand is its user's."""
        trial = self._plan.hibernation.save_mib_per_s if self._plan.hibernation else 0
        now_ms, mib = _ms(now_s), self._memory_mib
        took_ms = now_ms - _ms(self._began_s)
        with suppress(OSError):
            note_save(
                self._turns, trial, memory_mib=mib, took_ms=took_ms, in_time=in_time, now_ms=now_ms
            )

    def _give_up(self, because: str) -> bool:
        self.not_saved = because
        self._let_go()
        return False

    def _let_go(self, *, reserved_bytes: int = 0) -> None:
        """It is over; what its image may take stays reserved until the record of the end tells it."""
        self._is_at_it = False
        if self._answer is not None:
            self._answer.__exit__(None, None, None)
            self._answer = None
        with suppress(OSError), alone(self._turns):
            if reserved_bytes:
                self._reserve(reserved_bytes)
            else:
                self._folder.saving.unlink(missing_ok=True)
        if self._turn is not None:
            with suppress(OSError):
                give_back(self._turns, self._turn, now_ms=_ms(time.time()))
            self._turn = None

    @property
    def _max_bytes(self) -> int:
        """Of its user."""
        return self._plan.hibernation.max_image_bytes if self._plan.hibernation else 0

    @property
    def _user(self) -> str:
        return self._plan.workers[0].env.get("USER", "")

    @property
    def _turns(self) -> Path:
        return self._folder.path.parent.parent / TURNS


def are_ours(root: Path, places: Sequence[tuple[str, str]]) -> bool:
    """Whether they lie in attempts' folders below ``root``, which no user makes: only those are mounted."""
    return all(
        path.parent.parent == root and path.name in _MOUNTED and _is_whole(path.parent.name)
        for pair in places
        for path in map(Path, pair)
    )


def _is_whole(name: str) -> bool:
    # For the kernel a path ends at a NUL.
    return name != ".." and "\0" not in name


def _start(told: Mapping[str, Any], *, before: int) -> Start:
    """How a worker is started, as its user's errand says it; ``woken_from`` is an earlier attempt."""
    number = told["woken_from"]
    if number is not None and (type(number) is not int or not 1 <= number < before):
        raise ValueError(number)
    return Start(
        prefix=tuple(str(word) for word in told["prefix"]),
        places=tuple((str(new), str(old)) for new, old in told["places"]),
        woken_from=number,
    )


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
