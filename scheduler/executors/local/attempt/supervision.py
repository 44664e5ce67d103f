"""What the executor does to a supervisor that is to begin, obey or go: wake it, forbid it, kill it.

A pid alone is never believed: it may belong to somebody else by now.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import psutil

from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    read_json,
    write_json,
)
from gpucommons.scheduler.executors.local.attempt.signals_seen import has_finished
from gpucommons.scheduler.working_folder.holders import kill_holders

_LOG = logging.getLogger(__name__)

#: In the environment of everything that belongs to an attempt.
MARK = "GPUCOMMONS_ATTEMPT_ID"
#: A supervisor that has not ended so long after its time to kill is itself killed.
OVERDUE_MS = 20_000


def forbid_start(folder: AttemptFolder) -> None:
    """End an attempt that never began: with its exit written, no supervisor will run it later."""
    lock = folder.hold_lock()
    if lock is None:
        return
    try:
        if not folder.supervisor.exists() and not folder.exit.exists():
            never = {"exit_code": None, "start_failed": False, "killed": False}
            write_json(folder.exit, {**never, "text": "It was stopped before it began."})
    finally:
        os.close(lock)


def end_of_killed(folder: AttemptFolder, left: Mapping[str, Any]) -> dict[str, Any]:
    """The end of an attempt whose supervisor was killed: ``left`` is what was found in its folder."""
    plan = read_json(folder.plan) or {}
    planned = plan.get("hibernation") or {}
    known = None
    image = left.get("image") or None
    if image is None and planned.get("promised") and not folder.started.exists():
        known = {"not_woken": "its supervisor was killed while it was being woken"}
    if isinstance(image, dict):
        user = plan["workers"][0]["env"].get("USER", "")
        told = bool((read_json(folder.notice) or {}).get("signal")) or plan.get("was_told", False)
        image = {**image, "user": user, "told": told}
    return {
        "exit_code": None,
        "start_failed": False,
        "killed": True,
        "text": "Its supervisor was killed from outside.",
        "kept": {name: value for name, value in left.items() if name != "image"},
        "finished": has_finished(folder.run),
        "image": image,
        "hibernation": known,
    }


def note_end(folder: AttemptFolder, result: Mapping[str, Any]) -> None:
    """Write it down in place of a supervisor that was killed: what it saved counts for its user."""
    if not folder.exit.exists():
        with suppress(OSError):
            write_json(folder.exit, dict(result))


def wake(folder: AttemptFolder) -> None:
    """SIGTERM makes a supervisor read its orders."""
    with suppress(psutil.Error):
        process = _living(folder)
        if process is not None:
            process.send_signal(signal.SIGTERM)


def kill_overdue(folder: AttemptFolder) -> None:
    """A job under the service's own account can stop its supervisor: that must not hold a GPU."""
    with suppress(psutil.Error):
        process = _living(folder)
        if process is not None:
            _LOG.warning("the supervisor in %s does not obey: killing it", folder.path)
            process.kill()


def _living(folder: AttemptFolder) -> psutil.Process | None:
    facts = read_json(folder.supervisor)
    if facts is None or not folder.supervised():
        return None
    process = psutil.Process(facts["pid"])
    return process if process.create_time() == facts["created_s"] else None


def kill_marked(attempt_id: str) -> bool:
    """Kill whatever carries this attempt's mark; True while something did."""
    found = False
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == attempt_id:
                found = process.status() != psutil.STATUS_ZOMBIE or found
                process.kill()
        except psutil.Error:
            continue
    return found


def kill_those_in(folder: AttemptFolder) -> bool:
    """End who can write in an attempt's folder; of another account nobody, whatever a job handed them."""
    account = (read_json(folder.plan) or {}).get("account")
    uid = None if account is None else int(account["uid"])
    return kill_holders(folder.path.resolve() / folder.run.name, uid=uid)
