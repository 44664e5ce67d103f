"""``gpucommons jobs`` and ``show``: jobs as rows, and one job in a few lines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.options import positive
from gpucommons.scheduler.cli.plans.past import plan_text
from gpucommons.scheduler.cli.present import clock, going_on, show, shown, table
from gpucommons.scheduler.client import SchedulerClient, calls, plan_calls
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL
from gpucommons.scheduler.models.text.state_words import (
    attempt_words,
    hold_class_words,
    state_words,
)
from gpucommons.scheduler.models.text.step_words import step_word
from gpucommons.scheduler.working_folder import words

#: The API gives so many at once.
_PAGE = 500
#: In place of an empty list.
_NONE_LIVE = "No job waits or runs. Those that are over too: gpucommons jobs --all."
_NONE = "There is no job yet."


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``jobs`` and ``show``."""
    rows = commands.add_parser("jobs", parents=[shared], help="list jobs")
    rows.add_argument("--all", action="store_true", help="finished ones too")
    rows.add_argument("--team")
    rows.add_argument("--owner")
    rows.add_argument("--limit", type=positive, default=100, metavar="N")
    rows.set_defaults(run=listing)
    one = commands.add_parser("show", parents=[shared], help="show one job")
    one.add_argument("job", help="name or id")
    one.set_defaults(run=detail)


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
            use = scheduler.send(calls.job_use(job.id))
            text += "".join(f"\n  {line}" for line in (use.borrowed_text, use.text) if line)
        if arguments.output == "text" and job.request is not None and job.request.plan is not None:
            text += f"\n{plan_text(scheduler.send(plan_calls.job_plan(job.id)))}"
    show(job, text, output=arguments.output)
    return 0


def describe(job: models.JobView) -> str:
    """One job in a few lines."""
    lines = [
        f"{job.name}  {state_words(job.state)}"
        + (f" · {hold_class_words(job.hold_class)}" if job.hold_class else "")
        + (" · simulated" if job.simulated else "")
    ]
    lines.append(
        f"  team {job.team} · {size(job)}"
        f" · submitted {clock(job.submitted_ms)} by {job.owner or 'somebody'}{_origin(job)}"
    )
    lines += _why_it_waits(job)
    saved_as = word = (job.checkpoint.unit if job.checkpoint else "") or "step"
    if job.progress is not None:
        of = f" of {job.progress.total_steps}" if job.progress.total_steps else ""
        metrics, step = dict(job.progress.metrics), job.progress.step
        word = step_word(job.progress.unit, step, metrics, saved_as=saved_as)
        # Parts of epochs are counted in thousandths: the metric has them as they are.
        at = f"{metrics.pop(word):g}" if word == "epoch" and word in metrics else str(step)
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        lines.append(f"  {word} {at}{of}  {numbers}")
    for attempt in job.attempts:
        ended = attempt.ended_text or attempt_words(attempt.state)
        resumed = f", from {word} {attempt.resumed_from_step}" if attempt.resumed_from_step else ""
        if attempt.hibernation_text:
            resumed += f", {attempt.hibernation_text}"
        place = f"{', '.join(attempt.nodes) or '?'}{_workers(job, attempt)}{_tightness(attempt)}"
        lines.append(f"  attempt {attempt.number} on {place}{resumed}: {ended}")
        lines += [f"    {_slow(one)}" for one in attempt.slow]
    lines += [f"  {line}" for line in going_on(job.way_to_go_on)]
    lines += [f"  {line}" for line in shown(job)]
    lines += [f"  warning: {warning}" for warning in job.warnings]
    if job.reports_refused:
        lines.append(f"  {job.reports_refused}")
    # Mostly that of its last attempt, which stands just above.
    if job.ended_text and job.ended_text not in [one.ended_text for one in job.attempts[-1:]]:
        lines.append(f"  {job.ended_text}")
    results_at = _results_of(job)
    return "\n".join([*lines, f"  results: {results_at}"] if results_at else lines)


def size(job: models.JobView) -> str:
    """``½ GPU``, ``2 × 1 GPU``, ``CPU only``."""
    if not job.milli_gpu:
        return "CPU only" if job.workers == 1 else f"{job.workers} workers, CPU only"
    each = format_gpus(job.milli_gpu // job.workers)
    size = each if job.workers == 1 else f"{job.workers} × {each}"
    asked = job.request
    if asked is None or asked.min_workers is None or asked.min_workers == asked.max_workers:
        return size
    return f"{size}, {asked.min_workers} to {asked.max_workers} workers"


def _why_it_waits(job: models.JobView) -> Iterator[str]:
    if job.reason is None:
        return
    place = f"position {job.position}: " if job.position else ""
    yield f"  {place}{job.reason.text}"
    if job.forecast is not None:
        yield f"  {job.forecast.text}"
    if job.reason.unblock:
        yield f"  {job.reason.unblock}"


def _tightness(attempt: models.AttemptView) -> str:
    """How its GPUs lie together, where it has several."""
    return f" ({attempt.tightness.text})" if attempt.tightness is not None else ""


def _slow(place: models.SlowPlaceView) -> str:
    where, until = " and ".join(place.nodes), clock(place.until_ms)
    together, then = (
        (" together", f"until {until} a job on several nodes first looks for others")
        if len(place.nodes) > 1
        else ("", f"until {until} another of equal nodes is taken")
    )
    return (
        f"steps take {place.percent} % longer on {where}{together} than elsewhere, known since"
        f" {clock(place.since_ms)}; {then}"
    )


def _workers(job: models.JobView, attempt: models.AttemptView) -> str:
    """How many an attempt of an elastic job had."""
    many = attempt.workers
    is_elastic = job.request is not None and job.request.max_workers is not None
    return f", {many} worker{'' if many == 1 else 's'}" if is_elastic else ""


def _origin(job: models.JobView) -> str:
    """What it was submitted with, where that is another program's habit, or what it is part of."""
    if job.part_of is not None and (job.part_of.number or job.part_of.kind == "map"):
        return f", {job.part_of.number} of {job.part_of.kind} {job.part_of.name}"
    origin = job.request.labels.get(ORIGIN_LABEL) if job.request is not None else None
    return f" with {origin}" if origin else ""


def _results_of(job: models.JobView) -> str | None:
    """Where what it makes is or will be; None for who may not fetch it."""
    found = job.results
    if found is None:
        return None
    return found.text if found.path is None else f"{words.files(found.count)} in {found.path}"
