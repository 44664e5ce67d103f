"""Whether a stop reached an attempt's workers before they ended: what their exit status is worth.

The supervisor keeps it and writes it down with the end, so that a scheduler that was away decides as
one that looked on. What the job itself says lies in its own folder, as names alone: root opens nothing
there.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpucommons.scheduler.core.going_on.exits import Exit, Meaning, meaning
from gpucommons.scheduler.in_pod.told_files import FINISHED_FILE, TOLD_FILE

#: What may be sent with an announcement.
NOTICE_SIGNALS: Mapping[str, signal.Signals] = {"SIGUSR1": signal.SIGUSR1}


class Told:
    """The signals of a stop, and who lived to hear them."""

    def __init__(self, run: Path, *, before: bool = False) -> None:
        self._run = run
        self._sent_ms: dict[str, int] = {}
        #: A process that was told, saved and woken still knows it.
        self._ranks: set[int] = {0} if before else set()
        self._announced_ms: int | None = None

    def send(self, number: signal.Signals, living: Mapping[int, int]) -> None:
        """Signal the process groups of workers (pid by rank) that are not over."""
        for rank, pid in living.items():
            if _is_over(pid):
                continue
            self._ranks.add(rank)
            signal_group(pid, number)
        self._sent_ms.setdefault(number.name, int(time.time() * 1000))

    def hear(self, notice: Mapping[str, Any] | None, living: Mapping[int, int]) -> None:
        """Hand an announcement's signal on, once for each announcement."""
        number = NOTICE_SIGNALS.get(str(notice.get("signal"))) if notice else None
        if notice is None or number is None or not living:
            return
        if self._announced_ms != notice.get("announced_ms"):
            self._announced_ms = notice.get("announced_ms")
            self.send(number, living)

    def was(self, rank: int) -> bool:
        """A worker had reason to leave."""
        return rank in self._ranks or self._says(TOLD_FILE)

    def leaves(self) -> bool:
        """It said itself that it leaves: by an answer of ``should_stop``, not because it was signalled."""
        return self._says(TOLD_FILE)

    def facts(self, exit_code: int | None, *, failed_before: bool) -> dict[str, Any]:
        """For the record of the end; ``failed_before``: a worker had ended by itself before any of it."""
        told = not failed_before and (bool(self._ranks) or self._says(TOLD_FILE))
        return {
            "exit_code": exit_code,
            "told": told,
            "finished": has_finished(self._run),
            "signals_ms": dict(self._sent_ms),
        }

    def _says(self, name: str) -> bool:
        return _is_there(self._run, name)


def has_finished(run: Path) -> bool:
    """The job has left word in its folder that its work is done."""
    return _is_there(run, FINISHED_FILE)


def _is_there(run: Path, name: str) -> bool:
    # Whether the name is there: nothing is opened and no link followed.
    return os.path.lexists(run / name)


def is_done(facts: Mapping[str, Any], after_signal: str) -> bool:
    """Whether an attempt with these facts has done its work."""
    end = Exit(
        exit_code=facts["exit_code"],
        announced=bool(facts["signals_ms"]),
        told=facts["told"],
        finished=facts["finished"],
        after_signal=after_signal,
    )
    return meaning(end) is Meaning.SUCCEEDED


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a worker and all that it started."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _is_over(pid: int) -> bool:
    """A child that has ended, collected or not."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
