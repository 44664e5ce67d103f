"""A Ray cluster from a cell. Its head stands beside the kernel and outlives every size of the job.

Ray runs anybody's code who reaches it, unless it is told a token: each cluster has one, which the job's
workers know from its snapshot. What is sent between them is not encrypted.
"""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
import tempfile
from typing import IO, Any, Self

from gpucommons.scheduler.adapters.workers_job import Asked, Size, WorkersJob
from gpucommons.scheduler.in_worker.ray import refuse_open, variables
from gpucommons.scheduler.in_worker.worker_messages import NotJoined, free_port
from gpucommons.scheduler.models import JobView
from gpucommons.scheduler.models.jobs.jobs import RAY_ORIGIN

_UNLESS_SET = {
    # Workers are stopped for others; that is no fault of the task that they were at.
    "RAY_TASK_MAX_RETRIES": "-1",
    # Ray's advice to add nodes: they come by the job, and `job()` says why they do not.
    "RAY_SCHEDULER_EVENTS": "0",
}
#: In the job's working folder: what the cluster knows its own by.
_KEY_FILE = "ray.token"
#: Started beside the kernel; it is left out of what a notebook is at work at.
HEAD = "gpucommons.scheduler.adapters.ray.head"
_ENDS_S = 20.0


class RayCluster:
    """``minimum`` to ``maximum`` workers as one job of the scheduler, until :meth:`close` or the kernel's end.

    The kernel is the driver: ``@ray.remote`` and ``ray.get`` are Ray's own. Other fields are those of a job as
    ``POST /v1/jobs`` takes them: ``team``, ``pools``, ``priority``, ``environment``, ``max_price``, …

    Raises
    ------
    NotJoined
        Where Ray is older than 2.52, runs in this kernel already, or its head does not start.
    SchedulerError
        With why the job is refused.
    """

    def __init__(
        self,
        minimum: int = 1,
        maximum: int = 1,
        *,
        gpus: float = 1,
        memory_gib: float = 4,
        **fields: Any,
    ) -> None:
        refuse_open()
        import ray  # noqa: PLC0415 - it takes seconds, for which head and workers need not wait

        if ray.is_initialized():
            message = "Ray runs in this kernel already: close its cluster, or ray.shutdown()"
            raise NotJoined(message)
        self._workers = WorkersJob()
        token = _own_token()
        self.address = f"{ray.util.get_node_ip_address()}:{free_port()}"
        size = Size(minimum=minimum, maximum=maximum, gpus=gpus, memory_gib=memory_gib)
        asked = Asked(
            origin=RAY_ORIGIN,
            module="gpucommons.scheduler.adapters.ray.worker",
            words=(self.address, str(size.memory_mib), _KEY_FILE),
            key_file=_KEY_FILE,
            key=token.encode(),
            fields=fields,
        )
        self._head = _started(self.address)
        try:
            ray.init(address=self.address, logging_level=logging.WARNING)
            self._workers.submit(size, asked)
        except BaseException:
            self.close()
            raise

    @property
    def job_id(self) -> str:
        """Of its workers' job; empty once it is closed."""
        return self._workers.id

    def job(self) -> JobView:
        """Its workers' job: where it stands, and why it waits."""
        return self._workers.view()

    def close(self) -> None:
        """Cancel the job and end Ray; so does the end of the kernel."""
        import ray  # noqa: PLC0415 - see above

        self._workers.cancel()
        ray.shutdown()
        if self._head.stdin is not None:
            self._head.stdin.close()
        self._head.wait(_ENDS_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


def _started(address: str) -> subprocess.Popen[str]:
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-m", HEAD, address]
        head = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        out: IO[str] | None = head.stdout
        try:
            is_ready = out is not None and bool(out.readline())
        except BaseException:
            # The interrupted cell's frames would hold it open, and the head with it.
            if head.stdin is not None:
                head.stdin.close()
            raise
        if is_ready:
            return head
        log.seek(0)
        message = f"Ray's head does not start: {log.read()[-2000:].strip()}"
        raise NotJoined(message)


def _own_token() -> str:
    """By which a cluster and its driver know each other.

    Each has one of its own: who took the port of a head that has gone was told the last by its workers.
    """
    from ray._raylet import AuthenticationTokenLoader, Config  # noqa: PLC0415 - it takes seconds

    token = secrets.token_hex(32)
    os.environ.update(variables(token))
    for name, value in _UNLESS_SET.items():
        os.environ.setdefault(name, value)
    # Ray read how it proves itself when it was imported; it does this for clusters of its own, too.
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
    return token
