"""Somebody who submits one job after the other while a release changes under the jobs."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import SchedulerError

R = TypeVar("R")
_PATIENCE_S = 120.0


class Submitter:
    """Asks by the chart's own Service. Each job is decided, then cancelled, then the next one."""

    def __init__(self, url: str, token: str) -> None:
        self._client = SchedulerClient(url, token=token)
        #: Names of all that were taken.
        self.taken: list[str] = []
        #: From the request to its decision, of each job since the last time that work began.
        self.decided_s: list[float] = []

    @contextmanager
    def busy(self) -> Iterator[None]:
        """One job after the other meanwhile; what went wrong with one is raised at the end."""
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            self.decided_s.clear()
            working = pool.submit(self._submit_on, over)
            try:
                yield
            finally:
                over.set()
            working.result()

    def close(self) -> None:
        """It asks no more."""
        self._client.close()

    def submit(self, name: str, *, gpus: int = 1) -> models.JobView:
        """A job that runs until it is ended. Tried again under the same key, as a client would."""
        role = models.RoleRequest(
            command=["sleep", "3600"], milli_gpu=gpus * 1000, cpu_milli=10, memory_mib=16
        )
        request = models.JobRequest(
            name=name, user="ann", team="vision", roles=[role], max_restarts=0
        )
        key = secrets.token_hex(8)
        view = self.patiently(lambda: self._client.send(calls.submit(request, key=key)))
        self.taken.append(view.name)
        return view

    def job(self, ref: str) -> models.JobView:
        """As the scheduler sees it."""
        return self.patiently(lambda: self._client.send(calls.job(ref)))

    def doubled(self) -> list[str]:
        """What was done twice: jobs that nobody was told of, and jobs that began twice."""
        jobs = self.patiently(lambda: self._client.send(calls.jobs(limit=500))).jobs
        unasked = [view.name for view in jobs if view.name not in self.taken]
        return unasked + [name for name in self.taken if len(self.job(name).attempts) > 1]

    def patiently(self, ask: Callable[[], R]) -> R:
        """Ask until there is an answer: a replica that ends refuses, and another one answers."""
        until_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return ask()
            except SchedulerError:
                if time.monotonic() > until_s:
                    raise
            time.sleep(0.1)

    def _submit_on(self, over: threading.Event) -> None:
        while not over.is_set():
            self._one()

    def _one(self) -> None:
        began_s = time.monotonic()
        view = self.submit("meanwhile")
        while view.state == "queued":
            if time.monotonic() > began_s + _PATIENCE_S:
                raise TimeoutError(f"{view.name} was not decided: {view.reason}")
            time.sleep(0.1)
            view = self.job(view.id)
        self.decided_s.append(time.monotonic() - began_s)
        with suppress(SchedulerError):
            self._client.send(calls.cancel(view.id))
