"""A Dask cluster from a cell. Its scheduler lives in the kernel and outlives every size of the job.

Workers find it by an address that only holders of a certificate may speak to, which is made for this cluster.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any
from urllib.parse import urlsplit

import dask
from distributed import Scheduler, SpecCluster
from distributed.security import Security
from distributed.utils import get_ip

from gpucommons.scheduler.adapters.dask.worker import CERTIFICATE
from gpucommons.scheduler.adapters.workers_job import Asked, Size, WorkersJob
from gpucommons.scheduler.models import JobView
from gpucommons.scheduler.models.jobs.jobs import DASK_ORIGIN

#: Of the machine itself: nobody outside has to reach it.
_HERE = ("", "127.0.0.1", "::1", "localhost")
#: Workers are stopped for others; that is no fault of the task that they were at. One that breaks its
#: worker by itself ends the job.
_STOPS = 1_000_000
#: Nothing of a cluster is served without its certificate.
_NO_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": []}


class DaskCluster(SpecCluster):
    """``minimum`` to ``maximum`` workers as one job of the scheduler, until :meth:`close` or the kernel's end.

    Other fields are those of a job as ``POST /v1/jobs`` takes them: ``team``, ``pools``, ``priority``,
    ``environment``, ``max_price``, …
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
        self._workers = WorkersJob()
        security = Security.temporary()
        with dask.config.set(_NO_PAGES):
            super().__init__(
                scheduler={
                    "cls": Scheduler,
                    "options": _options(self._workers.address[0], security),
                },
                security=security,
                silence_logs=logging.WARNING,
                name=f"gpucommons-{uuid.uuid4().hex[:8]}",
            )
        size = Size(minimum=minimum, maximum=maximum, gpus=gpus, memory_gib=memory_gib)
        asked = Asked(
            origin=DASK_ORIGIN,
            module="gpucommons.scheduler.adapters.dask.worker",
            words=(self.scheduler_address, str(size.memory_mib)),
            key_file=CERTIFICATE,
            # With its key: one for all, as each may do everything here.
            key=f"{security.tls_worker_cert}\n{security.tls_worker_key}".encode(),
            fields=fields,
        )
        try:
            self._workers.submit(size, asked)
        except BaseException:
            super().close()
            raise

    @property
    def job_id(self) -> str:
        """Of its workers' job; empty once it is closed."""
        return self._workers.id

    def job(self) -> JobView:
        """Its workers' job: where it stands, and why it waits."""
        return self._workers.view()

    def close(self, timeout: float | None = None) -> Any:
        """Cancel the job and end Dask's scheduler; so does the end of the kernel."""
        self._workers.cancel()
        return super().close(timeout)


def _options(url: str, security: Security) -> dict[str, Any]:
    here = url.startswith("unix:") or urlsplit(url).hostname in _HERE
    return {
        "host": "127.0.0.1" if here else get_ip(),
        "protocol": "tls://",
        "security": security,
        "dashboard": False,
        "dashboard_address": "127.0.0.1:0",
        "allowed_failures": _STOPS,
    }
