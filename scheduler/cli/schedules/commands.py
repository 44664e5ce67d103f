"""Write, list and steer schedules."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect, owner_and_name
from gpucommons.scheduler.cli.present import printable, show, table
from gpucommons.scheduler.client import SchedulerClient, calls, schedule_calls
from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.models.fields import base_name

#: More in a row are not counted one by one.
_COUNTED = 1000
_LOCAL_TIME = Path("/etc/localtime")
_STEERING = {
    "run": (schedule_calls.run_schedule, "starts a run within seconds"),
    "suspend": (schedule_calls.suspend_schedule, "suspended: no more runs start"),
    "resume": (schedule_calls.resume_schedule, "goes on from its next time"),
    "remove": (schedule_calls.drop_schedule, "removed; its jobs stay"),
}


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``schedule``."""
    own = commands.add_parser(
        "schedule",
        help="jobs that start again and again: list, show, repeat, run, suspend, resume, remove",
        description="`gpucommons submit --schedule CRON …` makes one of a script, `repeat` of a job"
        " that ran.",
    ).add_subparsers(required=True)
    own.add_parser("list", parents=[shared], help="those you may see").set_defaults(run=listing)
    one = own.add_parser(
        "show", parents=[shared], help="the next times, and what became of the last"
    )
    one.add_argument("schedule", metavar="NAME", help="NAME, or OWNER/NAME")
    one.set_defaults(run=detail)
    again = own.add_parser("repeat", parents=[shared], help="start a job that ran again and again")
    again.add_argument("job", help="name or id; its files and environment stay as they were")
    again.add_argument("--name", help="of the schedule (default: the job's without its number)")
    add_when(again, needed=True)
    again.set_defaults(run=repeat)
    for name, (_, text) in _STEERING.items():
        command = own.add_parser(name, parents=[shared], help=text)
        command.add_argument("schedule", metavar="NAME", help="NAME, or OWNER/NAME")
        command.set_defaults(run=steer, steering=name)


def add_when(command: argparse.ArgumentParser, *, needed: bool) -> None:
    """The options that say when; their names are Kubernetes' CronJob's."""
    command.add_argument(
        "--schedule",
        required=needed,
        metavar="CRON",
        help='start it again and again: minute, hour, day, month, weekday, as in "0 2 * * *"; or @daily',
    )
    command.add_argument(
        "--time-zone",
        metavar="NAME",
        help="such as Europe/Berlin (default: this machine's, or UTC)",
    )
    command.add_argument(
        "--concurrency-policy",
        choices=("Allow", "Forbid", "Replace"),
        help="when a run is due while an earlier one goes on (default: Forbid, it is skipped)",
    )
    command.add_argument(
        "--starting-deadline",
        type=int,
        metavar="SECONDS",
        help="a run that could not start within so long after its time is missed",
    )
    command.add_argument(
        "--overwrite",
        action="store_true",
        help="where you have a schedule of that name: write it anew, its runs stay on record",
    )
    command.add_argument(
        "--in-guarantee",
        action="store_true",
        help="its runs use the team's guarantee, too, and not borrowed GPUs alone",
    )


def check_when(arguments: argparse.Namespace) -> None:
    """Refuse what says when for a job that starts now.

    Raises
    ------
    BadRequest
        With what to add.
    """
    if arguments.schedule is not None and arguments.follow:
        raise BadRequest("--follow: nothing starts now. Look with `gpucommons schedule show`.")
    options = ("overwrite", "time_zone", "concurrency_policy", "starting_deadline", "in_guarantee")
    given = [f"--{name.replace('_', '-')}" for name in options if getattr(arguments, name)]
    if arguments.schedule is None and given:
        message = f"{', '.join(given)}: of a schedule alone. Say when with --schedule."
        raise BadRequest(message)


def put(
    scheduler: SchedulerClient,
    arguments: argparse.Namespace,
    name: str,
    *,
    job: models.JobRequest | None = None,
    of_job: str | None = None,
) -> int:
    """Make a schedule of a job that was packed, or of one that ran, and say when it comes."""
    asked = {
        "schedule": arguments.schedule,
        "time_zone": arguments.time_zone or local_zone(),
        "concurrency_policy": arguments.concurrency_policy,
        "starting_deadline_s": arguments.starting_deadline,
        "repeat": of_job,
        "kind": "training" if arguments.in_guarantee else None,
    }
    request = models.ScheduleRequest.model_validate(
        {"job": job, **{field: value for field, value in asked.items() if value is not None}}
    )
    owner = scheduler.send(calls.whoami()).name
    if not arguments.overwrite:
        _check_is_new(scheduler, owner, name)
    view = scheduler.send(schedule_calls.put_schedule(owner, name, request))
    show(view, f"{describe(view)}\n  no run was started now", output=arguments.output)
    return 0


def _check_is_new(scheduler: SchedulerClient, owner: str, name: str) -> None:
    """Two scripts may have one name: none replaces the other unasked."""
    try:
        known = scheduler.send(schedule_calls.schedule(owner, name))
    except NotFound:
        return
    message = (
        f"You have a schedule {name} already ({known.schedule}, {known.what}): choose another --name,"
        " or write it anew with --overwrite."
    )
    raise BadRequest(message)


def repeat(arguments: argparse.Namespace) -> int:
    """Make a schedule of a job that ran."""
    with connect(arguments) as scheduler:
        job = scheduler.send(calls.job(arguments.job))
        return put(scheduler, arguments, arguments.name or base_name(job.name), of_job=job.id)


def listing(arguments: argparse.Namespace) -> int:
    """All that the caller may see."""
    with connect(arguments) as scheduler:
        found = scheduler.send(schedule_calls.schedules())
        while found.cursor is not None:
            more = scheduler.send(schedule_calls.schedules(found.cursor))
            found = more.model_copy(update={"schedules": [*found.schedules, *more.schedules]})
    rows = [
        (one.name, one.owner, one.team, one.schedule, one.time_zone, _next(one), _last(one))
        for one in found.schedules
    ]
    header = ("NAME", "OWNER", "TEAM", "SCHEDULE", "TIME ZONE", "NEXT", "LAST")
    show(found, table(header, rows), output=arguments.output)
    return 0


def detail(arguments: argparse.Namespace) -> int:
    """One schedule."""
    with connect(arguments) as scheduler:
        view = scheduler.send(
            schedule_calls.schedule(*owner_and_name(scheduler, arguments.schedule))
        )
    show(view, describe(view), output=arguments.output)
    return 0


def steer(arguments: argparse.Namespace) -> int:
    """Suspend, resume or remove one."""
    call, text = _STEERING[arguments.steering]
    with connect(arguments) as scheduler:
        view = scheduler.send(call(*owner_and_name(scheduler, arguments.schedule)))
    show(view, f"{view.name} {text}", output=arguments.output)
    return 0


def describe(view: models.ScheduleView) -> str:
    """A schedule in lines."""
    who = [f"team {view.team}", f"by {view.owner}"]
    if "CPU only" not in view.what and view.kind in _CLASSES:
        who.append(_CLASSES[view.kind])
    who.append(f"while a run goes on: {_WHILE[view.concurrency_policy]}")
    lines = [
        f"{view.name}  {view.schedule} {view.time_zone}{_suspended(view)}",
        f"  {view.what}, from the files as they were when it was written",
        f"  {' · '.join(who)}",
    ]
    if view.next_ms:
        lines.append(f"  next: {', '.join(_at(one, view) for one in view.next_ms)}")
    if view.asked:
        lines.append("  a run was asked for and starts as soon as the scheduler looks")
    if view.hindrance:
        lines.append(f"  a run is due and waits: {view.hindrance}")
    return printable("\n".join([*lines, *_runs(view)]))


def _suspended(view: models.ScheduleView) -> str:
    if not view.suspend:
        return ""
    return " · suspended by a lead or an admin" if view.held else " · suspended"


_CLASSES = {
    "retrain": "on borrowed GPUs, unless the team's policy says otherwise",
    "training": "on guaranteed and borrowed GPUs",
}
_WHILE = {
    "Allow": "another starts beside it",
    "Forbid": "the next is skipped",
    "Replace": "it is cancelled for the next",
}


def _runs(view: models.ScheduleView) -> Iterator[str]:
    for one in view.runs:
        span = _at(one.due_ms, view)
        if one.until_ms is not None:
            least = "at least " if one.count >= _COUNTED else ""
            span += f" to {_at(one.until_ms, view)}, {least}{one.count:,} times"
        if one.by_hand:
            span += " by hand"
        yield f"  {span}  {one.job_name or f'{one.outcome}: {one.text}'}"


def _next(view: models.ScheduleView) -> str:
    if view.suspend:
        return "suspended"
    return _at(view.next_ms[0], view) if view.next_ms else ""


def _last(view: models.ScheduleView) -> str:
    run = next(iter(view.runs), None)
    return "" if run is None else run.job_name or run.outcome


def _at(ms: int, view: models.ScheduleView) -> str:
    """A time as its schedule counts."""
    try:
        zone = ZoneInfo(view.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        # This machine has no such zone: the scheduler's has.
        return f"{datetime.fromtimestamp(ms / 1000, ZoneInfo('UTC')):%a %d %b %H:%M} UTC"
    return f"{datetime.fromtimestamp(ms / 1000, zone):%a %d %b %H:%M}"


def local_zone() -> str:
    """The IANA name of this machine's time zone; UTC where it has none."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named and _LOCAL_TIME.is_symlink():
        _, _, named = str(_LOCAL_TIME.readlink()).partition("zoneinfo/")
    try:
        return ZoneInfo(named).key if named else "UTC"
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"
