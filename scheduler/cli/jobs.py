"""Commands that look at jobs and steer them."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu, parse_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli import admin
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.plans.past import plan_text
from gpucommons.scheduler.cli.present import by, clock, going_on, printable, show, shown, table
from gpucommons.scheduler.client import SchedulerClient, calls, plan_calls
from gpucommons.scheduler.client.results import fetch_results, mark_results
from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL
from gpucommons.scheduler.models.text.state_words import (
    attempt_words,
    hold_class_words,
    state_words,
)
from gpucommons.scheduler.working_folder import words

#: The API gives so many at once.
_PAGE = 500
_WHERE_CURVES_COME_FROM = (
    " It is read from what the job prints (as in “epoch 3 loss 0.52”), from TensorBoard files in its"
    " folder, or from run.report(…)."
)
_YES = frozenset({"y", "yes"})
_FINAL = frozenset({"succeeded", "failed", "cancelled", "ended"})
#: More files are counted, not named.
_NAMED = 20
#: How long a copy that is under way is waited for, and how often it is looked at.
_COPYING_S, _LOOK_S = 60.0, 0.5
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: In place of an empty list.
_NONE_LIVE = "No job waits or runs. Those that are over too: gpucommons jobs --all."
_NONE = "There is no job yet."


def _size(job: models.JobView) -> str:
    """``½ GPU``, ``2 × 1 GPU``, ``CPU only``."""
    if not job.milli_gpu:
        return "CPU only" if job.workers == 1 else f"{job.workers} workers, CPU only"
    each = format_gpus(job.milli_gpu // job.workers)
    size = each if job.workers == 1 else f"{job.workers} × {each}"
    asked = job.request
    if asked is None or asked.min_workers is None or asked.min_workers == asked.max_workers:
        return size
    return f"{size}, {asked.min_workers} to {asked.max_workers} workers"


def describe(job: models.JobView) -> str:
    """One job in a few lines."""
    lines = [
        f"{job.name}  {state_words(job.state)}"
        + (f" · {hold_class_words(job.hold_class)}" if job.hold_class else "")
    ]
    lines.append(
        f"  team {job.team} · {_size(job)}"
        f" · submitted {clock(job.submitted_ms)} by {job.owner or 'somebody'}{_origin(job)}"
    )
    if job.reason is not None:
        place = f"position {job.position}: " if job.position else ""
        lines.append(f"  {place}{job.reason.text}")
        if job.forecast is not None:
            lines.append(f"  {job.forecast.text}")
        if job.reason.unblock:
            lines.append(f"  {job.reason.unblock}")
    word = (job.checkpoint.unit if job.checkpoint else "") or "step"
    if job.progress is not None:
        of = f" of {job.progress.total_steps}" if job.progress.total_steps else ""
        metrics = dict(job.progress.metrics)
        if metrics.get("epoch") == job.progress.step:
            word = "epoch"
            del metrics["epoch"]
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        lines.append(f"  {word} {job.progress.step}{of}  {numbers}")
    for attempt in job.attempts:
        ended = attempt.ended_text or attempt_words(attempt.state)
        resumed = f", from {word} {attempt.resumed_from_step}" if attempt.resumed_from_step else ""
        if attempt.hibernation_text:
            resumed += f", {attempt.hibernation_text}"
        place = f"{', '.join(attempt.nodes) or '?'}{_workers(job, attempt)}"
        lines.append(f"  attempt {attempt.number} on {place}{resumed}: {ended}")
    lines += [f"  {line}" for line in going_on(job.way_to_go_on)]
    lines += [f"  {line}" for line in shown(job)]
    if job.reports_refused:
        lines.append(f"  {job.reports_refused}")
    # Mostly that of its last attempt, which stands just above.
    if job.ended_text and job.ended_text not in [one.ended_text for one in job.attempts[-1:]]:
        lines.append(f"  {job.ended_text}")
    results_at = _results_of(job)
    return "\n".join([*lines, f"  results: {results_at}"] if results_at else lines)


def _workers(job: models.JobView, attempt: models.AttemptView) -> str:
    """How many an attempt of an elastic job had."""
    many = attempt.workers
    is_elastic = job.request is not None and job.request.max_workers is not None
    return f", {many} worker{'' if many == 1 else 's'}" if is_elastic else ""


def _origin(job: models.JobView) -> str:
    """What it was submitted with, where that is another program's habit, or what it is part of."""
    if job.part_of is not None and job.part_of.number:
        return f", {job.part_of.number} of {job.part_of.kind} {job.part_of.name}"
    origin = job.request.labels.get(ORIGIN_LABEL) if job.request is not None else None
    return f" with {origin}" if origin else ""


def _results_of(job: models.JobView) -> str | None:
    """Where what it makes is or will be; None for who may not fetch it."""
    found = job.results
    if found is None:
        return None
    return found.text if found.path is None else f"{words.files(found.count)} in {found.path}"


def listing(arguments: argparse.Namespace) -> int:
    """List jobs."""
    with connect(arguments) as scheduler:
        answer = _pages(scheduler, arguments)
    rows = (
        (
            job.name,
            job.team,
            job.owner,
            state_words(job.state),
            hold_class_words(job.hold_class),
            format_milli_gpu(job.milli_gpu),
            clock(job.submitted_ms),
            job.reason.text if job.reason else "",
        )
        for job in answer.jobs
    )
    header = ("NAME", "TEAM", "OWNER", "STATE", "CLASS", "GPUS", "SUBMITTED", "WHY")
    text = table(header, rows)
    if not answer.jobs:
        text = _NONE if arguments.all else _NONE_LIVE
    show(answer, text, output=arguments.output)
    return 0


def _pages(scheduler: SchedulerClient, arguments: argparse.Namespace) -> models.JobList:
    """So many jobs as were asked for, newest first, however many pages that takes."""
    found: list[models.JobView] = []
    cursor: str | None = None
    while True:
        page = scheduler.send(
            calls.jobs(
                team=arguments.team,
                owner=arguments.owner,
                live=None if arguments.all else True,
                limit=min(_PAGE, arguments.limit - len(found)),
                cursor=cursor,
            )
        )
        found.extend(page.jobs)
        cursor = page.cursor
        if cursor is None or len(found) >= arguments.limit:
            return models.JobList(jobs=found, cursor=cursor)


def detail(arguments: argparse.Namespace) -> int:
    """Show one job."""
    with connect(arguments) as scheduler:
        job = scheduler.send(calls.job(arguments.job))
        text = describe(job)
        if arguments.output == "text" and job.milli_gpu and job.attempts:
            text += f"\n  {scheduler.send(calls.job_use(job.id)).text}"
        if arguments.output == "text" and job.request is not None and job.request.plan is not None:
            text += f"\n{plan_text(scheduler.send(plan_calls.job_plan(job.id)))}"
    show(job, text, output=arguments.output)
    return 0


def curve(arguments: argparse.Namespace) -> int:
    """Print a job's metric curve, a line per step."""
    with connect(arguments) as scheduler:
        found = scheduler.send(calls.curve(arguments.job, arguments.source))
    show(found, _curve_text(found, arguments.job), output=arguments.output)
    return 0


def _curve_text(found: models.Curve, job: str) -> str:
    if not found.points:
        others = f" There is one from: {', '.join(found.sources)}." if found.sources else ""
        return f"No curve of {job} is known{'' if others else ' yet'}.{others or _WHERE_CURVES_COME_FROM}"
    unit = next((point.unit for point in reversed(found.points) if point.unit), "step")
    if all(point.metrics.get("epoch") == point.step for point in found.points):
        unit = "epoch"
    counted = {"epoch"} & {unit}
    names = dict.fromkeys(name for point in found.points for name in point.metrics)
    shown = [name for name in names if name not in counted]
    rows = [
        (
            str(point.attempt),
            # Parts of epochs are counted in thousandths: the metric has them as they are.
            _number(point.metrics[unit]) if counted & {*point.metrics} else str(point.step),
            *(_number(point.metrics.get(name)) for name in shown),
        )
        for point in found.points
    ]
    others = " and ".join(source for source in found.sources if source != found.source)
    also = f" (--source: there is also {others})" if others else ""
    return f"source: {found.source}{also}\n" + table(("ATTEMPT", unit.upper(), *shown), rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def why(arguments: argparse.Namespace) -> int:
    """Say why a job or a ticket waits, when it will likely start, and what would start it."""
    with connect(arguments) as scheduler:
        try:
            answer = scheduler.send(calls.why(arguments.job))
        except NotFound:
            if not _ID.fullmatch(arguments.job):
                raise
            answer = scheduler.send(calls.why_lease(arguments.job))
    show(
        answer,
        "\n".join(_why_lines(answer, now_ms=time.time_ns() // 1_000_000)),
        output=arguments.output,
    )
    return 0


def _why_lines(answer: models.Why, *, now_ms: int) -> Iterator[str]:
    name = answer.name or "The notebook"
    if answer.state in _FINAL:
        yield answer.text
        if answer.name:
            yield f"What it printed: gpucommons logs {answer.name}"
            yield f"What it wrote: gpucommons results {answer.name}"
        return
    if answer.reason is None:
        yield answer.text or f"{name} does not wait: it is {state_words(answer.state)}."
        yield from going_on(answer.way_to_go_on)
        return
    yield f"{name} waits: {answer.reason.text}"
    if answer.reason.blocker is not None:
        yield answer.reason.blocker.text
        if answer.reason.blocker.command:
            yield f"  {answer.reason.blocker.command}"
    place = f"Position {answer.position}. " if answer.position else ""
    likely = "" if answer.forecast is None else answer.forecast.text
    if place or likely:
        yield f"{place}{likely}".strip()
    if answer.reason.unblock and answer.reason.unblock not in [way.text for way in answer.ways]:
        yield answer.reason.unblock
    for way in answer.ways:
        yield way.text
    yield from going_on(answer.way_to_go_on)
    if answer.at_latest_ms is not None:
        latest = by(answer.at_latest_ms, now_ms)
        yield f"Starts by {latest}, even if nothing ends before its time limit."


def act(arguments: argparse.Namespace) -> int:
    """Cancel or resume a job, or run it again."""
    with connect(arguments) as scheduler:
        if arguments.command == "again":
            job = scheduler.send(calls.again(arguments.job, from_here=arguments.from_here))
        else:
            call = {"cancel": calls.cancel, "resume": calls.resume}[arguments.command]
            job = scheduler.send(call(arguments.job))
    show(job, f"{job.name}  {state_words(job.state)}", output=arguments.output)
    return 0


def release(arguments: argparse.Namespace) -> int:
    """Give an own notebook's GPU back; its server starts again without one."""
    with connect(arguments) as scheduler:
        lease = scheduler.send(calls.lease(_lease_id(arguments.lease)))
        if lease.state == "granted":
            lease = scheduler.send(calls.end_lease(lease.id, models.EndReport(why="left")))
        else:
            lease = scheduler.send(calls.drop(lease.id))
    text = f"{lease.user}: the GPU of notebook {lease.server_name or 'default'} is given back"
    show(lease, text, output=arguments.output)
    return 0


def _lease_id(text: str) -> str:
    try:
        return admin.lease_id(text)
    except argparse.ArgumentTypeError as error:
        raise BadRequest(str(error)) from error


def pause(arguments: argparse.Namespace) -> int:
    """Pause a job: at a terminal after saying what that costs, else with that in the answer."""
    with connect(arguments) as scheduler:
        before = scheduler.send(calls.job(arguments.job))
        way = before.way_to_go_on
        cost = "" if way is None or way.repeats_ms is None else way.stop_text
        if cost and not arguments.yes and sys.stdin.isatty():
            sys.stderr.write(printable(f"{cost}\nPause {before.name}? [y/N] "))
            if sys.stdin.readline().strip().lower() not in _YES:
                show(
                    before,
                    f"{before.name}  {state_words(before.state)}: not paused",
                    output=arguments.output,
                )
                return 0
        job = scheduler.send(calls.pause(before.id))
    text = f"{job.name}  {state_words(job.state)}"
    show(job, f"{text}\n  {cost}" if cost else text, output=arguments.output)
    return 0


def resize(arguments: argparse.Namespace) -> int:
    """Give a waiting job another size, or a notebook in use another memory limit."""
    sized = arguments.gpus is not None or arguments.workers is not None
    if sized == (arguments.gib is not None):
        message = (
            "Say what changes: gpucommons resize JOB --gpus N (or --workers N) for a job that waits,"
            " gpucommons resize LEASE GIB for the GPU memory of a notebook."
        )
        raise BadRequest(message)
    if not sized:
        return admin.resize(arguments)
    gpus = None if arguments.gpus is None else parse_milli_gpu(arguments.gpus)
    size = models.JobSize(milli_gpu=gpus, workers=arguments.workers)
    with connect(arguments) as scheduler:
        job = scheduler.send(calls.resize_job(arguments.job, size))
    text = f"{job.name}  {state_words(job.state)}  {_size(job)}"
    show(job, text, output=arguments.output)
    return 0


def results(arguments: argparse.Namespace) -> int:
    """Say where a job's files are, or bring them: to its folder, or to another one."""
    with connect(arguments) as scheduler:
        job = _brought(scheduler, arguments.job)
        found = job.results
        if arguments.to is None and found is not None and found.state in ("here", "none"):
            _show_results(job, found, arguments.output)
            return 0
        home, below = _place_for(job, arguments.to)
        count = fetch_results(scheduler, job, home, below)
        if arguments.to is None and count:
            mark_results(home, below, job)
    folder = home / below
    show(
        {"job": job.name, "folder": str(folder), "files": count},
        f"{count} files of {job.name} lie in {folder}",
        output=arguments.output,
    )
    return 0


def _brought(scheduler: SchedulerClient, ref: str) -> models.JobView:
    """The job, once its files are not on their way any more."""
    until_s = time.monotonic() + _COPYING_S
    while True:
        job = scheduler.send(calls.job(ref))
        if job.results is None or job.results.state != "copying" or time.monotonic() > until_s:
            return job
        time.sleep(_LOOK_S)


def _show_results(job: models.JobView, found: models.ResultsView, output: str) -> None:
    count = words.files(found.count)
    lines = [found.text if found.path is None else f"{count} of {job.name} in {found.path}"]
    lines += [f"  {file.path}  {words.size(file.size_bytes)}" for file in found.files[:_NAMED]]
    if found.count > _NAMED:
        lines.append(f"  and {found.count - _NAMED:,} more")
    lines += [f"  not copied: {one.path} {one.reason}" for one in found.not_brought[:_NAMED]]
    answer = {"job": job.name, "folder": found.path, "files": found.count}
    show(answer, "\n".join(lines), output=output)


def _place_for(job: models.JobView, to: Path | None) -> tuple[Path, str]:
    """A folder that exists, and where below it.

    Raises
    ------
    BadRequest
        When there is nothing to bring yet, or it could not be copied to the job's own folder.
    """
    if to is not None:
        to.mkdir(parents=True, exist_ok=True)
        return to, "."
    found = job.results
    if found is None or found.folder is None or found.state != "away":
        message = found.text if found is not None else f"The files of {job.name} are its owner's."
        raise BadRequest(message)
    return Path.home(), found.folder
