"""Run, list and steer pipelines."""

from __future__ import annotations

import argparse
import uuid
from datetime import datetime
from pathlib import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.options import add_max_mib
from gpucommons.scheduler.cli.owned_names import (
    PIPELINE,
    add_owned_name,
    shown,
    to_change,
    to_look_at,
)
from gpucommons.scheduler.cli.present import printable, say, show, table
from gpucommons.scheduler.cli.submit.snapshot_exclusions import told
from gpucommons.scheduler.client import calls, pipeline_calls
from gpucommons.scheduler.client.documents.jobs import Bounds
from gpucommons.scheduler.client.documents.pipelines import read_pipeline, steps_in_order
from gpucommons.scheduler.models.text.state_words import JOB_WORDS

_DEFAULT_FILE = "pipeline.yaml"


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``pipeline``."""
    own = commands.add_parser(
        "pipeline", help="jobs that belong together: run, list, show, retry, cancel"
    ).add_subparsers(required=True)
    start = own.add_parser("run", parents=[shared], help="run what a file describes")
    start.add_argument("file", nargs="?", type=Path, default=Path(_DEFAULT_FILE))
    start.add_argument("--team", help="who pays; default: the file's, else your only team")
    add_max_mib(start)
    start.set_defaults(run=run)
    own.add_parser("list", parents=[shared], help="those you may see").set_defaults(run=listing)
    one = own.add_parser("show", parents=[shared], help="the steps, and how far they are")
    one.set_defaults(run=detail)
    again = own.add_parser(
        "retry", parents=[shared], help="begin anew what did not come about; what succeeded stays"
    )
    again.set_defaults(run=steer, call=pipeline_calls.retry_pipeline, word="begins anew")
    end = own.add_parser("cancel", parents=[shared], help="end it, or a step and what needs it")
    end.set_defaults(run=steer, call=pipeline_calls.cancel_pipeline, word="is being cancelled")
    add_owned_name(one, "pipeline", looks=True)
    for command in (again, end):
        add_owned_name(command, "pipeline")
        command.add_argument("--step", help="from this one on (default: all that it can mean)")


def run(arguments: argparse.Namespace) -> int:
    """Run a pipeline."""
    bounds = Bounds(max_bytes=arguments.max_mib << 20)
    read = read_pipeline(arguments.file, team=arguments.team, bounds=bounds)
    steps_in_order(read.request)  # a cycle is said before anything is uploaded
    for folder in read.folders.values():
        say(*told(folder.packed, folder.first, folder.request))
    with connect(arguments) as scheduler:
        for sha256, folder in read.folders.items():
            scheduler.send(calls.put_snapshot(sha256, folder.packed.content))
        call = pipeline_calls.submit_pipeline(read.request, key=str(uuid.uuid4()))
        view = scheduler.send(call)
    show(
        view,
        f"{describe(view)}\nlook with: gpucommons pipeline show {view.name}",
        output=arguments.output,
    )
    return 0


def listing(arguments: argparse.Namespace) -> int:
    """All that the caller may see, newest first."""
    with connect(arguments) as scheduler:
        found = scheduler.send(pipeline_calls.pipelines())
        while found.cursor is not None:
            more = scheduler.send(pipeline_calls.pipelines(found.cursor))
            found = more.model_copy(update={"pipelines": [*found.pipelines, *more.pipelines]})
    rows = [
        (one.name, one.owner, one.team, _state(one), _done(one), _at(one.submitted_ms))
        for one in found.pipelines
    ]
    header = ("NAME", "OWNER", "TEAM", "STATE", "STEPS DONE", "SUBMITTED")
    show(found, table(header, rows), output=arguments.output)
    return 0


def detail(arguments: argparse.Namespace) -> int:
    """One pipeline."""
    with connect(arguments) as scheduler:
        view = to_look_at(scheduler, PIPELINE, arguments.pipeline)
    show(view, describe(view), output=arguments.output)
    return 0


def steer(arguments: argparse.Namespace) -> int:
    """Retry or cancel one."""
    with connect(arguments) as scheduler:
        owner, name = to_change(scheduler, PIPELINE, arguments.pipeline)
        view = scheduler.send(arguments.call(owner, name, arguments.step))
    what = shown(view) if arguments.step is None else _step_of(view, arguments.step)
    show(view, f"{what} {arguments.word}", output=arguments.output)
    return 0


def _step_of(view: models.PipelineView, step: str) -> str:
    return step if view.mine else f"{step} of {shown(view)}"


def describe(view: models.PipelineView) -> str:
    """A pipeline in lines: a step, its job, and why it does not run."""
    lines = [f"{shown(view)}  {_state(view)} · {_done(view)} steps done · team {view.team}"]
    width = max(len(step.name) for step in view.steps)
    wide = max(9, *(len(_step_state(step)) for step in view.steps))
    for step in view.steps:
        needs = [
            name if how == "ok" else f"{name} ({how})" for name, how in sorted(step.after.items())
        ]
        words = [step.job_name or step.what, f"after {', '.join(needs)}" if needs else ""]
        if step.state == "failed":
            words.append(step.ended_text)
        words.append(step.text)
        said = " · ".join(word for word in words if word)
        lines.append(f"  {step.name.ljust(width)}  {_step_state(step).ljust(wide)}  {said}")
        lines += [
            f"  {' ' * (width + wide)}    reads {one.step}/{one.path} as {one.to}"
            for one in step.inputs
        ]
    if view.retry_from is not None and view.mine:
        lines.append(f"retry from {view.retry_from}: gpucommons pipeline retry {view.name}")
    return printable("\n".join(lines))


def _state(view: models.PipelineView) -> str:
    """As its page says it."""
    if view.state == "failed" and view.retry_from:
        return f"failed at {view.retry_from}"
    return JOB_WORDS.get(view.state, view.state)


def _step_state(step: models.StepView) -> str:
    """As the page says it."""
    if step.state != "submitted":
        return JOB_WORDS.get(step.state, step.state)
    # One that has begun was stopped for another, and goes on.
    waits = "in line" if step.started_ms is None else "stopped, in line"
    own = {"queued": waits, "nominated": waits, "pausing": "stopping"}
    job = step.job_state or ""
    return own.get(job) or JOB_WORDS.get(job, waits)


def _done(view: models.PipelineView) -> str:
    done = sum(step.state == "succeeded" for step in view.steps)
    return f"{done} of {len(view.steps)}"


def _at(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000).astimezone():%a %d %b %H:%M}"
