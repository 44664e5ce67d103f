"""What an executor writes into an attempt's folder for its supervisor, and how it reads the end there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import AttemptId, Stop
from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    read_json,
    write_json,
)
from gpucommons.scheduler.working_folder.reported_image import hibernation_of, process_image


def announce(folder: AttemptFolder, stop: Stop | None) -> bool:
    """Leave the notice of a stop; whether there is one that the supervisor must hand on."""
    if stop is None or folder.notice.exists() or not folder.path.exists():
        return False
    document = {
        "why": stop.why,
        "text": stop.text,
        "announced_ms": stop.announced_ms,
        "term_ms": stop.term_ms,
        "kill_ms": stop.kill_ms,
        "signal": stop.notice_signal,
    }
    write_json(folder.notice, document, mode=0o644)
    return bool(stop.notice_signal)


def spare(folder: AttemptFolder) -> None:
    """Take a notice back, unless the stop has come."""
    if not folder.stop.exists():
        folder.notice.unlink(missing_ok=True)


def order_stop(folder: AttemptFolder, kill_ms: int, *, hibernates: bool = False) -> bool:
    """Order the stop, the earliest time to kill counts; whether the supervisor may not know it yet."""
    order = read_json(folder.stop)
    is_news = order is None or order["kill_ms"] > kill_ms
    if is_news:
        write_json(folder.stop, {"kill_ms": kill_ms, "hibernates": hibernates})
    return is_news or not folder.signalled.exists()


def end_of(folder: AttemptFolder, result: Mapping[str, Any]) -> AttemptEnded:
    """What its supervisor, or whoever found it dead, wrote down of an attempt's end."""
    return AttemptEnded(
        attempt_id=AttemptId(folder.path.name),
        exit_code=result["exit_code"],
        start_failed=result["start_failed"],
        killed=result["killed"],
        text=result["text"],
        files_kept=result.get("kept", {}).get("files"),
        # Of an attempt that began under an earlier release only the signal is known.
        told=result.get("told", folder.signalled.exists()),
        finished=result.get("finished", False),
        image=process_image(result.get("image") or {}),
        not_saved=result.get("not_saved", ""),
        hibernation=hibernation_of(result),
    )
