"""``gpucommons results``: where the files are that a job wrote, or bring them here."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import show
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.results import fetch_one_result, fetch_results, mark_results
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.working_folder import words

#: Of jobs that left something which is not, or not yet, where the results go.
_TO_BRING = frozenset({"later", "copying", "stayed", "away"})
#: More files are counted, not named.
_NAMED = 20
#: How long a copy that is under way is waited for, and how often it is looked at.
_COPYING_S, _LOOK_S = 60.0, 0.5


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``results``."""
    about = "where the files are that a job wrote, or bring them here"
    command = commands.add_parser("results", parents=[shared], help=about)
    command.add_argument("job", help="name or id")
    command.add_argument("--to", type=Path, help="bring them to this folder")
    command.add_argument("--file", default="", help="only this one, however large it is; with --to")
    command.set_defaults(run=results)


def results(arguments: argparse.Namespace) -> int:
    """Say where a job's files are, or bring them: to its folder, or to another one."""
    if arguments.file:
        return _one_file(arguments)
    with connect(arguments) as scheduler:
        job = _brought(scheduler, arguments.job)
        found = job.results
        if arguments.to is None and found is not None and found.state not in _TO_BRING:
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


def _one_file(arguments: argparse.Namespace) -> int:
    """Bring one file, however large it is."""
    if arguments.to is None:
        message = "Say where the file is to be put: --to FOLDER."
        raise BadRequest(message)
    arguments.to.mkdir(parents=True, exist_ok=True)
    with connect(arguments) as scheduler:
        job = _brought(scheduler, arguments.job)
        lies = fetch_one_result(scheduler, job, arguments.file, arguments.to)
    text = f"{words.shown(arguments.file)} of {job.name} lies in {arguments.to}"
    if lies != arguments.file:
        text += f" as {words.shown(lies)}: a file of its own name was there and stays"
    show(
        {"job": job.name, "folder": str(arguments.to), "files": 1, "file": lies},
        text,
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
    if found.not_brought_count > _NAMED:
        lines.append(f"  and {found.not_brought_count - _NAMED:,} more")
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
