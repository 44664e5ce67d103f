"""Write, list and steer schedules."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.options import add_max_mib
from gpucommons.scheduler.cli.owned_names import (
    SCHEDULE,
    add_owned_name,
    shown,
    to_change,
    to_look_at,
)
from gpucommons.scheduler.cli.present import printable, show, table
from gpucommons.scheduler.cli.schedules import describing, trigger_options
from gpucommons.scheduler.cli.schedules.documents import read_schedule
from gpucommons.scheduler.client import SchedulerClient, calls, schedule_calls
from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.models.fields import name_by_itself

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
        help="jobs that start again and again: list, show, repeat, apply, metric, promote, run, suspend,"
        " resume, remove",
        description="`gpucommons submit --schedule CRON …` makes one of a script, `repeat` of a job"
        " that ran.",
    ).add_subparsers(required=True)
    own.add_parser("list", parents=[shared], help="those you may see").set_defaults(run=listing)
    one = own.add_parser(
        "show", parents=[shared], help="the next times, and what became of the last"
    )
    add_owned_name(one, "schedule", looks=True)
    one.set_defaults(run=detail)
    again = own.add_parser("repeat", parents=[shared], help="start a job that ran again and again")
    again.add_argument("job", help="name or id; its files and environment stay as they were")
    again.add_argument("--name", help="of the schedule (default: the job's without its number)")
    add_when(again)
    again.set_defaults(run=repeat)
    _add_models(own, shared)
    for name, (_, text) in _STEERING.items():
        command = own.add_parser(name, parents=[shared], help=text)
        add_owned_name(command, "schedule")
        command.set_defaults(run=steer, steering=name)
    file = own.add_parser(
        "apply", parents=[shared], help="make one as a YAML file says, or write it anew"
    )
    file.add_argument("file", type=Path, metavar="FILE")
    add_max_mib(file)
    file.set_defaults(run=apply)


def _add_models(
    own: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """What is told of its models."""
    told = own.add_parser(
        "metric",
        parents=[shared],
        help="post a value of a metric; where it falls below that of a trigger, a run starts",
    )
    add_owned_name(told, "schedule")
    told.add_argument("metric", help="such as accuracy")
    told.add_argument("value", type=float)
    told.set_defaults(run=post_metric)
    chosen = own.add_parser(
        "promote", parents=[shared], help="let the model of one of its runs be the promoted one"
    )
    add_owned_name(chosen, "schedule")
    chosen.add_argument("job", metavar="RUN", help="a run of it, such as nightly-7")
    chosen.set_defaults(run=promote)


def add_when(command: argparse.ArgumentParser) -> None:
    """The options that say when; their names are Kubernetes' CronJob's."""
    trigger_options.add_triggers(command)
    trigger_options.add_promotion(command)
    command.add_argument(
        "--schedule",
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
    starts = trigger_options.is_given(arguments)
    if starts and arguments.follow:
        raise BadRequest("--follow: nothing starts now. Look with `gpucommons schedule show`.")
    options = (
        *("overwrite", "time_zone", "concurrency_policy", "starting_deadline", "in_guarantee"),
        *("promote", "promote_by_hand"),
    )
    given = [f"--{name.replace('_', '-')}" for name in options if getattr(arguments, name)]
    if not starts and given:
        message = f"{', '.join(given)}: of a schedule alone. Say when with --schedule."
        raise BadRequest(message)


def check_times(scheduler: SchedulerClient, arguments: argparse.Namespace) -> None:
    """Have a schedule refused that never comes, before anything is said or sent of its job."""
    if arguments.schedule is not None:
        zone = arguments.time_zone or local_zone()
        scheduler.send(schedule_calls.schedule_times(arguments.schedule, zone))


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
        "triggers": trigger_options.triggers(arguments),
        "promote": trigger_options.promotion(arguments),
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
    show(view, f"{describing.describe(view)}\n  no run was started now", output=arguments.output)
    return 0


def _check_is_new(scheduler: SchedulerClient, owner: str, name: str) -> None:
    """Two scripts may have one name: none replaces the other unasked."""
    try:
        known = scheduler.send(schedule_calls.schedule(owner, name))
    except NotFound:
        return
    message = (
        f"You have a schedule {name} already ({known.what}): choose another --name,"
        " or write it anew with --overwrite."
    )
    raise BadRequest(message)


def repeat(arguments: argparse.Namespace) -> int:
    """Make a schedule of a job that ran."""
    if not trigger_options.is_given(arguments):
        raise BadRequest(trigger_options.SAY_WHEN)
    with connect(arguments) as scheduler:
        job = scheduler.send(calls.job(arguments.job))
        parent = None if job.part_of is None else job.part_of.kind
        name = arguments.name or name_by_itself(job.name, parent)
        return put(scheduler, arguments, name, of_job=job.id)


def apply(arguments: argparse.Namespace) -> int:
    """Make a schedule as a file says; what is there under that name is written anew."""
    name, request, packed = read_schedule(arguments.file, max_bytes=arguments.max_mib << 20)
    with connect(arguments) as scheduler:
        if packed is not None:
            scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
        owner = scheduler.send(calls.whoami()).name
        view = scheduler.send(schedule_calls.put_schedule(owner, name, request))
    show(view, f"{describing.describe(view)}\n  no run was started now", output=arguments.output)
    return 0


def post_metric(arguments: argparse.Namespace) -> int:
    """Tell a schedule a value of a metric."""
    posted = models.MetricPost(name=arguments.metric, value=arguments.value)
    with connect(arguments) as scheduler:
        owner, name = to_change(scheduler, SCHEDULE, arguments.schedule)
        view = scheduler.send(schedule_calls.post_metric(owner, name, posted))
    lines = [describing.trigger(one, view) for one in view.triggers if one.value == arguments.value]
    show(view, printable("\n".join(lines)), output=arguments.output)
    return 0


def promote(arguments: argparse.Namespace) -> int:
    """Choose a model."""
    chosen = models.PromotionRequest(job=arguments.job)
    with connect(arguments) as scheduler:
        owner, name = to_change(scheduler, SCHEDULE, arguments.schedule)
        view = scheduler.send(schedule_calls.promote_schedule(owner, name, chosen))
    text = printable(describing.promoted(view).strip())
    show(view, text if view.mine else f"{shown(view)}: {text}", output=arguments.output)
    return 0


def listing(arguments: argparse.Namespace) -> int:
    """All that the caller may see."""
    with connect(arguments) as scheduler:
        found = scheduler.send(schedule_calls.schedules())
        while found.cursor is not None:
            more = scheduler.send(schedule_calls.schedules(found.cursor))
            found = more.model_copy(update={"schedules": [*found.schedules, *more.schedules]})
    rows = [(one.name, one.owner, one.team, *describing.row(one)) for one in found.schedules]
    header = ("NAME", "OWNER", "TEAM", "SCHEDULE", "TIME ZONE", "NEXT", "LAST")
    show(found, table(header, rows), output=arguments.output)
    return 0


def detail(arguments: argparse.Namespace) -> int:
    """One schedule."""
    with connect(arguments) as scheduler:
        view = to_look_at(scheduler, SCHEDULE, arguments.schedule)
    show(view, describing.describe(view), output=arguments.output)
    return 0


def steer(arguments: argparse.Namespace) -> int:
    """Suspend, resume or remove one."""
    call, text = _STEERING[arguments.steering]
    with connect(arguments) as scheduler:
        view = scheduler.send(call(*to_change(scheduler, SCHEDULE, arguments.schedule)))
    show(view, f"{shown(view)} {text}", output=arguments.output)
    return 0


def local_zone() -> str:
    """The IANA name of this machine's time zone; UTC where it has none."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named and _LOCAL_TIME.is_symlink():
        _, _, named = str(_LOCAL_TIME.readlink()).partition("zoneinfo/")
    try:
        return ZoneInfo(named).key if named else "UTC"
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"
