"""What the agent must know after a restart: the open slices, the roots of their processes, their last use.

Written whole and renamed into place, so a crash leaves the old file or the new one. Histories are
not kept: they are ten minutes of display.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.gpu.client import wire
from gpucommons.gpu.errors import BadAgentRequest
from gpucommons.gpu.slices.idle_signals import Activity
from gpucommons.gpu.slices.slice_processes import Roots
from gpucommons.gpu.slices.slices import GpuSlice

logger = logging.getLogger(__name__)

_VERSION = 1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedSlice:
    """One open slice."""

    slice: GpuSlice
    roots: Roots
    #: Its devices are chosen anew for every pod.
    later: bool = False
    #: It was used before the agent knew of it.
    unsure: bool = False
    #: Nothing of it may use its devices.
    parked: bool = False
    #: What was known of its activity; None = nothing was written of it.
    activity: Activity | None = None


class StateFile:
    """``open-slices.json`` in the agent's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._boot = _boot_id()
        #: Goes with what is on disk: where that is lost, the next is another.
        self.memory = uuid.uuid4().hex
        #: Whether nothing could be read: a first start, or what was there is lost.
        self.is_new = True

    def save(self, slices: Sequence[SavedSlice]) -> None:
        """Replace the file."""
        content = {
            "version": _VERSION,
            "boot": self._boot,
            "memory": self.memory,
            "slices": [
                wire.slice_json(saved.slice)
                | {
                    "roots": [[pid, start] for pid, start in saved.roots.starts.items()],
                    "uids": sorted(saved.roots.uids),
                    "groups": sorted(saved.roots.groups),
                    "pods": sorted(saved.roots.pods),
                    "later": saved.later,
                    "unsure": saved.unsure,
                    "parked": saved.parked,
                }
                | _activity_json(saved.activity)
                for saved in slices
            ],
        }
        replace_privately(self._path, json.dumps(content))

    def load(self) -> tuple[SavedSlice, ...]:
        """The slices of the last run; an unreadable file is set aside, not trusted."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            found = self._slices(content)
        except FileNotFoundError:
            return ()
        except (ValueError, TypeError, KeyError, BadAgentRequest) as error:
            aside = self._path.with_suffix(".unreadable")
            self._path.replace(aside)
            logger.warning(
                "%s cannot be read (%s); it was set aside as %s and no slice is open.",
                self._path, error, aside.name,
            )  # fmt: skip
            return ()
        self.memory = str(content.get("memory") or self.memory)
        self.is_new = False
        return found

    def _slices(self, content: Mapping[str, Any]) -> tuple[SavedSlice, ...]:
        if content["version"] != _VERSION:
            message = f"version {content['version']!r}"
            raise ValueError(message)
        # After a reboot the same pid and start may belong to something else.
        same_boot = content["boot"] == self._boot
        return tuple(
            SavedSlice(
                slice=wire.slice_from(saved),
                roots=Roots(
                    starts={int(p): int(s) for p, s in saved["roots"]} if same_boot else {},
                    uids={int(uid) for uid in saved["uids"]},
                    groups=set(map(str, saved.get("groups", ()))) if same_boot else set(),
                    pods=set(map(str, saved.get("pods", ()))) if same_boot else set(),
                ),
                later=bool(saved.get("later")),
                unsure=bool(saved.get("unsure")),
                parked=bool(saved.get("parked")),
                activity=_activity(saved) if "active_ms" in saved else None,
            )
            for saved in content["slices"]
        )


def _activity_json(activity: Activity | None) -> dict[str, int | None]:
    if activity is None:
        return {}
    return {"active_ms": activity.active_ms, "seen_ms": activity.seen_ms}


def _activity(saved: Mapping[str, Any]) -> Activity:
    """As it goes on after a restart."""
    active_ms, seen_ms = saved["active_ms"], saved.get("seen_ms")
    return Activity(
        active_ms=None if active_ms is None else int(active_ms),
        seen_ms=None if seen_ms is None else int(seen_ms),
        resumed=True,
    )


def replace_privately(path: Path, text: str) -> None:
    """Put a file in place, whole, that only the agent can read: it names everybody's slices.

    Raises
    ------
    OSError
        When the disk is full; then the file is what it was.
    """
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
