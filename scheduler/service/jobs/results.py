"""Results of jobs: where they are, and all of them as one tar, made while it is sent."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from itertools import islice

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Attempt, Workload
from gpucommons.scheduler.errors import Conflict, Forbidden, TooLarge
from gpucommons.scheduler.file_storage.job_files import JobFiles, ResultFile
from gpucommons.scheduler.files.confined_files import MAX_MEMBERS
from gpucommons.scheduler.files.job_file_limits import MAX_RESULTS_BYTES
from gpucommons.scheduler.models.text.state_words import state_words
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs.attempt_files import files_of
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.service import OwnResults, Service
from gpucommons.scheduler.service.views.where_it_runs import (
    AWAY,
    HERE,
    executor_of,
    results_are_away,
    runs_away,
)
from gpucommons.scheduler.working_folder import words
from gpucommons.scheduler.working_folder.changes import Baseline, baseline
from gpucommons.scheduler.working_folder.giving_back import FOLDER, Outcome
from gpucommons.scheduler.working_folder.pieces import Pieces

_BLOCK = tarfile.BLOCKSIZE


def results(service: Service, principal: Principal, ref: str, only: str = "") -> Iterator[bytes]:
    """What a job wrote as a tar, once it is over; ``only`` one file of it, however large that is.

    Raises
    ------
    Conflict
        When it is not over, or never ran, or wrote no such file.
    TooLarge
        When there is more than anybody would want in one piece.
    """
    found = find_job(service, principal, ref)
    authorization.jobs.results(principal, found)
    attempt = _over(found)
    files = files_of(service, found, attempt)
    if files is not None:
        return archive(_away(service, found, files, only))
    if service.own_results is not None:
        return service.own_results.chunks(found, only)
    raise Conflict(f"{found.spec.name} left no files where this scheduler could find them.")


def _away(service: Service, found: Workload, files: JobFiles, only: str) -> tuple[ResultFile, ...]:
    """Of the newest attempt that left something: the last one may have been lost."""
    since: Baseline = {}
    if found.spec.snapshot is not None and service.snapshots.has(found.spec.snapshot):
        since = baseline(io.BufferedReader(Pieces(service.snapshots.chunks(found.spec.snapshot))))
    for attempt in reversed(found.attempts):
        results_of = files.results(attempt.attempt_id, since)
        if only:
            kept = tuple(islice((one for one in results_of if one.path == only), 1))
        else:
            kept = checked(results_of, found.spec.name)
        if kept:
            return kept
    if only:
        raise Conflict(f"{found.spec.name} wrote no file {only!r}, or it is gone by now.")
    return ()


def _over(found: Workload) -> Attempt:
    if not is_final(found):
        message = (
            f"{found.spec.name} is {state_words(found.state)}: its files come when it is over."
        )
        raise Conflict(message)
    if not found.attempts:
        raise Conflict(f"{found.spec.name} never ran, so it wrote no files.")
    return found.attempts[-1]


# --- where they are ---------------------------------------------------------------------------


def results_view(
    service: Service, principal: Principal, found: Workload
) -> models.ResultsView | None:
    """Where a job's files are; None for who may not fetch them, and where there can be none."""
    try:
        authorization.jobs.results(principal, found)
    except Forbidden:
        return None
    if not is_final(found):
        return _later_view(service, found)
    if not found.attempts:
        return _never_ran()
    if results_are_away(service.loop.cluster, found):
        return _away_view(service, found)
    own = service.own_results
    known = None if own is None else _own_view(own, found)
    return _without_record(service, found) if known is None else known


def _later_view(service: Service, found: Workload) -> models.ResultsView:
    """Of a job that is not over: where its files will come, and what must hold for that."""
    folder = place_of(found)
    text = f"What it writes comes to {folder}/ in {_home(found)} when it is over"
    if not runs_away(service.loop.cluster, found):
        return models.ResultsView(state="later", text=f"{text}.", folder=folder)
    if AWAY not in service.files:
        text = "What it writes is lost when it ends: this cluster has no storage for jobs' files."
        return models.ResultsView(state="lost", text=text)
    text += f", while JupyterLab is open, or with: gpucommons results {found.spec.name}"
    return models.ResultsView(state="later", text=text, folder=folder)


def _own_view(own: OwnResults, found: Workload) -> models.ResultsView | None:
    """None where nothing is on record."""
    outcome = own.outcome(found)
    if outcome is not None or own.is_coming(found):
        return outcome_view(found, outcome)
    if not own.are_left(found):
        return None
    text = (
        "Whether what it wrote was copied is not known: it began under an earlier release. Bring"
        f" it to a folder with: gpucommons results {found.spec.name} --to FOLDER"
    )
    return models.ResultsView(state="stayed", text=text)


def _without_record(service: Service, found: Workload) -> models.ResultsView | None:
    """Of a job that was never laid out, whose files are gone, or that ran where nothing is recorded."""
    executor = executor_of(service.loop.cluster, found, found.attempts[-1])
    if all(attempt.started_ms is None for attempt in found.attempts):
        return _never_ran()
    text = "No record of what it wrote is left."
    if executor not in {None, HERE}:
        # Slurm's, or a plugin's: it tells nobody what it did with them.
        text = (
            f"It ran with the executor {executor}, which brings a job's files by itself: what became of"
            f" them is not on record here. If they were brought, they are in {place_of(found)}/ in"
            f" {_home(found)}."
        )
    elif service.own_results is None:
        return None
    return models.ResultsView(state="unknown", text=text)


def _never_ran() -> models.ResultsView:
    return models.ResultsView(state="never_ran", text="It never ran, so it wrote no files.")


def _away_view(service: Service, found: Workload) -> models.ResultsView:
    if files_of(service, found, found.attempts[-1]) is None:
        text = "What it wrote is gone with its worker: this cluster has no storage for jobs' files."
        return models.ResultsView(state="lost", text=text)
    text = (
        f"What it wrote comes to {place_of(found)}/ in {_home(found)} while JupyterLab is open, or"
        f" with: gpucommons results {found.spec.name}"
    )
    return models.ResultsView(state="away", text=text, folder=place_of(found))


def outcome_view(found: Workload, outcome: Outcome | None) -> models.ResultsView:
    """What became of the files of a job that is over."""
    if outcome is None:
        folder = place_of(found)
        text = f"What it wrote is being copied to {folder}/ in {_home(found)}."
        return models.ResultsView(state="copying", text=text, folder=folder)
    view = models.ResultsView(
        state="none",
        text="It wrote no files.",
        folder=outcome.folder,
        count=outcome.count,
        size_bytes=outcome.size_bytes,
        files=[
            models.ResultFileView(path=words.shown(one.path), size_bytes=one.size_bytes)
            for one in outcome.files
        ],
        not_brought=[
            models.NotBroughtView(path=words.shown(one.path), reason=words.shown(one.reason))
            for one in outcome.left_out
        ],
        not_brought_count=outcome.left_out_count,
    )
    if outcome.problem:
        text = (
            f"What it wrote was not copied: {words.shown(outcome.problem).rstrip('.')}. It is still with the job;"
            f" bring it to another folder with: gpucommons results {found.spec.name} --to FOLDER"
        )
        return view.model_copy(update={"state": "stayed", "text": text})
    if outcome.folder is None and outcome.left_out_count:
        text = "Nothing that it wrote was copied: what was left out is named with the reason."
        return view.model_copy(update={"state": "left_out", "text": text})
    if outcome.folder is None:
        return view
    text = f"{_amount(outcome)} in {outcome.folder}/ in {_home(found)}."
    path = f"{outcome.home.rstrip('/')}/{outcome.folder}"
    return view.model_copy(update={"state": "here", "text": text, "path": path})


def place_of(found: Workload) -> str:
    """Where results are meant to come, below the owner's home; another name where that is taken."""
    below = (found.spec.results_to or "").removeprefix("./").strip("/")
    parts = ([] if below in ("", ".") else [below]) + [FOLDER, found.spec.name]
    return "/".join(parts)


def _home(found: Workload) -> str:
    return f"the home folder of {found.spec.owner}"


def _amount(outcome: Outcome) -> str:
    verb = "is" if outcome.count == 1 else "are"
    return f"{words.files(outcome.count)} ({words.size(outcome.size_bytes)}) {verb}"


# --- as a tar ---------------------------------------------------------------------------------


def checked(
    results_of: Iterable[ResultFile], name: str, *, max_bytes: int = MAX_RESULTS_BYTES
) -> tuple[ResultFile, ...]:
    """The files, if they are not too many; no more than that are looked at."""
    files = tuple(islice(results_of, MAX_MEMBERS + 1))
    total = sum(file.size_bytes for file in files)
    if total > max_bytes or len(files) > MAX_MEMBERS:
        message = (
            f"The results of {name} are more than are sent, {len(files):,} files of"
            f" {total >> 20:,} MiB or more; at most {MAX_MEMBERS:,} of {max_bytes >> 20:,} MiB."
        )
        raise TooLarge(message)
    return files


def archive(files: tuple[ResultFile, ...]) -> Iterator[bytes]:
    """A tar of them; where one has shrunk since it was listed, it ends there: no reader takes it for whole.

    Of one that has grown comes what was listed.
    """
    for file in files:
        header = tarfile.TarInfo(file.path)
        header.size, header.mode = file.size_bytes, 0o644
        yield header.tobuf(tarfile.PAX_FORMAT)
        left = file.size_bytes
        for chunk in file.chunks():
            yield chunk[:left]
            left -= min(left, len(chunk))
            if not left:
                break
        if left:
            return
        yield b"\0" * (-file.size_bytes % _BLOCK)
    yield b"\0" * (2 * _BLOCK)
