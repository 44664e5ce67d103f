"""submitit on GPU Commons: functions run as jobs, and go on after a preemption from their checkpoint.

submitit finds it by its entry points (group ``submitit``) and calls it ``gpucommons``. Pickles lie in
the executor's folder, which jobs must see under the same path: a home folder, or a shared one.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any, ClassVar

from submitit.core import core, job_environment, logger, utils

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import here
from gpucommons.scheduler.cli.jobs.logs import log_so_far
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.submission import default_name
from gpucommons.scheduler.errors import Conflict, SchedulerError
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL

#: What submitit calls where a job stands.
_STATES = {
    "queued": "PENDING", "nominated": "PENDING", "admitted": "PENDING", "starting": "PENDING",
    "paused": "PENDING", "running": "RUNNING", "preempting": "RUNNING", "pausing": "RUNNING",
    "cancelling": "COMPLETING", "succeeded": "COMPLETED", "failed": "FAILED",
    "cancelled": "CANCELLED",
}  # fmt: skip
_DEFAULT_MEMORY_GB = 1.0
#: Of submitit's parameters and of ours, with what they are left out.
_PARAMETERS: dict[str, Any] = {
    "name": "submitit", "timeout_min": 5, "mem_gb": _DEFAULT_MEMORY_GB, "cpus_per_task": None,
    "gpus": 0, "gpu_kind": None, "nodes": 1, "tasks_per_node": 1, "team": None, "pool": None,
    "priority": None, "environment": "", "env": None, "stderr_to_stdout": True,
}  # fmt: skip
_IN_A_JOB, _IN_A_NOTEBOOK = "GPUCOMMONS_ATTEMPT_ID", "GPUCOMMONS_URL"
#: Before the cluster's own, which would not know our notebooks.
_AFFINITY = 3


def _client() -> SchedulerClient:
    url, token = here()
    return SchedulerClient(url, token=token)


class GpuCommonsInfoWatcher(core.InfoWatcher):
    """Asks the scheduler where jobs stand."""

    def update(self) -> None:
        """See submitit; a scheduler that does not answer leaves what is known."""
        self._num_calls += 1
        try:
            with _client() as scheduler:
                for job_id in sorted(self._registered - self._finished):
                    self._info_dict[job_id] = _info(scheduler.send(calls.job(job_id)))
        except SchedulerError as error:
            logger.get_logger().warning("Jobs' states may be old: %s", error)
        self._last_status_check = time.time()
        self._finished |= {one for one in self._registered if self.is_done(one, mode="cache")}

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """One of submitit's words."""
        return str(self.get_info(job_id, mode=mode).get("State", "UNKNOWN"))


def _info(job: models.JobView) -> dict[str, str]:
    attempt = job.attempts[-1] if job.attempts else None
    return {
        "JobID": job.id,
        "Name": job.name,
        "State": _STATES.get(job.state, "UNKNOWN"),
        "NodeList": ",".join(attempt.nodes) if attempt else "",
        "Reason": job.ended_text or (job.reason.text if job.reason else ""),
    }


class GpuCommonsJob(core.Job[Any]):
    """A job of ours as submitit handles one."""

    watcher = GpuCommonsInfoWatcher(delay_s=30)

    def cancel(self, check: bool = True) -> None:
        """Cancel it; one that is over stays as it is."""
        del check  # it is known at once
        with _client() as scheduler:
            try:
                scheduler.send(calls.cancel(self.job_id))
            except Conflict:
                return

    def _interrupt(self) -> None:
        """As a preemption does, for tests: it stops after its checkpoint, and goes on."""
        with _client() as scheduler:
            scheduler.send(calls.pause(self.job_id))
            while scheduler.send(calls.job(self.job_id)).state != "paused":
                time.sleep(0.2)
            scheduler.send(calls.resume(self.job_id))

    def _get_logs_string(self, name: str) -> str | None:
        """Its log, all attempts one after the other: output and errors are one here."""
        if name not in {"stdout", "stderr"}:
            message = f'Unknown "{name}", available are stdout and stderr.'
            raise ValueError(message)
        with _client() as scheduler:
            attempts = scheduler.send(calls.job(self.job_id)).attempts
            lines = [
                line
                for one in attempts
                for line in log_so_far(scheduler, self.job_id, attempt=one.number)
            ]
        return "".join(f"{line}\n" for line in lines) if attempts else None


class GpuCommonsJobEnvironment(job_environment.JobEnvironment):
    """What a function's job is told of itself."""

    _env: ClassVar[dict[str, str]] = {
        "job_id": "GPUCOMMONS_JOB_ID",
        "num_tasks": "GPUCOMMONS_WORLD_SIZE",
        "num_nodes": "GPUCOMMONS_WORLD_SIZE",
        "node": "GPUCOMMONS_RANK",
        "global_rank": "GPUCOMMONS_RANK",
        "local_rank": "LOCAL_RANK",
    }

    def _handle_signals(self, paths: utils.JobPaths, submission: utils.DelayedSubmission) -> None:
        """Told to stop, it saves what it can; the job goes back into the queue by itself."""
        handler = job_environment.SignalHandler(self, paths, submission)

        def stop(signum: int, frame: Any) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a group is told more than once
            handler.checkpoint_and_exit(signum, frame)

        signal.signal(signal.SIGTERM, stop)


class GpuCommonsExecutor(core.PicklingExecutor):
    """Submits functions as jobs.

    Parameters are submitit's (``name``, ``timeout_min``: all attempts together, ``mem_gb``,
    ``cpus_per_task``, ``gpus_per_node``) and with the prefix ``gpucommons_`` ours: ``gpus`` (also parts of one),
    ``gpu_kind``, ``team``, ``pool``, ``priority``, ``environment``, ``env``.
    """

    job_class = GpuCommonsJob

    def __init__(
        self, folder: Path | str, max_num_timeout: int = 3, max_pickle_size_gb: float = 1.0
    ) -> None:
        super().__init__(
            folder, max_num_timeout=max_num_timeout, max_pickle_size_gb=max_pickle_size_gb
        )
        self._throttling = 0.0

    @classmethod
    def affinity(cls) -> int:
        """Chosen by itself in our notebooks; elsewhere by ``cluster="gpucommons"``."""
        is_notebook = _IN_A_NOTEBOOK in os.environ and _IN_A_JOB not in os.environ
        return _AFFINITY if is_notebook else -1

    @classmethod
    def _equivalence_dict(cls) -> dict[str, str]:
        own = {name: name for name in ("name", "timeout_min", "mem_gb", "nodes", "cpus_per_task")}
        return {**own, "tasks_per_node": "tasks_per_node", "gpus_per_node": "gpus"}

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return set(_PARAMETERS)

    def _internal_update_parameters(self, **kwargs: Any) -> None:
        strange = sorted(set(kwargs) - set(_PARAMETERS))
        if strange:
            message = (
                f"{', '.join(strange)}: no parameter here. There are {', '.join(_PARAMETERS)}."
            )
            raise ValueError(message)
        for name in ("nodes", "tasks_per_node"):
            if kwargs.get(name, 1) != 1:
                message = (
                    f"{name}={kwargs[name]}: a function runs once here. Several workers are a job of"
                    " their own: gpucommons submit --workers."
                )
                raise ValueError(message)
        super()._internal_update_parameters(**kwargs)

    def _submit_command(self, command: str) -> core.Job[Any]:
        del command
        asked = {**_PARAMETERS, **self.parameters}
        with _client() as scheduler:
            view = scheduler.send(calls.submit(self._request(asked), key=str(uuid.uuid4())))
        for warning in view.warnings:
            logger.get_logger().warning(warning)
        return self.job_class(folder=self.folder, job_id=view.id, tasks=[0])

    def _request(self, asked: dict[str, Any]) -> models.JobRequest:
        python = "python" if asked["environment"] else sys.executable
        cpus = asked["cpus_per_task"]
        role = {
            "milli_gpu": round(asked["gpus"] * 1000),
            "memory_mib": round(asked["mem_gb"] * 1024),
            "gpu_kind": asked["gpu_kind"],
            "command": [python, "-u", "-m", "submitit.core._submit", str(self.folder)],
            **({"cpu_milli": cpus * 1000} if cpus else {}),
        }
        fields = {
            "name": default_name(str(asked["name"])),
            "team": asked["team"],
            "pools": None if asked["pool"] is None else [asked["pool"]],
            "priority": asked["priority"],
            "roles": [role],
            "environment": asked["environment"],
            "max_run_s": asked["timeout_min"] * 60,
            "labels": {ORIGIN_LABEL: "submitit"},
            "env": {**_variables(), **(asked["env"] or {})},
        }
        return models.JobRequest.model_validate(
            {name: value for name, value in fields.items() if value is not None}
        )

    def _num_tasks(self) -> int:
        return 1

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        raise NotImplementedError  # no file is submitted

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        raise NotImplementedError  # as above

    @staticmethod
    def _get_job_id_from_submission_command(string: bytes | str) -> str:
        raise NotImplementedError  # as above


def _variables() -> dict[str, str]:
    """Modules beside the caller are found as they are here."""
    path = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH", ""))))
    return {"SUBMITIT_EXECUTOR": "gpucommons", "PYTHONPATH": path}
