"""A command's outcome, and a world that tells when its logs are read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.store.base import Epoch


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Done]


class WatchedWorld(ServiceWorld):
    """Tells when somebody reads a log."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.log_read = threading.Event()
        #: Somebody waits for lines that do not come.
        self.log_awaited = threading.Event()

    @property
    def epoch(self) -> Epoch:
        """What the store takes writes under."""
        return self.loop._epoch

    def read(self, *arguments: Any, **options: Any) -> Any:
        chunk = super().read(*arguments, **options)
        (self.log_awaited if self.log_read.is_set() else self.log_read).set()
        return chunk


def submitted(world: ServiceWorld, by: str = "ann", **changes: Any) -> models.JobView:
    """A job that somebody submitted elsewhere."""
    return jobs.submit(world.service, world.principal(by), a_request(**changes), key=None)
