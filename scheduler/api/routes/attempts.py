"""Routes of running attempts: what they report, fetch and hand over with their own token."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import StreamingResponse

from gpucommons.scheduler import models
from gpucommons.scheduler.api.caller import AnyCaller
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.service.jobs import attempt_files, attempts, hibernation

router = a_router("attempt", prefix="/v1/attempt")

#: Between two looks of a waiting worker. Looks are cheap, and thousands of workers wait.
LOOK_S = 2.0
#: Of one attempt, beside two per worker: connections break, and both ends count for a while.
SLACK = 8
_TAR: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/x-tar": {}}, "description": "A tar archive."}
}


@router.post("/progress")
async def report_progress(report: models.ProgressReport, caller: AnyCaller) -> models.AttemptOrders:
    """Tell how far the attempt is; the answer carries an announced stop."""
    return await caller.run(attempts.report_progress, report)


@router.post("/trainer-status")
async def report_trainer_status(
    report: models.TrainerStatusReport, caller: AnyCaller
) -> models.AttemptOrders:
    """What a trainer posts by itself, in Kubeflow's progress protocol (``KUBEFLOW_TRAINER_SERVER_URL``)."""
    return await caller.run(attempts.report_trainer_status, report)


@router.post("/curve")
async def report_curve(report: models.CurveReport, caller: AnyCaller) -> models.AttemptOrders:
    """Points that were read from TensorBoard's files in the working folder."""
    return await caller.run(attempts.report_curve, report)


@router.post("/checkpoints")
async def report_checkpoint(
    report: models.CheckpointReport, caller: AnyCaller
) -> models.AttemptOrders:
    """Hand in a complete checkpoint; refused with ``StaleAttempt`` when no longer current."""
    return await caller.run(attempts.report_checkpoint, report)


@router.post("/finished")
async def report_finished(caller: AnyCaller) -> models.AttemptOrders:
    """Tell that the work is done: whatever ends the attempt after a signal, its job has succeeded.

    Answered once that is on record. Where nothing tells it to stop, its exit status counts as ever.
    """
    return await caller.run(attempts.report_finished)


@router.get("/orders")
async def attempt_orders(
    caller: AnyCaller,
    *,
    announced: bool = False,
    wait_s: Annotated[float, Query(ge=0, le=25, allow_inf_nan=False)] = 0,
) -> models.AttemptOrders:
    """Whether the attempt is to stop; waits while that is what the caller knows already."""
    orders = await caller.run(attempts.attempt_orders)
    until_s = time.monotonic() + wait_s
    if wait_s == 0:
        return orders
    principal = caller.principal
    workers = await caller.in_turn(attempts.workers_of)
    most = SLACK + 2 * workers
    with caller.dependencies.waiting.place(
        f"{principal.kind} {principal.name}", most=most
    ) as place:
        while (orders.stop is not None) == announced and time.monotonic() < until_s:
            if place.is_given_back:
                break
            await asyncio.sleep(min(LOOK_S, max(0.0, until_s - time.monotonic())))
            orders = await caller.run(attempts.attempt_orders)
    return orders


@router.get("/inputs")
async def attempt_inputs(caller: AnyCaller) -> models.AttemptInputs:
    """What the attempt needs before its command runs."""
    return await caller.run(attempt_files.attempt_inputs)


@router.get("/snapshot", response_class=StreamingResponse, responses=_TAR)
async def attempt_snapshot(caller: AnyCaller) -> StreamingResponse:
    """The files that the attempt's job runs from, as one tar."""
    chunks = await caller.in_turn(attempt_files.attempt_snapshot)
    return StreamingResponse(chunks, media_type="application/x-tar")


@router.post("/uploads")
async def attempt_uploads(request: models.UploadRequest, caller: AnyCaller) -> models.UploadList:
    """Links with which the attempt hands files over."""
    return await caller.run(attempt_files.attempt_uploads, request)


@router.post("/tree")
async def report_tree(report: models.TreeReport, caller: AnyCaller) -> models.AttemptOrders:
    """Tell, at the start, whether its processes can be saved, and whether they were woken."""
    return await caller.run(hibernation.report_tree, report)


@router.get("/saving")
async def attempt_saving(caller: AnyCaller) -> models.SavingView:
    """Whether its processes are to be saved, of an attempt whose pod was told to end."""
    return await caller.run(hibernation.attempt_saving)


@router.post("/kept")
async def report_kept(report: models.KeptReport, caller: AnyCaller) -> models.AttemptOrders:
    """Tell, at the end, what was handed over of the working folder: the next attempt finds it."""
    return await caller.run(attempt_files.report_kept, report)
