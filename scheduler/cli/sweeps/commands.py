"""Submit, list and steer sweeps."""

from __future__ import annotations

import argparse
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.options import add_max_mib
from gpucommons.scheduler.cli.present import clock, printable, say, show, table
from gpucommons.scheduler.cli.submit.snapshot_exclusions import told
from gpucommons.scheduler.cli.sweeps.study import write_study
from gpucommons.scheduler.client import calls, sweep_calls
from gpucommons.scheduler.client.documents.jobs import Bounds, request_of_mapping
from gpucommons.scheduler.client.documents.mappings import mapping_in, read_content
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL
from gpucommons.scheduler.models.text.yaml_errors import field_sentences

#: Fields of a sweep's file; all others are its job's.
_OWN = (
    "space",
    "given",
    "objective",
    "budget",
    "sampler",
    "early_stopping",
    "max_parallel",
    "values_as",
    "in_guarantee",
)
#: Of trials, where they are called otherwise than on screens.
_STATES = {"drawn": "waiting", "live": "running", "held": "paused", "done": "finished"}
_SHOWN = 12
_IMPROVEMENTS_SHOWN = 5
#: Ten years.
_MOST_HOURS = 87_600
_MILLI_GPU_S_PER_HOUR = 3_600_000


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``sweep``."""
    own = commands.add_parser(
        "sweep",
        help="many jobs over a search space or a list: submit, list, show, stop, add, export",
    ).add_subparsers(required=True)
    new = own.add_parser("submit", parents=[shared], help="a YAML file becomes a sweep")
    new.add_argument(
        "file", type=Path, help="a job's fields (run, roles, …), with space and budget"
    )
    new.add_argument("--team", help="who pays; default: the file's, else your only team")
    add_max_mib(new)
    new.set_defaults(run=submit)
    own.add_parser("list", parents=[shared], help="those you may see").set_defaults(run=listing)
    one = own.add_parser(
        "show", parents=[shared], help="the best trials, and what became of others"
    )
    one.add_argument("sweep", metavar="NAME", help="name or id")
    one.set_defaults(run=detail)
    end = own.add_parser("stop", parents=[shared], help="cancel its jobs that are not over")
    end.add_argument("sweep", metavar="NAME", help="name or id")
    end.set_defaults(run=stop)
    more = own.add_parser("add", parents=[shared], help="add to its budget")
    more.add_argument("sweep", metavar="NAME", help="name or id")
    more.add_argument("--trials", type=int, default=0, metavar="N")
    more.add_argument("--gpu-hours", type=float, default=0, metavar="H")
    more.add_argument("--hours", type=float, metavar="H", help="it ends so many hours from now")
    more.set_defaults(run=add)
    export = own.add_parser(
        "export", parents=[shared], help="write its trials as a study of Optuna's"
    )
    export.add_argument("sweep", metavar="NAME", help="name or id")
    export.add_argument("storage", help="as Optuna names it: sqlite:///study.db")
    export.set_defaults(run=to_study)


def submit(arguments: argparse.Namespace) -> int:
    """Pack what the file runs, and submit it."""
    content = read_content(arguments.file)
    of = "a sweep's fields (run, space, objective, budget, …)"
    document = mapping_in(content, arguments.file, of=of)
    if arguments.team is not None:
        document["team"] = arguments.team
    own = {name: document.pop(name) for name in _OWN if name in document}
    path, bounds = arguments.file, Bounds(max_bytes=arguments.max_mib << 20, beside=_OWN)
    runs, job, packed = request_of_mapping(path, document, where=str(path), bounds=bounds)
    if runs is not None and packed is not None:
        say(*told(packed, runs, job))
    try:
        request = models.SweepRequest.model_validate({"job": job, **own})
    except ValidationError as error:
        message = f"{arguments.file}: {field_sentences(content, error)}"
        raise BadRequest(message) from None
    with connect(arguments) as scheduler:
        if packed is not None and job.snapshot is not None:
            scheduler.send(calls.put_snapshot(job.snapshot, packed.content))
        view = scheduler.send(sweep_calls.submit_sweep(request, key=str(uuid.uuid4())))
    say(*(f"draws {one}" for one in view.drawn))
    show(view, f"{view.name} submitted: {_count(view)}", output=arguments.output)
    return 0


def listing(arguments: argparse.Namespace) -> int:
    """All that the caller may see."""
    with connect(arguments) as scheduler:
        found = scheduler.send(sweep_calls.sweeps())
        while found.cursor is not None:
            more = scheduler.send(sweep_calls.sweeps(found.cursor))
            found = more.model_copy(update={"sweeps": [*found.sweeps, *more.sweeps]})
    rows = [
        (one.name, one.kind, one.owner, one.team, _count(one), _best(one), _state(one))
        for one in found.sweeps
    ]
    header = ("NAME", "KIND", "OWNER", "TEAM", "JOBS", "BEST", "STATE")
    show(found, table(header, rows), output=arguments.output)
    return 0


def detail(arguments: argparse.Namespace) -> int:
    """One sweep."""
    with connect(arguments) as scheduler:
        view = scheduler.send(sweep_calls.sweep(arguments.sweep))
    show(view, describe(view), output=arguments.output)
    return 0


def stop(arguments: argparse.Namespace) -> int:
    """End it."""
    with connect(arguments) as scheduler:
        view = scheduler.send(sweep_calls.stop_sweep(arguments.sweep))
    ended = (
        "was over already" if view.ended_ms is not None else "is stopped: its jobs are cancelled"
    )
    show(view, f"{view.name} {ended}", output=arguments.output)
    return 0


def add(arguments: argparse.Namespace) -> int:
    """Add to its budget."""
    fields = {
        "trials": arguments.trials,
        "gpu_hours": arguments.gpu_hours,
        "until_ms": _until_ms(arguments.hours),
    }
    try:
        more = models.MoreBudgetRequest.model_validate(fields)
    except ValidationError as error:
        raise BadRequest(f"{field_sentences('', error)}.") from None
    with connect(arguments) as scheduler:
        call = sweep_calls.add_to_budget(arguments.sweep, more, key=str(uuid.uuid4()))
        view = scheduler.send(call)
    show(view, f"{view.name} goes on: {_count(view)}", output=arguments.output)
    return 0


def _until_ms(hours: float | None) -> int | None:
    if hours is None:
        return None
    if not 0 < hours <= _MOST_HOURS:  # what is no number is neither
        message = f"--hours must be more than 0 and at most {_MOST_HOURS:,}: it ends so many hours from now."
        raise BadRequest(message)
    return round((datetime.now(UTC) + timedelta(hours=hours)).timestamp() * 1000)


def to_study(arguments: argparse.Namespace) -> int:
    """Write it for Optuna's own tools."""
    with connect(arguments) as scheduler:
        view = scheduler.send(sweep_calls.sweep(arguments.sweep))
    count = write_study(view, arguments.storage)
    show(view, f"{count} trials of {view.name} are in {arguments.storage}", output=arguments.output)
    return 0


def _origin(view: models.SweepView) -> str:
    """What it was submitted with, where that is another program's habit: an array of `sbatch`."""
    origin = view.request.labels.get(ORIGIN_LABEL) if view.request is not None else None
    return f" with {origin}" if origin else ""


def describe(view: models.SweepView) -> str:
    """A sweep in lines."""
    lines = [
        f"{view.name}  {_state(view)} · {_count(view)}",
        f"  team {view.team} · by {view.owner or 'somebody'}{_origin(view)} · {_gpu_hours(view)}",
    ]
    if view.text:
        lines.append(f"  {view.text}")
    if view.best is not None:
        values = "  ".join(f"{name} {_number(value)}" for name, value in view.best.values.items())
        lines.append(
            f"  best: trial {view.best.number}, {view.metric} {view.best.best:.4g} at step"
            f" {view.best.best_step}  {values}"
        )
    lines += _improvements(view)
    lines += [
        f"  rung {number} · step {rung.step}: {rung.went_on} of {rung.came} went on"
        for number, rung in enumerate(view.rungs, 1)
    ]
    for one in view.trials[:_SHOWN]:
        told = "" if one.best is None else f"  {view.metric} {one.best:.4g}"
        text = f"  {one.text}" if one.text and one.state == "failed" else ""
        state = _STATES.get(one.state, one.state)
        lines.append(f"  {one.number:>4}  {state:<8}{told}  {one.job_name}{text}")
    if len(view.trials) > _SHOWN:
        lines.append(f"  and {len(view.trials) - _SHOWN} more (--output json)")
    return printable("\n".join(lines))


def _improvements(view: models.SweepView) -> list[str]:
    """How the best came to be, the newest last: a value stays here though its trial has beaten it since."""
    newest = view.improvements[-_IMPROVEMENTS_SHOWN:]
    before = len(view.improvements) - len(newest)
    lines = [f"  best so far: {before} before these (--output json)"] if before else []
    lines += [
        f"  best so far from {clock(one.at_ms)}: {view.metric} {one.value:.4g}, trial {one.trial}"
        for one in newest
    ]
    if view.improvements_thinned:
        lines.append("  of its improvements those that change the line least are left out")
    if view.improvements_begun_late:
        lines.append("  an earlier release began it: until then only each trial's best is known")
    return lines


def _state(view: models.SweepView) -> str:
    if view.ended_ms is not None:
        return "over"
    return "running" if view.running else "waiting"


def _count(view: models.SweepView) -> str:
    """``36 of 40 trials: 6 running, 2 finished, 28 paused at a rung``."""
    numbers = [
        (view.running, "running"),
        (view.waiting, "waiting"),
        (view.paused, "paused"),
        (view.done, "finished"),
        (view.failed, "failed"),
    ]
    if view.ended_ms is not None:
        others = view.begun - sum(count for count, _ in numbers)
        numbers.append((others, "ended with it"))
    what = "jobs" if view.kind == "map" else "trials"
    parts = ", ".join(f"{count} {word}" for count, word in numbers if count)
    return f"{view.begun} of {view.trials_of} {what}{': ' if parts else ''}{parts}"


def _gpu_hours(view: models.SweepView) -> str:
    used = f"{view.milli_gpu_s / _MILLI_GPU_S_PER_HOUR:.2g}"
    if view.budget_milli_gpu_s is None:
        return f"{used} GPU-hours"
    return f"{used} of {view.budget_milli_gpu_s / _MILLI_GPU_S_PER_HOUR:g} GPU-hours"


def _best(view: models.SweepView) -> str:
    return "" if view.best is None else f"{view.metric} {view.best.best:.4g}"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
