"""Runs CRIU inside the tree's namespaces, with the capabilities it needs and a deadline."""

from __future__ import annotations

import math
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpucommons.gpu.hibernation.inside.by_root import rights
from gpucommons.gpu.hibernation.inside.tree_settings import TreeSettings

#: Where a folder is found that no other path leads to.
OPENED = Path("/proc/self/fd")
_GHOST_LIMIT = 1 << 30
#: Between the end of its time and its end: on a busy machine it needs seconds to let go, and who is killed
#: with processes in its hands ends them, too. Whoever has less time says when it has to be over.
_LET_GO_S = 20.0
_LOOK_S = 0.005
_FLAGS = (
    "--unprivileged", "-v4", "--file-locks", "--manage-cgroups=ignore",
    "--ghost-limit", str(_GHOST_LIMIT),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long a run of CRIU may take."""

    timeout_s: float
    #: Of the monotonic clock: from then on nobody waits for it to let go of the processes.
    ends_at_s: float = math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """How a run of CRIU ended."""

    ok: bool
    seconds: float
    #: It was ended because its time was over.
    late: bool = False


def criu(
    settings: TreeSettings,
    arguments: Sequence[str],
    images: Path,
    patience: Patience,
    *,
    meanwhile: Callable[[], bool] = lambda: False,
) -> Run:
    """Dump to or restore from this folder; ``meanwhile`` does a piece of other work, if there is one.

    Raises
    ------
    OSError
        When CRIU cannot be started.
    """
    started, timeout_s = time.monotonic(), patience.timeout_s
    # It gives up freezing by itself a little earlier, and then it cleans up what it touched.
    own_limit = max(1, int(timeout_s))
    full = [*settings.criu, *arguments, "-D", str(images), *_FLAGS, "--timeout", str(own_limit)]
    with subprocess.Popen(
        full,
        stdin=subprocess.DEVNULL,
        pass_fds=_inherited(arguments, images),
        preexec_fn=partial(_prepare, settings),  # noqa: PLW1509 - PID 1 has one thread
        env={"PATH": os.defpath, "LC_ALL": "C"},
    ) as process:
        try:
            late = False
            _wait(process, started + timeout_s, meanwhile)
        except subprocess.TimeoutExpired:
            late = True
            _end(process, patience.ends_at_s)
        code = process.wait()
    return Run(ok=code == 0 and not late, seconds=time.monotonic() - started, late=late)


def _wait(process: subprocess.Popen[bytes], until_s: float, meanwhile: Callable[[], bool]) -> None:
    while process.poll() is None:
        if time.monotonic() >= until_s:
            raise subprocess.TimeoutExpired(process.args, until_s)
        if not meanwhile():
            time.sleep(_LOOK_S)


def _end(process: subprocess.Popen[bytes], ends_at_s: float) -> None:
    """Have it give up: it can write no more, so it lets go of the processes as with a full disk.

    Killed in the middle it would leave code of its own in them.
    """
    with suppress(OSError):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(_LET_GO_S, ends_at_s - time.monotonic())))
    process.kill()


def _inherited(arguments: Sequence[str], images: Path) -> tuple[int, ...]:
    """The descriptors that CRIU hands to what it wakes, and that by which it reaches the image."""
    named = [text for text in arguments if text.startswith("fd[")]
    reached = [int(images.name)] if images.is_relative_to(OPENED) else []
    return (*(int(text[3 : text.index("]")]) for text in named), *reached)


def _prepare(settings: TreeSettings) -> None:
    rights.hand_on(settings)
    # A limit of its files is an error that it handles, not its end.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
