"""Who plays: a member of both teams, with a folder of scripts, the command line and the API."""

from __future__ import annotations

import copy
import getpass
import json
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

from benchmarks.tour.machine import Machine
from benchmarks.tour.timeline import TourFailedError, answer_of, wait_for
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.call import Call

SCRIPTS = Path(__file__).with_name("scripts")
T = TypeVar("T")
ENDED = frozenset({"succeeded", "failed", "cancelled"})


class Researcher:
    """Works on one machine, beside its scheduler's sudden ends."""

    def __init__(self, machine: Machine, scheduler: SchedulerClient) -> None:
        self.machine, self._scheduler = machine, scheduler
        self.name = getpass.getuser()
        self.folder = self._folder("training")
        #: No command is given while the scheduler is away, or loses it half-way: it would have to say so.
        self._calling = threading.Lock()

    def _folder(self, name: str) -> Path:
        return Path(shutil.copytree(SCRIPTS, self.machine.home() / name))

    def beside(self) -> Researcher:
        """The same person in a folder of its own: what changes there is no change of the other's code."""
        other = copy.copy(self)
        other.folder = self._folder("beside")
        return other

    def send(self, call: Call[T]) -> T:
        """One call; where the scheduler is just being started again, once more."""
        return answer_of(self._scheduler, call)

    def cli(self, *words: str) -> dict[str, Any]:
        """``gpucommons … --output json`` in the folder of scripts."""
        end = words.index("--") if "--" in words else len(words)
        asked = (*words[:end], "--output", "json", *words[end:])
        with self._calling:
            done = self.machine.cli(*asked, cwd=self.folder)
        if done.returncode != 0:
            message = f"gpucommons {' '.join(words)}: {done.stderr.strip()}"
            raise TourFailedError(message)
        return dict(json.loads(done.stdout))

    def submit(self, *words: str) -> models.JobView:
        """``gpucommons submit``; what runs comes last."""
        return models.JobView.model_validate(self.cli("submit", *words))

    def ask_for(self, team: str, *, gpus: int, seconds: float, name: str) -> models.JobView:
        """A job that only holds its GPUs for a while."""
        role = models.RoleRequest(milli_gpu=gpus * 1000, command=["sleep", str(seconds)])
        request = models.JobRequest(name=name, team=team, roles=[role])
        return self.send(calls.submit(request, key=str(uuid.uuid4())))

    def job(self, ref: str) -> models.JobView:
        """A job as it is now."""
        return self.send(calls.job(ref))

    def when(
        self,
        ref: str,
        what: str,
        ask: Callable[[models.JobView], T | None],
        *,
        timeout_s: float = 150,
    ) -> T:
        """Wait until a job shows this; one that is over shows nothing new."""
        return wait_for(
            f"{ref}: {what}",
            lambda: _shown(self.job(ref), what, ask),
            timeout_s=timeout_s,
            every_s=0.3,
        )

    def end_of(self, ref: str, *, timeout_s: float = 240) -> models.JobView:
        """Wait until a job is over."""
        return self.when(
            ref, "its end", lambda job: job if job.state in ENDED else None, timeout_s=timeout_s
        )

    def all_jobs(self) -> Iterator[models.JobView]:
        """All that there are, page by page, with their attempts."""
        cursor = None
        while True:
            page = self.send(calls.jobs(cursor=cursor))
            yield from page.jobs
            if (cursor := page.cursor) is None:
                return

    def log(self, ref: str, attempt: int, rank: int = 0) -> list[str]:
        """The log of one worker of one attempt."""
        return self.send(calls.log(ref, attempt=attempt, rank=rank)).lines

    def kill_scheduler(self) -> None:
        """SIGKILL; ``up`` starts it again."""
        with self._calling:
            self._kill()
            self.send(calls.teams())

    def keep_it_away(self, until: Callable[[], bool]) -> None:
        """Kill each that is started anew; asks whether that is enough only when it was killed once."""
        with self._calling:
            self._kill()
            while not until():
                # After some kills it is started again only after half a minute.
                if self.machine.part("scheduler") is not None:
                    self._kill()
                time.sleep(0.1)
            self.send(calls.teams())

    def _kill(self) -> None:
        with suppress(psutil.NoSuchProcess):  # it was killed already
            self.machine.need("scheduler").send_signal(signal.SIGKILL)


def _shown(job: models.JobView, what: str, ask: Callable[[models.JobView], T | None]) -> T | None:
    answer = ask(job)
    if answer is None and job.state in ENDED:
        drill = "" if job.drill is None else f"; its drill: {job.drill.text}"
        message = f"{job.name}: waited for {what}, and it {job.state} before that: {job.ended_text}{drill}"
        raise TourFailedError(message)
    return answer
