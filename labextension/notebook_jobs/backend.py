"""The scheduler class of jupyter-scheduler that submits to ours."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_scheduler import models as theirs
from jupyter_scheduler.scheduler import BaseScheduler
from traitlets import Dict

from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.notebook_jobs import describing
from gpucommons.labextension.notebook_jobs.environments import (
    DEFAULT,
    read_compute_type,
    scheduler_here,
    told,
)
from gpucommons.labextension.notebook_jobs.listing import is_asked, page
from gpucommons.labextension.notebook_jobs.outputs import Staging
from gpucommons.labextension.submission import Desk, Submission
from gpucommons.scheduler.cli.connect import here
from gpucommons.scheduler.client import AsyncSchedulerClient, SchedulerClient, calls, schedule_calls
from gpucommons.scheduler.client.submission import default_name, results_below
from gpucommons.scheduler.errors import BadRequest, Conflict, NotFound
from gpucommons.scheduler.models import JobRequest, JobView, ScheduleRequest, ScheduleView

#: So many of a user's newest jobs are looked through.
_MOST_JOBS, _PAGE = 2000, 500


class GpuScheduler(BaseScheduler):
    """Notebook jobs are jobs of GPU Commons, their definitions its schedules."""

    job_defaults = Dict(
        help="Fields of every job, as POST /v1/jobs takes them: {'team': 'vision', 'priority': 'low'}."
    ).tag(config=True)
    #: Of jupyter-scheduler's own: times of schedules are watched by ours.
    task_runner = None

    def __init__(self, *, db_url: str = "", **options: Any) -> None:
        del db_url  # nothing is kept there
        super().__init__(**options)
        self._staging = Staging(Path(self.staging_path))

    # --- jobs ---------------------------------------------------------------------------------

    async def create_job(self, model: theirs.CreateJob) -> str:
        """Pack, upload, submit; the same token answers with the same job."""
        async with scheduler_here() as scheduler:
            request, content = await self._request(model, scheduler)
            key = f"notebook-job-{model.idempotency_token or uuid.uuid4()}"
            view = await scheduler.send(calls.submit(request, key=key))
        await asyncio.to_thread(self._staging.keep_input, view.id, content)
        return view.id

    async def list_jobs(self, query: theirs.ListJobsQuery) -> theirs.ListJobsResponse:
        """The user's own that were made here, as asked."""
        wanted = [one for one in await self._jobs() if is_asked(one, query)]
        jobs, token = page(wanted, query)
        for one in jobs:
            self.add_job_files(one)
        return theirs.ListJobsResponse(jobs=jobs, next_token=token, total_count=len(wanted))

    async def count_jobs(self, query: theirs.CountJobsQuery) -> int:
        """Those of one state."""
        return sum(one.status == query.status for one in await self._jobs())

    async def _jobs(self) -> list[theirs.DescribeJob]:
        found: list[theirs.DescribeJob] = []
        async with scheduler_here() as scheduler:
            owner, cursor = (await scheduler.send(calls.whoami())).name, None
            for _ in range(_MOST_JOBS // _PAGE):
                part = await scheduler.send(calls.jobs(owner=owner, limit=_PAGE, cursor=cursor))
                found += describing.described_jobs(part.jobs)
                if (cursor := part.cursor) is None:
                    break
        hidden = await asyncio.to_thread(self._staging.hidden)
        return [one for one in found if one.job_id not in hidden]

    async def get_job(self, job_id: str, job_files: bool = True) -> theirs.DescribeJob:
        """One job."""
        async with scheduler_here() as scheduler:
            found = describing.described_job(*await _job(scheduler, job_id))
        if job_files:
            self.add_job_files(found)
        return found

    async def update_job(self, job_id: str, model: theirs.UpdateJob) -> None:
        """A job is what was submitted."""
        del model
        with told():
            raise BadRequest(f"Job {job_id} stays as it was submitted: make another.")

    async def stop_job(self, job_id: str) -> None:
        """Cancel it; one that is over stays as it is."""
        await self._stopped(job_id)

    async def _stopped(self, job_id: str) -> str:
        async with scheduler_here() as scheduler:
            job, _ = await _job(scheduler, job_id)
            with suppress(Conflict):
                await scheduler.send(calls.cancel(job.id))
            return job.id

    async def delete_job(self, job_id: str) -> None:
        """Cancel it, and list it here no more; it stays in the scheduler's history."""
        # Its id: what was asked may be a name, and becomes a path.
        found = await self._stopped(job_id)
        await asyncio.to_thread(self._staging.remove, found)

    async def get_staging_paths(self, model: theirs.DescribeJob) -> dict[str, str]:
        """Fetch what a job that is over made; where its files lie then."""
        async with scheduler_here() as scheduler:
            job, _ = await _job(scheduler, model.job_id)
            paths = await asyncio.to_thread(self._bring, job)
        kept = [self._staging.input(of) for of in (model.job_id, model.job_definition_id) if of]
        return {**paths, "input": str(next((one for one in kept if one.is_file()), kept[0]))}

    def _bring(self, job: JobView) -> dict[str, str]:
        url, token = here()
        with SchedulerClient(url, token=token) as scheduler:
            return self._staging.bring(scheduler, job)

    # --- definitions --------------------------------------------------------------------------

    async def create_job_definition(self, model: theirs.CreateJobDefinition) -> str:
        """Pack, upload, write a schedule."""
        name = f"{default_name(model.name)}-{secrets.token_hex(3)}"
        async with scheduler_here() as scheduler:
            if not model.schedule:
                raise BadRequest("Say when: a job definition here has a schedule. Or run it now.")
            # What is no time is said before a file is packed.
            times = {"schedule": model.schedule, "time_zone": model.timezone or "UTC"}
            await scheduler.send(schedule_calls.schedule_times(*times.values()))
            request, content = await self._request(model, scheduler)
            made = {**request.labels, describing.MADE_MS: str(wall_clock_ms())}
            job = request.model_copy(update={"labels": made})
            owner = (await scheduler.send(calls.whoami())).name
            written = ScheduleRequest.model_validate({**times, "job": job})
            await scheduler.send(schedule_calls.put_schedule(owner, name, written))
        await asyncio.to_thread(self._staging.keep_input, name, content)
        return name

    async def update_job_definition(
        self, job_definition_id: str, model: theirs.UpdateJobDefinition
    ) -> None:
        """Pause, go on, or other times; runs that began stay as they are."""
        said = model.dict(exclude_unset=True, exclude_none=True)
        active, path = said.pop("active", None), said.pop("input_uri", "")
        async with scheduler_here() as scheduler:
            found, job = await _schedule(scheduler, job_definition_id)
            file = PurePosixPath(path).name
            other = set(said) - {"schedule", "timezone"}
            if other or (file and file != job.labels[describing.FILE]):
                raise BadRequest(
                    "Only its times can change: make a new job definition for another."
                )
            if found.triggers or found.compared_by:
                message = f"{found.name} has triggers or a promotion: use gpucommons schedule."
                raise BadRequest(message)
            if said:
                written = describing.rewritten(found, job, said)
                await scheduler.send(schedule_calls.put_schedule(found.owner, found.name, written))
            if active is not None:
                steer = (
                    schedule_calls.resume_schedule if active else schedule_calls.suspend_schedule
                )
                await scheduler.send(steer(found.owner, found.name))

    async def delete_job_definition(self, job_definition_id: str) -> None:
        """Remove the schedule; jobs of its runs stay."""
        async with scheduler_here() as scheduler:
            found, _ = await _schedule(scheduler, job_definition_id)
            await scheduler.send(schedule_calls.drop_schedule(found.owner, found.name))

    async def get_job_definition(self, job_definition_id: str) -> theirs.DescribeJobDefinition:
        """One schedule."""
        async with scheduler_here() as scheduler:
            found, job = await _schedule(scheduler, job_definition_id)
        return describing.described_definition(found, job)

    async def list_job_definitions(
        self, query: theirs.ListJobDefinitionsQuery
    ) -> theirs.ListJobDefinitionsResponse:
        """The user's schedules that were made here."""
        found: list[theirs.DescribeJobDefinition] = []
        async with scheduler_here() as scheduler:
            async for each in _my_schedules(scheduler):
                one = await scheduler.send(schedule_calls.schedule(each.owner, each.name))
                if (job := describing.made_here(one.job)) is not None:
                    found.append(describing.described_definition(one, job))
        wanted = [one for one in found if is_asked(one, query)]
        listed, token = page(wanted, query)
        return theirs.ListJobDefinitionsResponse(
            job_definitions=listed, next_token=token, total_count=len(wanted)
        )

    async def create_job_from_definition(
        self, job_definition_id: str, model: theirs.CreateJobFromDefinition
    ) -> str:
        """Run it now, with other parameters where some are given."""
        async with scheduler_here() as scheduler:
            found, job = await _schedule(scheduler, job_definition_id)
            request = describing.run_of(job, found.name, model.parameters)
            key = f"notebook-job-{uuid.uuid4()}"
            return (await scheduler.send(calls.submit(request, key=key))).id

    # --- packing ------------------------------------------------------------------------------

    async def _request(
        self, asked: theirs.CreateJob | theirs.CreateJobDefinition, scheduler: Any
    ) -> tuple[JobRequest, bytes]:
        """The job, its files uploaded; and the notebook as it is now."""
        kernels = KernelSpecManager(parent=self.parent)

        async def kernel_spec(name: str) -> Any:
            return await asyncio.to_thread(kernels.get_kernel_spec, name)

        desk = Desk(root=Path(self.root_dir), home=Path.home(), kernel_spec=kernel_spec)
        file = await asyncio.to_thread(desk.locate, asked.input_uri)
        content = await asyncio.to_thread(file.read_bytes)
        submission = self._submission(asked)
        if asked.package_input_folder:
            return await desk.pack(submission, scheduler), content
        # The notebook alone, as the form's box was not ticked.
        with tempfile.TemporaryDirectory(prefix="gpucommons-") as folder:
            await asyncio.to_thread(Path(folder, file.name).write_bytes, content)
            alone = submission.model_copy(update={"path": file.name})
            request = await replace(desk, root=Path(folder)).pack(alone, scheduler)
        below = results_below(Path.home(), file.parent)
        return request.model_copy(update={"results_to": below}), content

    def _submission(self, asked: theirs.CreateJob | theirs.CreateJobDefinition) -> Submission:
        defaults = dict(self.job_defaults)
        role = dict((defaults.pop("roles", None) or [{}])[0])
        size = read_compute_type(asked.compute_type)
        role |= {"milli_gpu": size.milli_gpu}
        name = asked.runtime_environment_name
        request = {
            "environment": "" if name == DEFAULT else name,
            **defaults,
            **({"team": size.team} if size.team else {}),
            "name": default_name(asked.name),
            "labels": {**defaults.get("labels", {}), **describing.labels(asked)},
            "roles": [role],
        }
        return Submission(
            path=asked.input_uri,
            request=request,
            parameters=describing.values(asked.parameters),
            left_out="link",
        )


async def _job(scheduler: AsyncSchedulerClient, job_id: str) -> tuple[JobView, JobRequest]:
    """A job of the user's own that was made here, and what was asked."""
    found = await scheduler.send(calls.job(job_id))
    if found.owner != (await scheduler.send(calls.whoami())).name:
        # A lead may fetch what it made, which then is a file of the lead's: not by a link to this page.
        raise NotFound(
            f"{found.name} belongs to {found.owner or 'somebody else'}: see its own page."
        )
    if (request := describing.made_here(found.request)) is None:
        raise NotFound(f"{found.name} is no notebook job: see it in the list of GPU jobs.")
    return found, request


async def _my_schedules(scheduler: AsyncSchedulerClient) -> AsyncIterator[ScheduleView]:
    cursor: str | None = None
    while True:
        part = await scheduler.send(schedule_calls.schedules(cursor))
        for one in part.schedules:
            if one.mine:
                yield one
        if (cursor := part.cursor) is None:
            return


async def _schedule(scheduler: AsyncSchedulerClient, name: str) -> tuple[ScheduleView, JobRequest]:
    """A schedule that was made here, and its job."""
    owner = (await scheduler.send(calls.whoami())).name
    found = await scheduler.send(schedule_calls.schedule(owner, name))
    if (job := describing.made_here(found.job)) is None:
        raise NotFound(f"{found.name} runs no notebook of this list: use gpucommons schedule.")
    return found, job
