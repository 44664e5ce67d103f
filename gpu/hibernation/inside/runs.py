"""Runs CRIU inside the tree's namespaces, with the two capabilities it needs and a deadline."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.hibernation.inside import calls

_GHOST_LIMIT = 1 << 30
_FLAGS = (
    "--unprivileged", "-v4", "--file-locks", "--manage-cgroups=ignore",
    "--ghost-limit", str(_GHOST_LIMIT),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """How a run of CRIU ended."""

    ok: bool
    seconds: float
    #: It was ended because its time was over.
    late: bool = False


def criu(
    command: Sequence[str], arguments: Sequence[str], images: Path, *, timeout_s: float
) -> Run:
    """Dump to or restore from this folder.

    Raises
    ------
    OSError
        When CRIU cannot be started.
    """
    started = time.monotonic()
    # It gives up freezing by itself a little earlier, and then it cleans up what it touched.
    own_limit = max(1, int(timeout_s))
    full = [*command, *arguments, "-D", str(images), *_FLAGS, "--timeout", str(own_limit)]
    with subprocess.Popen(
        full,
        stdin=subprocess.DEVNULL,
        pass_fds=_inherited(arguments),
        preexec_fn=_with_two_capabilities,  # noqa: PLW1509 - PID 1 has one thread
        env={"PATH": os.defpath, "LC_ALL": "C"},
    ) as process:
        try:
            late = False
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            late = True
            process.kill()
        code = process.wait()
    return Run(ok=code == 0 and not late, seconds=time.monotonic() - started, late=late)


def _inherited(arguments: Sequence[str]) -> tuple[int, ...]:
    """The descriptors that CRIU hands to what it wakes."""
    named = [text for text in arguments if text.startswith("fd[")]
    return tuple(int(text[3 : text.index("]")]) for text in named)


def _with_two_capabilities() -> None:
    # All of them would make CRIU change to users that are not mapped here.
    calls.keep_only((calls.CHECKPOINT_RESTORE, calls.SYS_PTRACE))
