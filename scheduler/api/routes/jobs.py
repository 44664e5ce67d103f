"""Routes of jobs, their logs, curves and snapshots."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from gpucommons.scheduler import models
from gpucommons.scheduler.api.caller import AnyCaller, Caller, IdempotencyKey
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.core.model.types import State
from gpucommons.scheduler.curves.points import Source
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.files.snapshots import Receiving
from gpucommons.scheduler.models.plans.loading import MOST_LOADERS
from gpucommons.scheduler.service import advice, authorization, data_loading, job_quote, why
from gpucommons.scheduler.service import curve_outlook as outlooks
from gpucommons.scheduler.service.advice import past
from gpucommons.scheduler.service.advice import waiting_together as waiting
from gpucommons.scheduler.service.jobs import environments as job_environments
from gpucommons.scheduler.service.jobs import jobs, logs, run_again, snapshots
from gpucommons.scheduler.service.jobs.results import results as job_results

router = a_router("jobs")

#: Of one caller, each of whom may send slowly.
MAX_UPLOADING = 4
#: Longer waits would outlive proxies between client and server.
WaitS = Annotated[float, Query(ge=0, le=25, allow_inf_nan=False)]
Cursor = Annotated[str | None, Query(max_length=200)]
#: Names and ids may contain a slash (``vision/digits-7``).
JobRef = Annotated[models.Ref, Path()]
#: Compared with the names of what a job wrote; never opened as a path.
FileOfResults = Annotated[str, Query(max_length=4096, pattern=r"^[^\x00]*$")]


@router.post("/jobs", status_code=201)
async def submit(
    request: models.JobRequest, caller: AnyCaller, key: IdempotencyKey = None
) -> models.JobView:
    """Submit a job; answered as soon as it is durable."""
    # Of a job with files the script is read, whether it is refused then or not.
    run = caller.run if request.snapshot is None else caller.run_dear
    return await run(jobs.submit, request, key=key)


@router.post("/quote")
async def quote_job(request: models.JobRequest, caller: AnyCaller) -> models.Quote:
    """Say what would happen to this job if it were submitted now."""
    return await caller.run_dear(job_quote.quote_job, request)


@router.get("/advise/together")
async def waiting_together(caller: AnyCaller) -> models.TogetherView:
    """With how many GPUs the caller's own waiting jobs are done soonest, all of them together."""
    return await caller.run_dear(waiting.waiting_together)


@router.post("/advise")
async def advise(request: models.AdviceRequest, caller: AnyCaller) -> models.AdviceView:
    """Say how this training could run: layouts that fit, their speed, wait and cost, and why."""
    return await caller.run_dear(advice.advise, request)


@router.get("/environments")
async def environments(caller: AnyCaller) -> models.EnvironmentList:
    """What the caller's jobs may run with: kernels, virtual and conda environments, or images."""
    return await caller.run_dear(job_environments.environments)


@router.get("/jobs", name="jobs")
async def list_jobs(  # noqa: PLR0913 - the filters of one list, all optional and named
    *,
    caller: AnyCaller,
    team: Annotated[models.Name | None, Query()] = None,
    owner: Annotated[models.UserName | None, Query()] = None,
    state: Annotated[State | None, Query()] = None,
    live: bool | None = None,
    part_of: Annotated[models.Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Cursor = None,
) -> models.JobList:
    """Jobs that the caller may see, newest first."""
    where = jobs.JobFilter(
        team=team, owner=owner, state=state, live=live, part_of=part_of, limit=limit
    )
    return await caller.run(jobs.jobs, where, cursor=cursor)


@router.post("/jobs/{ref:path}/cancel")
async def cancel(ref: JobRef, caller: AnyCaller) -> models.JobView:
    """Cancel a job."""
    return await caller.run(jobs.cancel, ref)


@router.post("/jobs/{ref:path}/pause")
async def pause(ref: JobRef, caller: AnyCaller) -> models.JobView:
    """Stop a job with a checkpoint and keep it paused."""
    return await caller.run(jobs.pause, ref)


@router.post("/jobs/{ref:path}/resume")
async def resume(ref: JobRef, caller: AnyCaller) -> models.JobView:
    """Put a paused job back in line."""
    return await caller.run(jobs.resume, ref)


@router.post("/jobs/{ref:path}/resize")
async def resize_job(ref: JobRef, request: models.JobSize, caller: AnyCaller) -> models.JobView:
    """Give a job that waits or is paused another size; it stays the same job."""
    return await caller.run(jobs.resize, ref, request)


@router.post("/jobs/{ref:path}/again", status_code=201)
async def again(  # noqa: PLR0913 - one wish, in parts
    ref: JobRef,
    caller: AnyCaller,
    key: IdempotencyKey = None,
    *,
    from_here: bool = False,
    loader_workers: Annotated[int | None, Query(ge=0, le=MOST_LOADERS)] = None,
    loader_prefetch: Annotated[int | None, Query(ge=1, le=MOST_LOADERS)] = None,
) -> models.JobView:
    """Submit the same request again, as a new job; from where an ended job of one's own stood, or anew.

    ``loader_workers`` and ``loader_prefetch`` set its torch data loaders, as ``POST …/data`` does for the
    next attempt of a job that is not over: the first alone, or both.
    """
    loader = None
    if loader_workers is not None:
        loader = models.LoaderOfAnotherRun(workers=loader_workers, prefetch=loader_prefetch or 2)
    elif loader_prefetch is not None:
        raise BadRequest(models.LONE_PREFETCH)
    return await caller.run_dear(run_again.again, ref, key=key, from_here=from_here, loader=loader)


@router.get("/jobs/{ref:path}/log")
async def log(  # noqa: PLR0913 - one position, in parts
    *,
    ref: JobRef,
    caller: AnyCaller,
    attempt: Annotated[int | None, Query(ge=1, le=2**31)] = None,
    rank: Annotated[int, Query(ge=0, le=100_000)] = 0,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    wait_s: WaitS = 0,
) -> models.LogView:
    """Lines of a worker's log from a byte offset; ``wait_s`` waits for new ones."""
    where = logs.LogPosition(attempt=attempt, rank=rank, offset=offset, wait_s=wait_s)
    return await caller.run(logs.log, ref, where)


@router.get("/jobs/{ref:path}/curve")
async def curve(
    ref: JobRef,
    caller: AnyCaller,
    source: Annotated[Source | None, Query(description="Left out: the best one.")] = None,
) -> models.Curve:
    """A job's metric curve: as the script reports it, or as it was read."""
    return await caller.run(logs.curve, ref, source=source)


@router.get("/jobs/{ref:path}/outlook")
async def curve_outlook(
    ref: JobRef,
    caller: AnyCaller,
    metric: Annotated[str, Query(min_length=1, max_length=200)],
    goal: Annotated[float, Query(allow_inf_nan=False)],
) -> models.CurveOutlook:
    """When a metric likely reaches a goal, read on from the curve so far; it stops nothing."""
    return await caller.run_dear(outlooks.curve_outlook, ref, metric=metric, goal=goal)


@router.get("/jobs/{ref:path}/use")
async def job_use(ref: JobRef, caller: AnyCaller) -> models.JobUse:
    """What a job used of the GPUs that it asked for."""
    return await caller.run(logs.job_use, ref)


@router.get("/jobs/{ref:path}/plan")
async def job_plan(ref: JobRef, caller: AnyCaller) -> models.PlanRecord:
    """What was said of a job before it was submitted, beside what came."""
    return await caller.run(past.job_plan, ref)


@router.get("/jobs/{ref:path}/data")
async def data_advice(ref: JobRef, caller: AnyCaller) -> models.DataAdvice:
    """Whether a job waits for its data, and what would help; it sets nothing."""
    return await caller.run(data_loading.data_advice, ref)


@router.post("/jobs/{ref:path}/data")
async def choose_loader(
    ref: JobRef, request: models.LoaderSettings, caller: AnyCaller
) -> models.JobView:
    """Set how a job loads its data from its next attempt on; what runs goes on as it began."""
    return await caller.run(data_loading.choose_loader, ref, request)


@router.get("/jobs/{ref:path}/why", name="why")
async def why_job(ref: JobRef, caller: AnyCaller) -> models.Why:
    """Why a job waits, when it will likely start, and what would start it now."""
    return await caller.run_dear(why.why_job, ref)


@router.get(
    "/jobs/{ref:path}/results",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-tar": {}}, "description": "A tar archive."}},
)
async def results(ref: JobRef, caller: AnyCaller, file: FileOfResults = "") -> StreamingResponse:
    """What a job wrote, once it is over; or one file of it, also one that is too large for a copy."""
    found = await caller.in_turn(job_results, ref, file)
    return StreamingResponse(found, media_type="application/x-tar")


# The shortest path last: ``{ref:path}`` would take the others' endings for a part of the name.
@router.get("/jobs/{ref:path}")
async def job(ref: JobRef, caller: AnyCaller) -> models.JobView:
    """One job, by id or name."""
    return await caller.run(jobs.job, ref)


@router.put(
    "/snapshots/{sha256}",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
async def put_snapshot(
    sha256: models.Sha256, request: Request, caller: AnyCaller
) -> models.SnapshotView:
    """Upload a snapshot; its bytes must have the hash that they are stored under."""
    authorization.jobs.put_snapshot(caller.principal)
    size_bytes = await _receive(request, caller, sha256)
    return models.SnapshotView(sha256=sha256, size_bytes=size_bytes)


def _said_bytes(request: Request) -> int:
    """What the client says that it will send; one byte where it does not."""
    said = request.headers.get("content-length", "")
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else 1  # noqa: PLR2004 - as long as any file's


async def _receive(request: Request, caller: Caller, sha256: str) -> int:
    """Stream the body to disk; what its sender brought before is only compared."""
    service, principal = caller.dependencies.service, caller.principal
    refusal = f"{MAX_UPLOADING} uploads of yours are under way already: try again after them."
    with caller.dependencies.uploading.taken(principal.name, most=MAX_UPLOADING, refusal=refusal):
        taking = await run_in_threadpool(snapshots.receive, service, principal, sha256)
        with taking:
            is_new = isinstance(taking, Receiving)
            if is_new:
                said_bytes = _said_bytes(request)
                service.uploads.check(principal.name, said_bytes, now_ms=service.now_ms())
            async for chunk in request.stream():
                await run_in_threadpool(taking.write, chunk)
            if is_new:
                service.uploads.take(principal.name, taking.size_bytes, now_ms=service.now_ms())
            await run_in_threadpool(snapshots.finish, service, principal, sha256, taking)
            return taking.size_bytes
