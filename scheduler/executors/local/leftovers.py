"""Folders of attempts that nobody can ask for any more.

What lies in ``run/`` is the user's: it is deleted under their account, never by the service.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucommons.scheduler.core.model.types import AttemptId, Millis
from gpucommons.scheduler.executors.base import Found
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, read_json
from gpucommons.scheduler.executors.local.attempt.plan import Plan, as_user
from gpucommons.scheduler.files.confined_files import remove
from gpucommons.scheduler.ids import made_ms

_LOG = logging.getLogger(__name__)

#: A folder that takes longer is gone on with in the next pass.
_PATIENCE_S = 300


def remove_old(root: Path, *, needed: Callable[[str], bool], before_s: float) -> int:
    """Remove folders that ended before ``before_s``; ``needed`` is asked for each attempt id."""
    removed = 0
    for path in sorted(root.iterdir()):
        folder = AttemptFolder(path)
        if _ended_s(folder) < before_s and not needed(path.name) and not folder.supervised():
            try:
                _remove(folder)
            except (OSError, subprocess.SubprocessError) as error:
                _LOG.warning("%s stays for now: %s", path, error)
            else:
                removed += 1
    return removed


def found_since(root: Path, at_ms: Millis) -> tuple[Found, ...]:
    """Attempts that began since then, by the time in their names."""
    paths = (path for path in sorted(root.iterdir()) if made_ms(path.name) >= at_ms)
    return tuple(_found(AttemptFolder(path)) for path in paths)


def _found(folder: AttemptFolder) -> Found:
    plan, end = read_json(folder.plan) or {}, read_json(folder.exit)
    return Found(
        attempt_id=AttemptId(folder.path.name),
        job_id=str(plan.get("job_id", "")),
        name=str(plan.get("job", "")),
        running=folder.supervised(),
        # What ended after a signal is not done, unless it says so.
        succeeded=end is not None
        and end["exit_code"] == 0
        and (end.get("finished", False) or not end.get("told", folder.signalled.exists())),
    )


def by_job(root: Path) -> dict[str, list[AttemptId]]:
    """Ids of all attempts that have a folder by their job's, oldest first."""
    jobs = defaultdict[str, list[AttemptId]](list)
    for path in sorted(root.iterdir()):
        # One that cannot be read has nothing to hand over, and keeps nobody from starting.
        with suppress(OSError, ValueError):
            plan = read_json(AttemptFolder(path).plan) or {}
            jobs[str(plan.get("job_id", ""))].append(AttemptId(path.name))
    return jobs


def _ended_s(folder: AttemptFolder) -> float:
    """When it ended; for one that never did, when its folder last changed."""
    known = folder.exit if folder.exit.exists() else folder.path
    return known.stat().st_mtime


def _remove(folder: AttemptFolder) -> None:
    document = read_json(folder.plan)
    if document is not None and folder.run.exists():
        delete_as_user(folder, document, "erase")
        folder.run.rmdir()
    remove(folder.path)
    if folder.path.exists():
        message = "something in it cannot be removed"
        raise OSError(message)


def delete_as_user(folder: AttemptFolder, document: dict[str, Any], errand: str) -> None:
    """Have something of an attempt deleted by its user."""
    subprocess.run(
        [sys.executable, "-m", "gpucommons.scheduler.executors.errand", errand, str(folder.run)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_PATIENCE_S,
        check=True,
        cwd="/",
        env={},
        **as_user(Plan.from_json(document).account),
    )
