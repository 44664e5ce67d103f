"""Plays the tour as another account of this machine, without any right: what root can do says little."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gpucommons.gpu.hibernation.criu import VARIABLE
from gpucommons.gpu.hibernation.inside import calls

_OTHERS_MAY_PASS = 0o001
_ENDS_WITHIN_S = 60


def play_as(uid: int, words: Sequence[str]) -> int:
    """Play the tour with these words as this account, which need not have a name; its exit code.

    It has a home of its own, which goes when the tour is over.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    with tempfile.TemporaryDirectory(prefix="gctour-home-", ignore_cleanup_errors=True) as home:
        os.chown(home, uid, uid)
        tour = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.tour", *words],
            env=kept | {"HOME": home, "USER": str(uid), "LOGNAME": str(uid)},
            preexec_fn=partial(_become, uid),  # noqa: PLW1509 - this process has no threads
        )
        try:
            return tour.wait()
        finally:
            tour.terminate()
            tour.wait(_ENDS_WITHIN_S)


def _become(uid: int) -> None:
    criu = os.environ.get(VARIABLE)
    let_pass_to([Path(sys.base_prefix), *([] if criu is None else [Path(criu)])])
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    calls.no_new_privileges()


def let_pass_to(needed: Sequence[Path]) -> None:
    """What lies in root's home is seen there by this process, and nothing beside it."""
    behind = {place: closed for place in needed if (closed := _closed_above(place)) is not None}
    if not behind:
        return
    calls.unshare(calls.NEWNS)
    calls.make_private()
    held = {one: os.open(one, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for one in behind}
    for closed in set(behind.values()):
        calls.mount("tmpfs", str(closed), "tmpfs", calls.NOSUID | calls.NODEV, "mode=755")
    for place, file in held.items():
        place.mkdir(parents=True)
        calls.mount(f"/proc/self/fd/{file}", str(place), "none", calls.BIND)


def _closed_above(place: Path) -> Path | None:
    """The topmost folder above it that others may not enter."""
    above = reversed(place.parents)
    return next((one for one in above if not one.stat().st_mode & _OTHERS_MAY_PASS), None)
