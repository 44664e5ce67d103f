"""Random histories of jobs of a real ``gpucommons up``: agent, scheduler and supervisors are killed (-9).

Each job counts in memory and writes each step down, with a mark that it drew when it began. It is paused
and resumed; at a random moment of its save, of its wake or of neither one of the three is killed. A step
that stands there twice under one mark was done twice. A job that was said to be saved, and begins anew
with another mark, has lost what was said to be kept; where its own supervisor was killed while it woke,
it had gone on and was killed with it, and that is counted as such.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from benchmarks.tour.machine import Machine
from benchmarks.tour.timeline import wait_for
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.call import Call
from gpucommons.scheduler.errors import SchedulerError, Unavailable
from gpucommons.scheduler.up.supervision import WELL_AFTER_S

_CONFIG = Path(__file__).parents[1] / "tour" / "tour.yaml"
#: Of jobs at once: each is a quarter of a GPU.
_AT_ONCE = 4
_ROUNDS = 2
_MOST_DELAY_S = 1.0
_WAIT_S = 120.0
T = TypeVar("T")
_GIVEN_UP = frozenset({"failed", "cancelled"})
_OVER = _GIVEN_UP | {"succeeded"}
_PARTS = ("agent", "scheduler", "supervisor")
_COUNTS = """
import os, sys, time
mark, step, memory = os.urandom(8).hex(), 0, os.urandom(1 << 20) * 16
history = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while not os.path.exists(sys.argv[1] + ".enough"):
    step += 1
    os.write(history, b"%s %d\\n" % (mark.encode(), step))
    time.sleep(0.02)
"""


def services_row(seeds: range) -> dict[str, object]:
    """Play one for each seed, some at once."""
    counts: Counter[str] = Counter()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="gchistories-") as place,
        Machine(_CONFIG, idle_after_s=600, warn_after_s=60, hub=False) as machine,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        plays = [_History(seed=seed, machine=machine, place=Path(place)) for seed in seeds]
        for found in pool.map(_History.play, plays):
            counts += found
    names = ("saves", "wakes", "kills", "killed_awake", "given_up", "doubled", "lost")
    told = {name: counts[name] for name in (*names, *(f"{part}_killed" for part in _PARTS))}
    seconds = round(time.monotonic() - began, 1)
    return {
        "what": "services",
        "histories": len(seeds),
        "first": seeds.start,
        **told,
        "seconds": seconds,
    }


@dataclass(kw_only=True)
class _History:
    seed: int
    machine: Machine
    place: Path
    counts: Counter[str] = field(default_factory=Counter)
    #: Numbers of attempts whose own supervisor was killed.
    hit: set[int] = field(default_factory=set)

    def play(self) -> Counter[str]:
        self._chance = random.Random(self.seed)  # noqa: S311 - the same again
        self._file = self.place / str(self.seed)
        with SchedulerClient(f"unix:{self.machine.state / 'api.sock'}") as self._client:
            role = models.RoleRequest(
                milli_gpu=250,
                cpu_milli=100,
                memory_mib=128,
                command=[sys.executable, "-u", "-c", _COUNTS, str(self._file)],
            )
            request = models.JobRequest(name="history", team="vision", roles=[role])
            self._job = self._sure(calls.submit(request, key=f"history-{self.seed}")).id
            try:
                for _ in range(_ROUNDS):
                    self._more_steps()
                    self._asked(calls.pause, "paused")
                    self._asked(calls.resume, "running")
                self._more_steps()
            except _OverError:
                self.counts["given_up"] += 1
            Path(f"{self._file}.enough").touch()
            self._wait("its end", lambda: self._view().state in _OVER)
            self._judge()
        return self.counts

    def _asked(self, call: Callable[[str], Call[models.JobView]], state: str) -> None:
        """Pause or resume it; perhaps one of those who do it is killed meanwhile."""
        with suppress(SchedulerError):
            self._client.send(call(self._job))
        if self._chance.random() < 2 / 3:
            time.sleep(self._chance.random() * _MOST_DELAY_S)
            self._kill(self._chance.choice(_PARTS))

        def there() -> bool:
            view = self._view()
            if view.state in _GIVEN_UP:
                raise _OverError
            if view.state == state:
                return True
            with suppress(SchedulerError):
                self._client.send(call(self._job))
            return False

        self._wait(state, there, every_s=0.3)

    def _kill(self, part: str) -> None:
        process = None if part == "supervisor" else self.machine.part(part)
        with suppress(psutil.Error):
            if process is not None and time.time() - process.create_time() < WELL_AFTER_S:
                # One that died so soon is not started again at once, and every history would wait.
                process, part = None, "supervisor"
        if part == "supervisor":
            number = max((one.number for one in self._view().attempts), default=0)
            process = self._supervisor(number)
            if process is not None:
                self.hit.add(number)
        if process is not None:
            with suppress(psutil.Error):
                process.kill()
                self.counts[f"{part}_killed"] += 1
                self.counts["kills"] += 1

    def _supervisor(self, number: int) -> psutil.Process | None:
        attempts = {one.number: one.id for one in self._view().attempts}
        for path in self.machine.state.rglob(f"*{attempts.get(number, 'none')}*/supervisor.json"):
            with suppress(OSError, ValueError, psutil.Error):
                facts = json.loads(path.read_text(encoding="utf-8"))
                process = psutil.Process(facts["pid"])
                if process.create_time() == facts["created_s"]:
                    return process
        return None

    def _more_steps(self) -> None:
        before = len(self._lines())

        def more() -> bool:
            if self._view().state in _GIVEN_UP:
                raise _OverError
            return len(self._lines()) > before + 5

        self._wait("more steps", more)

    def _judge(self) -> None:
        steps: dict[str, list[int]] = {}
        for line in self._lines():
            mark, step = line.split()
            steps.setdefault(mark, []).append(int(step))
        self.counts["doubled"] += any(
            found != list(range(1, len(found) + 1)) for found in steps.values()
        )
        began = [one for one in self._view().attempts if one.started_ms]
        for before, after in itertools.pairwise(began):
            self.counts["saves"] += before.image_bytes is not None
            self.counts["wakes"] += after.woken_from is not None
            if before.image_bytes is not None and after.woken_from is None:
                was_hit = any(before.number < number <= after.number for number in self.hit)
                self.counts["killed_awake" if was_hit else "lost"] += 1
                sys.stderr.write(f"history {self.seed}: {before} {after}\n")

    def _lines(self) -> list[str]:
        return self._file.read_text(encoding="ascii").splitlines() if self._file.exists() else []

    def _view(self) -> models.JobView:
        return self._sure(calls.job(self._job))

    def _sure(self, call: Call[models.JobView]) -> models.JobView:
        """Its answer, also where the scheduler has just been killed."""

        def answer() -> models.JobView | None:
            with suppress(Unavailable):
                return self._client.send(call)
            return None

        return self._wait("an answer", answer)

    def _wait(self, what: str, ask: Callable[[], T | None], every_s: float = 0.1) -> T:
        text = f"history {self.seed}: {what}"
        return wait_for(text, ask, timeout_s=_WAIT_S, every_s=every_s)


class _OverError(Exception):
    """The scheduler gave the job up."""
