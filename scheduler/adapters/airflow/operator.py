"""A task of Airflow that is a job."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from pydantic import ValidationError

from gpucommons.gpu.slices.slices import parse_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.adapters.airflow.hook import GpuCommonsHook
from gpucommons.scheduler.adapters.airflow.trigger import JobTrigger
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.snapshot import MAX_SNAPSHOT_BYTES, Packed, pack
from gpucommons.scheduler.client.submission import FileJob, command_for, default_name
from gpucommons.scheduler.errors import BadRequest, Conflict, SchedulerError
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL
from gpucommons.scheduler.models.text.field_errors import first_mistake
from gpucommons.scheduler.models.text.state_words import state_words

#: In Airflow's store of the task, which outlives its tries: the key of the job whose end no try told.
_OPEN = "gpucommons_job_key"
#: The same on the job, and which task it is of.
_KEY_LABEL, _TASK_LABEL = "airflow-key", "airflow-task"
_CANCELLED = frozenset({"cancelling", "cancelled"})
_MOST_TEXT = 500
#: The newest are looked through for one of an earlier try.
_MOST_JOBS = 500


class GpuCommonsOperator(BaseOperator):
    """Runs a script, notebook or command as a job; its log is the task's, what it made is returned.

    Parameters
    ----------
    script
        A ``.py``, ``.sh`` or ``.ipynb``, beside the DAG's file where the path is relative. Its folder
        goes along.
    command
        Words to run instead.
    folder
        Goes along instead of the script's, and is where a command runs.
    arguments
        Of the script.
    gpus
        For each worker, also a part: ``0.5``.
    job
        Other fields as ``POST /v1/jobs`` takes them: ``{"team": "vision", "roles": [{"memory_mib": 8192}]}``.
    """

    template_fields = ("script", "command", "folder", "arguments", "gpus", "job")

    def __init__(  # noqa: PLR0913 - the arguments of a task, all named and optional
        self,
        *,
        script: str | None = None,
        command: Sequence[str] = (),
        folder: str | None = None,
        arguments: Sequence[str] = (),
        gpus: float | str = 0,
        job: Mapping[str, Any] | None = None,
        gpucommons_conn_id: str = GpuCommonsHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.script, self.command, self.folder = script, command, folder
        self.arguments, self.gpus, self.job = arguments, gpus, job or {}
        self.gpucommons_conn_id = gpucommons_conn_id
        self._submitted: tuple[GpuCommonsHook, str] | None = None

    def execute(self, context: Context) -> None:
        """Submit, or find what an earlier try submitted, and leave the worker."""
        hook = GpuCommonsHook(self.gpucommons_conn_id)
        try:
            request, packed = self._request(context)
            with hook.get_conn() as scheduler:
                if packed is not None:
                    scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
                job = self._submit(scheduler, request, context["task_state_store"])
        except (BadRequest, ValueError) as error:  # another try would be refused as well
            said = first_mistake(error) if isinstance(error, ValidationError) else str(error)
            raise AirflowFailException(said) from None
        except SchedulerError as error:
            raise AirflowException(str(error)) from None
        self._submitted = hook, job.id
        for warning in job.warnings:
            self.log.warning("%s", warning)
        until_s = None
        if self.execution_timeout is not None:
            until_s = time.time() + self.execution_timeout.total_seconds()
        trigger = JobTrigger(conn_id=self.gpucommons_conn_id, job_id=job.id, until_s=until_s)
        self.defer(trigger=trigger, method_name=self.execute_complete.__name__)

    def execute_complete(self, context: Context, event: Mapping[str, str]) -> dict[str, Any]:
        """Tell how it ended: from here on, another try is another job."""
        if problem := event.get("problem"):
            raise AirflowException(problem)
        try:
            with GpuCommonsHook(self.gpucommons_conn_id).get_conn() as scheduler:
                job = scheduler.send(calls.job(event["job_id"]))
        except SchedulerError as error:
            raise AirflowException(str(error)) from None
        context["task_state_store"].delete(_OPEN)
        if job.state != "succeeded":
            why = f": {job.ended_text}" if job.ended_text else "."
            raise AirflowException(f"{job.name} {state_words(job.state)}{why}")
        return _outcome(job)

    def on_kill(self) -> None:
        """Cancel the job that was submitted; once the task waits, the trigger does."""
        if self._submitted is None:
            return
        hook, job_id = self._submitted
        with hook.get_conn() as scheduler:
            try:
                scheduler.send(calls.cancel(job_id))
            except SchedulerError as error:
                self.log.warning("%s", error)

    def _request(self, context: Context) -> tuple[models.JobRequest, Packed | None]:
        what, root = self._what()
        packed = None if root is None else pack(root, max_bytes=MAX_SNAPSHOT_BYTES)
        fields = dict(self.job)
        first, *others = fields.pop("roles", None) or [{}]
        role = {"milli_gpu": parse_milli_gpu(str(self.gpus)), **first, "command": command_for(what)}
        ti = context["ti"]
        task = f"{ti.dag_id} / {ti.run_id} / {ti.task_id}"
        task += f" / {ti.map_index}" if ti.map_index is not None and ti.map_index >= 0 else ""
        asked = {
            "name": default_name(self.task_id),
            **fields,
            "labels": {
                **fields.get("labels", {}),
                ORIGIN_LABEL: "airflow",
                _TASK_LABEL: task[:_MOST_TEXT],
            },
            "roles": [role, *others],
            **({} if packed is None else {"snapshot": packed.sha256}),
        }
        return models.JobRequest.model_validate(asked), packed

    def _what(self) -> tuple[FileJob, Path | None]:
        """What runs, and the folder that goes along."""
        if bool(self.script) == bool(self.command):
            raise BadRequest("Name one thing to run: a script, or a command word by word.")
        base = Path(self.dag.folder)
        folder = None if self.folder is None else base / self.folder
        words = tuple(str(word) for word in self.arguments)
        if not self.script:
            command = (*(str(word) for word in self.command), *words)
            return FileJob(root=folder or base, command=command), folder
        script = (folder or base) / self.script
        if not script.is_file():
            raise BadRequest(f"There is no file {script}: name a script or notebook that is there.")
        root = folder or script.parent
        path = script.relative_to(root).as_posix()
        return FileJob(root=root, path=path, arguments=words), root

    def _submit(
        self, scheduler: SchedulerClient, request: models.JobRequest, kept: Any
    ) -> models.JobView:
        """The key is kept before it is used: a try that was ended in between gives the same job."""
        while True:
            key = kept.get(_OPEN)
            if key is None:
                key = str(uuid.uuid4())
                kept.set(_OPEN, key)
            labels = {**request.labels, _KEY_LABEL: key}
            try:
                job = scheduler.send(
                    calls.submit(request.model_copy(update={"labels": labels}), key=key)
                )
            except Conflict:
                earlier = _of_key(scheduler, key)
                if earlier is None:
                    raise
                job = earlier
                self.log.warning(
                    "%s goes on as an earlier try submitted it: the DAG has changed since.",
                    job.name,
                )
            if job.state not in _CANCELLED:
                self.log.info("%s is the job of this task (%s).", job.name, job.id)
                return job
            kept.delete(_OPEN)  # somebody wanted it to end, whose task this is starts anew


def _of_key(scheduler: SchedulerClient, key: str) -> models.JobView | None:
    """Of one's own: whoever sees the job of a task can give theirs the same label."""
    name = scheduler.send(calls.whoami()).name
    newest = scheduler.send(calls.jobs(limit=_MOST_JOBS)).jobs
    own = [one for one in newest if one.submitted_by == name]
    return next(
        (one for one in own if one.request and one.request.labels.get(_KEY_LABEL) == key), None
    )


def _outcome(job: models.JobView) -> dict[str, Any]:
    """What the tasks behind it may read."""
    found = job.results
    return {
        "job": job.name,
        "job_id": job.id,
        "metrics": {} if job.progress is None else job.progress.metrics,
        "results": "" if found is None else found.text,
        "folder": None if found is None else found.path or found.folder,
        "files": [] if found is None else [one.path for one in found.files],
    }
