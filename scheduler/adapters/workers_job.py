"""Workers of a cluster whose head lives in a notebook's kernel, as one elastic job: what Dask and Ray share.

The head outlives each size of the job. What workers prove themselves by travels in the job's snapshot, which
the job alone can read, and is worth nothing once the head has gone; then they end by themselves.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.scheduler.cli.connect import here
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.snapshot import pack
from gpucommons.scheduler.errors import Conflict, SchedulerError
from gpucommons.scheduler.models import JobRequest, JobView
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL

log = logging.getLogger("gpucommons.workers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How many workers the job may have, and what each of them gets."""

    minimum: int
    maximum: int
    gpus: float
    memory_gib: float

    @property
    def memory_mib(self) -> int:
        """Of one worker."""
        return round(self.memory_gib * 1024)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A module that is one worker, and what it is given."""

    #: Of whom the job is: one of the origins of :data:`~gpucommons.scheduler.models.jobs.jobs.KEY_ORIGINS`.
    origin: str
    module: str
    words: Sequence[str]
    #: In the job's working folder: what a worker proves itself by.
    key_file: str
    key: bytes
    #: Of ``POST /v1/jobs``, as the user wrote them.
    fields: Mapping[str, Any]


class WorkersJob:
    """The job of one cluster, on the scheduler that this notebook knows.

    Raises
    ------
    Unavailable
        Where no scheduler is found.
    """

    def __init__(self) -> None:
        self.address = here()
        self.id = ""

    def _scheduler(self) -> SchedulerClient:
        url, token = self.address
        return SchedulerClient(url, token=token)

    def submit(self, size: Size, asked: Asked) -> None:
        """Submit it with its key.

        Raises
        ------
        SchedulerError
            With why it is refused.
        """
        with tempfile.TemporaryDirectory(prefix="gpucommons-") as empty:
            packed = pack(Path(empty), extra={asked.key_file: asked.key})
        with self._scheduler() as scheduler:
            scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
            request = _request(size, asked).model_copy(update={"snapshot": packed.sha256})
            key = f"{asked.origin}-{uuid.uuid4().hex}"
            self.id = scheduler.send(calls.submit(request, key=key)).id

    def view(self) -> JobView:
        """Where it stands, and why it waits."""
        with self._scheduler() as scheduler:
            return scheduler.send(calls.job(self.id))

    def cancel(self) -> None:
        """End it, once."""
        job_id, self.id = self.id, ""
        if not job_id:
            return
        try:
            with self._scheduler() as scheduler:
                scheduler.send(calls.cancel(job_id))
        except Conflict:
            return  # it is over
        except SchedulerError as error:
            # Its workers end by themselves, without the head.
            log.warning("the workers' job is not cancelled and ends by itself: %s", error)


def _request(size: Size, asked: Asked) -> JobRequest:
    fields = asked.fields
    python = "python" if fields.get("environment") else sys.executable
    role = {
        "count": size.minimum,
        "milli_gpu": round(size.gpus * 1000),
        "memory_mib": size.memory_mib,
        "command": [python, "-u", "-m", asked.module, *asked.words],
    }
    path = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH", ""))))
    own = {
        "name": asked.origin,
        "launcher": "plain",
        # There is nothing to keep of them: what they held is computed again.
        "hibernation": False,
        **fields,
        "roles": [role],
        "min_workers": size.minimum,
        "max_workers": size.maximum,
        "env": {"PYTHONPATH": path, **fields.get("env", {})},
        # By this its files stay its owner's, also where a team shares those of its jobs.
        "labels": {**fields.get("labels", {}), ORIGIN_LABEL: asked.origin},
    }
    return JobRequest.model_validate(own)
