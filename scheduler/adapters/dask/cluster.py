"""A Dask cluster from a cell. Its scheduler lives in the kernel and outlives every size of the job.

Workers find it by an address that only holders of a certificate may speak to: it is made for this cluster,
travels in the job's snapshot, which the job alone can read, and is worth nothing once the cluster is gone.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import uuid
from argparse import Namespace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask
from distributed import Scheduler, SpecCluster
from distributed.security import Security
from distributed.utils import get_ip

from gpucommons.scheduler.adapters.dask.worker import CERTIFICATE
from gpucommons.scheduler.cli.connect import find
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.snapshot import Packed, pack
from gpucommons.scheduler.errors import Conflict, SchedulerError
from gpucommons.scheduler.models import JobRequest, JobView
from gpucommons.scheduler.models.jobs.jobs import DASK_ORIGIN, ORIGIN_LABEL

log = logging.getLogger("gpucommons.dask")

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
        self._address = find(Namespace(url=None, state=None), os.environ)
        self.job_id = ""
        security = Security.temporary()
        with dask.config.set(_NO_PAGES):
            super().__init__(
                scheduler={"cls": Scheduler, "options": _options(self._address[0], security)},
                security=security,
                silence_logs=logging.WARNING,
                name=f"gpucommons-{uuid.uuid4().hex[:8]}",
            )
        try:
            role = {
                "count": minimum,
                "milli_gpu": round(gpus * 1000),
                "memory_mib": round(memory_gib * 1024),
            }
            asked = _request(self.scheduler_address, role, fields)
            self.job_id = self._submit(
                asked.model_copy(update={"min_workers": minimum, "max_workers": maximum}),
                _packed(security),
            ).id
        except BaseException:
            super().close()
            raise

    def _scheduler(self) -> SchedulerClient:
        url, token = self._address
        return SchedulerClient(url, token=token)

    def _submit(self, request: JobRequest, packed: Packed) -> JobView:
        with self._scheduler() as scheduler:
            scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
            asked = request.model_copy(update={"snapshot": packed.sha256})
            return scheduler.send(calls.submit(asked, key=f"dask-{self.name}"))

    def job(self) -> JobView:
        """Its workers' job: where it stands, and why it waits."""
        with self._scheduler() as scheduler:
            return scheduler.send(calls.job(self.job_id))

    def close(self, timeout: float | None = None) -> Any:
        """Cancel the job and end Dask's scheduler; so does the end of the kernel."""
        self._cancel()
        return super().close(timeout)

    def _cancel(self) -> None:
        job_id, self.job_id = self.job_id, ""
        if not job_id:
            return
        try:
            with self._scheduler() as scheduler:
                scheduler.send(calls.cancel(job_id))
        except Conflict:
            return  # it is over
        except SchedulerError as error:
            # Its workers end by themselves, without Dask's scheduler.
            log.warning("the workers' job is not cancelled and ends by itself: %s", error)


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


def _request(address: str, role: dict[str, Any], fields: dict[str, Any]) -> JobRequest:
    """One worker of the job: a Dask worker on its GPU."""
    python = "python" if fields.get("environment") else sys.executable
    words = [python, "-u", "-m", "gpucommons.scheduler.adapters.dask.worker"]
    words += [address, str(role["memory_mib"])]
    path = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH", ""))))
    own = {
        "name": "dask",
        "launcher": "plain",
        # There is nothing to keep of them: what they held is computed again.
        "hibernation": False,
        **fields,
        "roles": [{**role, "command": words}],
        "env": {"PYTHONPATH": path, **fields.get("env", {})},
        # By this its files stay its owner's, also where a team shares those of its jobs.
        "labels": {**fields.get("labels", {}), ORIGIN_LABEL: DASK_ORIGIN},
    }
    return JobRequest.model_validate(own)


def _packed(security: Security) -> Packed:
    """The certificate with its key: one for all, as each may do everything here."""
    pem = f"{security.tls_worker_cert}\n{security.tls_worker_key}".encode()
    with tempfile.TemporaryDirectory(prefix="gpucommons-") as empty:
        return pack(Path(empty), extra={CERTIFICATE: pem})
