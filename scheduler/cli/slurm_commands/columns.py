"""What a line of ``squeue`` says of a job, or of tasks of an array that have not begun."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.present import printable
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.cli.slurm_commands.names import name_of_script, number_of, shown_name
from gpucommons.scheduler.cli.slurm_commands.states import SHORT_STATES, long_state
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.fields import base_name
from gpucommons.scheduler.parents import TASK_INDEX

#: Of ``--format``: ``%.18i`` is a column of 18 characters, aligned on the right.
_FIELD = re.compile(r"%(?P<right>\.)?(?P<width>\d{1,3})?(?P<letter>[A-Za-z])")
_DAY_S = 86_400
#: As Slurm cuts a list of tasks that have not begun.
_MOST_CHARACTERS = 64
#: Columns of ``--format``, and their headers.
LETTERS = {
    "i": "JOBID", "A": "JOBID", "F": "ARRAY_JOB_ID", "K": "ARRAY_TASK_ID", "j": "NAME", "t": "ST",
    "T": "STATE", "u": "USER", "P": "PARTITION", "a": "ACCOUNT", "M": "TIME", "l": "TIME_LIMIT",
    "L": "TIME_LEFT", "S": "START_TIME", "V": "SUBMIT_TIME", "D": "NODES", "C": "CPUS", "m": "MIN_MEMORY",
    "R": "NODELIST(REASON)", "r": "REASON", "N": "NODELIST", "q": "QOS", "b": "TRES_PER_NODE",
}  # fmt: skip
#: As Slurm prints what is not known.
UNKNOWN = "N/A"
UNLIMITED = "UNLIMITED"
Row = Mapping[str, str]


class Waiting(NamedTuple):
    """Tasks of an array that have not begun."""

    array: models.SweepView
    indices: tuple[int, ...]


def formatted(text: str, rows: Sequence[Row], *, header: bool) -> Iterator[str]:
    """Lines as ``--format`` has them.

    Raises
    ------
    BadRequest
        For a column that is none here.
    """
    letters = {match["letter"] for match in _FIELD.finditer(text)}
    if "%all" in text or (letters - LETTERS.keys()):
        strange = "%all" if "%all" in text else f"%{min(letters - LETTERS.keys())}"
        message = f"--format: {strange} is not known here. There are %{', %'.join(LETTERS)}."
        raise BadRequest(message)
    for row in (LETTERS, *rows) if header else rows:
        yield printable(_FIELD.sub(partial(_padded, row), text))


def _padded(row: Row, match: re.Match[str]) -> str:
    text = row[match["letter"]]
    width = int(match["width"] or 0)
    if not width:
        return text
    return text[:width].rjust(width) if match["right"] else text[:width].ljust(width)


def row_of(job: models.JobView, now_ms: int) -> Row:
    """Of a job."""
    attempt = next((one for one in reversed(job.attempts) if one.ended_ms is None), None)
    began_ms = None if attempt is None else attempt.started_ms
    runs_s = 0 if began_ms is None else (now_ms - began_ms) // 1000
    nodes = ",".join(attempt.nodes) if attempt else ""
    reason = job.reason.text if job.reason else ""
    long = long_state(job)
    likely = job.forecast
    if began_ms is None and likely and likely.to_ms is not None:
        began_ms = likely.made_ms + likely.to_ms  # at the latest; Slurm's own is such a guess, too
    return {
        "i": shown_name(job), "A": str(number_of(job.id)),
        "F": job.part_of.name if job.part_of else job.name,
        "K": UNKNOWN if job.request is None else job.request.env.get(TASK_INDEX, UNKNOWN),
        "j": name_of_script(job), "t": SHORT_STATES.get(long, long), "T": long,
        "u": job.owner, "P": job.pool or ",".join(job.pools), "a": job.team,
        "M": elapsed(runs_s), "S": _moment(began_ms), "V": _moment(job.submitted_ms), **_limits(job, now_ms),
        "D": str(len(attempt.nodes) if attempt else job.workers),
        "R": nodes or f"({reason})", "r": reason or "None", "N": nodes, "q": job.priority,
        "b": f"gres/gpu:{job.milli_gpu / 1000:g}", **_of_request(job.request),
    }  # fmt: skip


def rows_of(one: Waiting, *, apart: bool) -> Iterator[Row]:
    """Of tasks that have not begun: one line, or one for each."""
    array, request = one.array, one.array.request
    gpus = sum(role.milli_gpu * role.count for role in request.roles) if request else 0
    limit = request.max_run_s if request else None
    # Without a limit they come into line as fast as they can be submitted.
    reason = "JobArrayTaskLimit" if array.max_parallel else "None"
    said = {
        "A": str(number_of(array.id)), "F": array.name, "j": base_name(array.name), "t": "PD",
        "T": "PENDING", "u": array.owner, "P": ",".join((request and request.pools) or ()),
        "a": array.team, "M": "0:00", "l": _time_limit(limit), "L": _time_limit(limit), "S": UNKNOWN,
        "V": _moment(array.made_ms), "D": "1", "R": f"({reason})", "r": reason, "N": "",
        "q": request.priority if request else "", "b": f"gres/gpu:{gpus / 1000:g}", **_of_request(request),
    }  # fmt: skip
    if apart:
        for index in one.indices:
            yield {**said, "i": f"{array.name}_{index}", "K": str(index)}
        return
    tasks = quantities.ranges(one.indices)
    if len(tasks) > _MOST_CHARACTERS:
        tasks = tasks[:_MOST_CHARACTERS].rpartition(",")[0] + ",..."
    if array.max_parallel:
        tasks += f"%{array.max_parallel}"
    yield {**said, "i": f"{array.name}_[{tasks}]", "K": tasks}


def cpus_of(request: models.JobRequest | None) -> int:
    """Whole ones, of all workers."""
    roles = [] if request is None else request.roles
    return sum(max(1000, role.cpu_milli or 0) * role.count for role in roles) // 1000 or 1


def memory_of(request: models.JobRequest | None) -> str:
    """Of one worker, as Slurm writes it: ``4G``, ``1500M``."""
    mib = max((role.memory_mib or 0 for role in request.roles), default=0) if request else 0
    if not mib:
        return UNKNOWN
    return f"{mib}M" if mib % 1024 else f"{mib // 1024}G"


def _time_limit(limit_s: int | None) -> str:
    """How long it may run."""
    return UNLIMITED if limit_s is None else elapsed(limit_s)


def ran_s(job: models.JobView, now_ms: int) -> int:
    """All attempts together."""
    spans = (
        (one.ended_ms or job.ended_ms or now_ms) - one.started_ms
        for one in job.attempts
        if one.started_ms is not None
    )
    return sum(spans) // 1000


def _of_request(request: models.JobRequest | None) -> Row:
    return {"C": str(cpus_of(request)), "m": memory_of(request)}


def _limits(job: models.JobView, now_ms: int) -> Row:
    limit_s = job.request.max_run_s if job.request else None
    left = UNLIMITED if limit_s is None else elapsed(limit_s - ran_s(job, now_ms))
    return {"l": _time_limit(limit_s), "L": left}


def _moment(at_ms: int | None) -> str:
    return UNKNOWN if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000):%Y-%m-%dT%H:%M:%S}"


def elapsed(total_s: int) -> str:
    """``0:07``, ``2:05:00``, ``1-02:00:00``, as ``squeue`` has it."""
    days, rest = divmod(max(0, total_s), _DAY_S)
    hours, minutes, seconds = rest // 3600, rest // 60 % 60, rest % 60
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
