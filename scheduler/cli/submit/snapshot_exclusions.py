"""Names what a snapshot leaves out, and asks what becomes of large files: a job that misses one fails later."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.present import printable
from gpucommons.scheduler.client import snapshot
from gpucommons.scheduler.client.snapshot import Packed
from gpucommons.scheduler.client.submission import LOCK_FILE, FileJob
from gpucommons.scheduler.scripts.frameworks import MAX_BYTES
from gpucommons.scheduler.scripts.paths_above import may_name_paths, path_above
from gpucommons.scheduler.working_folder import words as amounts

#: More files are counted, not named: in a question, and in lines.
_NAMED, _LISTED = 5, 10


def told(packed: Packed, job: FileJob, request: models.JobRequest) -> Iterator[str]:
    """What goes along and what is left behind: a job that misses a file fails far away and later."""
    files = [file for file in packed.files if file.path != LOCK_FILE]
    size = amounts.size(sum(file.size_bytes for file in files))
    yield f"takes along: {amounts.files(len(files))} of {job.root}, {size}"
    yield from named(packed)
    if any(file.linkable for file in packed.excluded):
        yield outcome(job, request)
    yield from _above(packed, job)


def _above(packed: Packed, job: FileJob) -> Iterator[str]:
    """A path that leads to something beside the folder, which the job will not find; the first one alone."""
    for file in packed.files:
        if not may_name_paths(file.path) or file.size_bytes > MAX_BYTES:
            continue
        try:
            found = path_above((job.root / file.path).read_text(errors="replace"))
        except OSError:
            continue
        if found is not None and (job.root / found[1]).exists():
            yield (
                f"warning: {amounts.shown(file.path)} (line {found[0]}) names {found[1]}, and the folder above {job.root}"
                " stays behind: run it from there (a command, or -m), or give a whole path"
            )
            return


def copied(packed: Packed, job: FileJob, watched: Iterable[Path]) -> Iterator[str]:
    """Data whose change starts a run of which each would read the copy that goes along now."""
    for path in watched:
        real = path.resolve()
        if any((job.root / file.path).is_relative_to(real) for file in packed.files):
            yield (
                f"warning: {path} goes along as it is now, and each run would read that copy: have the"
                f" script read {path} by its whole path"
            )


def named(packed: Packed) -> Iterator[str]:
    """What stays behind, in lines; results of earlier jobs are counted."""
    hidden = [
        amounts.shown(file.path) for file in packed.excluded if file.reason == snapshot.HIDDEN
    ]
    if hidden:
        # In a home these are many, and nobody's own: they would bury what a job may miss.
        more = len(hidden) - _LISTED
        names = ", ".join(hidden[:_LISTED]) + (f" and {more} more" if more > 0 else "")
        yield f"left out, hidden: {names}"
    own = [
        file for file in packed.excluded if not file.is_result and file.reason != snapshot.HIDDEN
    ]
    yield from (f"left out: {amounts.shown(file.path)} {file.reason}" for file in own[:_LISTED])
    if len(own) > _LISTED:
        yield f"left out: {len(own) - _LISTED} more"
    if results := sum(file.is_result for file in packed.excluded):
        yield f"left out: results of earlier jobs: {results}"


def are_linked(root: Path, choice: str | None) -> bool:
    """What was chosen, or is answered on a terminal; else the job goes without."""
    if choice is not None:
        return choice == "link"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    left = [file.path for file in snapshot.preview(root).excluded if file.linkable]
    if not left:
        return False
    names = ", ".join(map(amounts.shown, left[:_NAMED])) + (" …" if len(left) > _NAMED else "")
    sys.stderr.write(printable(f"{names} would stay here. Link from your home? [y/N] "))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def outcome(job: FileJob, request: models.JobRequest) -> str:
    """What happens to them, and how it would be otherwise."""
    if not request.links:
        return (
            "the job cannot read what was left out: --left-out link, or left_out: link in a file, links it"
            " from your home"
        )
    count = len(request.links)
    return (
        f"linked from {job.root}: {count} of these. The job reads them where they lie; what it writes"
        " into them changes your own files"
    )
