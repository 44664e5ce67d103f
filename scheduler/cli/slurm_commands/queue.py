"""``gpucommons squeue``: what runs and waits, in the columns and words of Slurm's."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import printable, show, table
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.cli.slurm_commands.accounting import LONG_STATES
from gpucommons.scheduler.cli.slurm_commands.batch import ORIGIN
from gpucommons.scheduler.cli.slurm_commands.names import (
    array_names,
    live,
    live_arrays,
    name_of_script,
    named,
    names_of,
    number_of,
    shown_name,
)
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.fields import base_name
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL
from gpucommons.scheduler.parents import TASK_INDEX

#: Slurm's words for states (``man squeue``).
STATES = {
    "queued": "PD", "nominated": "PD", "admitted": "CF", "starting": "CF", "running": "R",
    "preempting": "CG", "pausing": "CG", "cancelling": "CG", "paused": "S",
}  # fmt: skip
_SHORT = {LONG_STATES[state]: short for state, short in STATES.items()}
#: Of ``--format``: ``%.18i`` is a column of 18 characters, aligned on the right.
_FIELD = re.compile(r"%(?P<right>\.)?(?P<width>\d{1,3})?(?P<letter>[A-Za-z])")
_DAY_S = 86_400
#: As Slurm cuts a list of tasks that have not begun.
_MOST_CHARACTERS = 64
#: Columns of ``--format``, and their headers.
_LETTERS = {
    "i": "JOBID", "A": "JOBID", "F": "ARRAY_JOB_ID", "K": "ARRAY_TASK_ID", "j": "NAME", "t": "ST",
    "T": "STATE", "u": "USER", "P": "PARTITION", "a": "ACCOUNT", "M": "TIME", "D": "NODES",
    "R": "NODELIST(REASON)", "r": "REASON", "N": "NODELIST", "q": "QOS", "b": "TRES_PER_NODE",
}  # fmt: skip
_DEFAULT = "iPutMD"
_Row = Mapping[str, str]


class _Waiting(NamedTuple):
    """Tasks of an array that have not begun, since it has a limit."""

    array: models.SweepView
    indices: tuple[int, ...]


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``squeue``."""
    found = commands.add_parser(
        "squeue", parents=[shared], add_help=False, help="list jobs as Slurm does"
    )
    found.add_argument("--help", action="help")  # ``-h`` is Slurm's for a list without its header
    found.add_argument("--me", action="store_true", help="only your own")
    found.add_argument("-u", "--user")
    found.add_argument("-j", "--jobs", metavar="JOB[,JOB …]")
    found.add_argument("-t", "--states", metavar="PD,R,CG")
    found.add_argument("-A", "--account", metavar="TEAM")
    found.add_argument("-h", "--noheader", action="store_true")
    found.add_argument("-r", "--array", action="store_true", help="a line for each task")
    found.add_argument("-o", "--format", metavar="FORMAT", help="as in '%%i %%T'")
    found.set_defaults(run=squeue)


def squeue(arguments: argparse.Namespace) -> int:
    """List jobs that are not over, and the tasks of arrays that have not begun."""
    with connect(arguments) as scheduler:
        owner = scheduler.send(calls.whoami()).name if arguments.me else arguments.user
        # In this order: a task that begins between the two looks is in the second, not in neither.
        waiting = list(_waiting(scheduler, owner, arguments))
        jobs = [
            job
            for job in live(scheduler, owner=owner, team=arguments.account)
            if is_asked(job, arguments.jobs, arguments.states)
        ]
    now_ms = time.time_ns() // 1_000_000
    rows = [_said_of(job, now_ms) for job in jobs]
    rows += [row for one in waiting for row in _said_of_waiting(one, apart=arguments.array)]
    if arguments.format is not None:
        text = "\n".join(_formatted(arguments, rows))
    elif arguments.noheader and arguments.output == "text":
        text = "\n".join(table(_default(row), []) for row in rows)
    else:
        text = table((*_default(_LETTERS)[:-2], "GPUS", _LETTERS["R"]), map(_default, rows))
    show(models.JobList(jobs=jobs), text, output=arguments.output)
    return 0


def _default(row: _Row) -> tuple[str, ...]:
    return (*(row[letter] for letter in _DEFAULT), row["b"].rpartition(":")[2], row["R"])


def _formatted(arguments: argparse.Namespace, rows: list[_Row]) -> Iterator[str]:
    """Lines as ``--format`` has them."""
    letters = {match["letter"] for match in _FIELD.finditer(arguments.format)}
    if strange := sorted(letters - _LETTERS.keys()):
        message = f"--format: %{strange[0]} is not known here. There are %{', %'.join(_LETTERS)}."
        raise BadRequest(message)
    for row in rows if arguments.noheader else (_LETTERS, *rows):
        yield printable(_FIELD.sub(partial(_padded, row), arguments.format))


def _padded(row: _Row, match: re.Match[str]) -> str:
    text = row[match["letter"]]
    width = int(match["width"] or 0)
    if not width:
        return text
    return text[:width].rjust(width) if match["right"] else text[:width].ljust(width)


def _said_of(job: models.JobView, now_ms: int) -> _Row:
    attempt = next((one for one in reversed(job.attempts) if one.ended_ms is None), None)
    began_ms = None if attempt is None else attempt.started_ms
    nodes = ",".join(attempt.nodes) if attempt else ""
    reason = job.reason.text if job.reason else ""
    short = STATES.get(job.state, job.state)
    return {
        "i": shown_name(job), "A": str(number_of(job.id)),
        "F": job.part_of.name if job.part_of else job.name,
        "K": "N/A" if job.request is None else job.request.env.get(TASK_INDEX, "N/A"),
        "j": name_of_script(job), "t": short, "T": LONG_STATES.get(job.state, short),
        "u": job.owner, "P": job.pool or ",".join(job.pools), "a": job.team,
        "M": _elapsed(0 if began_ms is None else (now_ms - began_ms) // 1000),
        "D": str(len(attempt.nodes) if attempt else job.workers),
        "R": nodes or f"({reason})", "r": reason or "None", "N": nodes, "q": job.priority,
        "b": f"gres/gpu:{job.milli_gpu / 1000:g}",
    }  # fmt: skip


def _said_of_waiting(one: _Waiting, *, apart: bool) -> Iterator[_Row]:
    array, request = one.array, one.array.request
    gpus = sum(role.milli_gpu * role.count for role in request.roles) if request else 0
    said = {
        "A": str(number_of(array.id)), "F": array.name, "j": base_name(array.name), "t": "PD",
        "T": "PENDING", "u": array.owner, "P": ",".join((request and request.pools) or ()),
        "a": array.team, "M": "0:00", "D": "1", "R": "(JobArrayTaskLimit)",
        "r": "JobArrayTaskLimit", "N": "", "q": request.priority if request else "",
        "b": f"gres/gpu:{gpus / 1000:g}",
    }  # fmt: skip
    if apart:
        for index in one.indices:
            yield {**said, "i": f"{array.name}_{index}", "K": str(index)}
        return
    tasks = quantities.ranges(one.indices)
    if len(tasks) > _MOST_CHARACTERS:
        tasks = tasks[:_MOST_CHARACTERS].rpartition(",")[0] + ",..."
    tasks += f"%{array.max_parallel}"
    yield {**said, "i": f"{array.name}_[{tasks}]", "K": tasks}


def _waiting(
    scheduler: SchedulerClient, owner: str | None, arguments: argparse.Namespace
) -> Iterator[_Waiting]:
    """Of arrays that go on."""
    if not is_state("queued", arguments.states):
        return
    for array in live_arrays(scheduler, owner=owner):
        if arguments.account not in (None, array.team):
            continue
        if array.request is None or array.request.labels.get(ORIGIN_LABEL) != ORIGIN:
            continue
        left = tuple(array.unbegun)
        if arguments.jobs is not None and not array_names(array) & set(arguments.jobs.split(",")):
            asked = named(arguments.jobs)
            left = tuple(one for one in left if f"{array.name}_{one}" in asked)
        if left:
            yield _Waiting(array, left)


def is_asked(job: models.JobView, names: str | None, states: str | None) -> bool:
    """Whether a job is among those of ``--jobs`` and ``--states``."""
    is_named = names is None or names_of(job) & named(names)
    return bool(is_named) and is_state(job.state, states)


def is_state(state: str, states: str | None) -> bool:
    """Whether it is one of those of ``--states``."""
    wanted = {_SHORT.get(word.upper(), word.upper()) for word in (states or "").split(",") if word}
    return not wanted or STATES.get(state) in wanted


def _elapsed(total_s: int) -> str:
    """``0:07``, ``2:05:00``, ``1-02:00:00``, as Slurm has it."""
    days, rest = divmod(max(0, total_s), _DAY_S)
    hours, minutes, seconds = rest // 3600, rest // 60 % 60, rest % 60
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
