"""Saves a tree: CRIU writes it down while it stands still, then all that CRIU leaves out.

What fails half-way leaves the tree running and nothing on the disk.
"""

from __future__ import annotations

import math
import os
import platform
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation import process_image as images
from gpucommons.gpu.hibernation import refusals
from gpucommons.gpu.hibernation.inside import (
    checks_before_save,
    criu_runs,
    gpu_memory,
    open_files,
    processes,
    shared_memory,
)
from gpucommons.gpu.hibernation.inside.tree_settings import TreeSettings

_LEAST_S = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What a save may take in all: time, and bytes as far as they can be told before; None = any."""

    timeout_s: float
    most_bytes: int | None = None
    #: So long after its time CRIU may still let go of the processes.
    let_go_s: float = math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class _Begun:
    """When a save began, until when it may go on, and what is known of what it wrote."""

    at_s: float
    deadline: images.Deadline
    #: When CRIU has to have let go of the processes.
    ends_at_s: float
    checksums: images.Checksums

    @classmethod
    def now(cls, partial: Path, bounds: Bounds) -> _Begun:
        """A save into this folder."""
        at_s = time.monotonic()
        deadline = images.Deadline(at_s + bounds.timeout_s)
        return cls(
            at_s=at_s,
            deadline=deadline,
            ends_at_s=at_s + bounds.timeout_s + bounds.let_go_s,
            checksums=images.Checksums(partial, deadline),
        )

    @property
    def rest_s(self) -> float:
        """What is left of the time; CRIU wants some."""
        return max(_LEAST_S, self.deadline.at_s - time.monotonic())


def save(
    settings: TreeSettings,
    root_pid: int,
    *,
    pipes: Mapping[int, str],
    bounds: Bounds,
    on_host: gpu_memory.OnHost,
) -> dict[str, Any]:
    """Save the tree below this process and leave it standing still; or a refusal, and it runs on.

    ``on_host`` is what it holds of GPUs that it has not got back since it was woken.
    """
    partial = settings.folder / layout.SAVING
    begun = _Begun.now(partial, bounds)
    layout.discard(partial)
    parked = on_host
    try:
        partial.mkdir(mode=0o700)
        because = checks_before_save.mapped_slice()
        if because is None:
            left = gpu_memory.leave(settings.driver, on_host, bounds.timeout_s)
            if isinstance(left, str):
                because = left
            else:
                parked = left
        because = (
            because
            or checks_before_save.unsavable_process()
            or checks_before_save.too_little_space(partial, bounds.most_bytes)
            or _dump(settings, root_pid, pipes, begun)
            or checks_before_save.unaccepted_connection()
        )
        if because is None:
            image = _complete(partial, root_pid, pipes, begun, parked)
            begun.deadline.check()
            layout.discard(settings.folder / layout.COMPLETE)
            partial.rename(settings.folder / layout.COMPLETE)
            return {"saved": {"image_bytes": image.bytes, "seconds": image.seconds}}
    except TimeoutError:
        because = refusals.of_save("", late=True)
    except OSError as error:
        because = refusals.of_disk(error)
    return _refused(settings, root_pid, because, parked)


def _refused(
    settings: TreeSettings, root_pid: int, because: str, parked: gpu_memory.OnHost
) -> dict[str, Any]:
    """It runs on, and nothing of the save is left."""
    _go_on()
    layout.discard(settings.folder / layout.SAVING)
    stays = gpu_memory.come_back(settings.driver, parked)
    if stays is not None:
        because = f"{because} {stays}"
    return {"refused": because, "alive": processes.lives(root_pid)}


def _dump(
    settings: TreeSettings,
    root_pid: int,
    pipes: Mapping[int, str],
    begun: _Begun,
) -> str | None:
    partial = settings.folder / layout.SAVING
    arguments = ["dump", "-t", str(root_pid), "-o", layout.DUMP_LOG, "--leave-stopped"]
    if settings.close_connections:
        arguments.append("--tcp-close")
    for pipe in sorted(set(pipes.values())):
        arguments += ["--external", pipe]
    patience = criu_runs.Patience(timeout_s=begun.rest_s, ends_at_s=begun.ends_at_s)
    meanwhile = begun.checksums.advance
    done = criu_runs.criu(settings, arguments, partial, patience, meanwhile=meanwhile)
    if done.ok:
        return None
    log = partial / layout.DUMP_LOG
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    with suppress(OSError):
        log.replace(settings.folder / layout.DUMP_LOG)
    return refusals.of_save(text, late=done.late)


def _complete(
    partial: Path,
    root_pid: int,
    pipes: Mapping[int, str],
    begun: _Begun,
    parked: gpu_memory.OnHost,
) -> images.Image:
    """Add what CRIU leaves out, while everything stands still."""
    # The clocks go on while CRIU writes; what sleeps has slept until now.
    clocks = {
        "monotonic": time.clock_gettime_ns(time.CLOCK_MONOTONIC),
        "boottime": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    }
    shared_memory.pack(partial / layout.SHARED_MEMORY, begun.deadline)
    files = begun.checksums.describe()
    numbers = processes.numbers()
    image = images.Image(
        folder=partial,
        bytes=sum(file.bytes for file in files),
        made_ms=time.time_ns() // 1_000_000,
        seconds=round(time.monotonic() - begun.at_s, 3),
        processes=numbers,
        root_pid=root_pid,
        uid=os.getuid(),
        kernel_release=platform.release(),
        cpu=images.this_cpu(),
        clocks_ns=clocks,
        pipes=pipes,
        files=files,
        open_files=open_files.of(numbers),
        parked=parked.pids,
        gpus=parked.gpus,
    )
    images.write(image)
    return image


def _go_on() -> None:
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGCONT)
