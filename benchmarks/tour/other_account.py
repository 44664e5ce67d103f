"""Plays the rest as another account of this machine, without any right: what root can do says little."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from benchmarks.tour.timeline import TourFailedError
from gpucommons.gpu.hibernation.inside import calls


def begin_again(uid: int, words: list[str]) -> NoReturn:
    """Be the tour with these words as this account, in a home of its own; it need not have a name.

    Raises
    ------
    TourFailedError
        Where there is no interpreter that it may run.
    """
    home = Path(tempfile.mkdtemp(prefix="gctour-home-"))
    interpreter = _interpreter(uid, home)
    os.chown(home, uid, uid)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    calls.no_new_privileges()
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    os.environ |= {"HOME": str(home), "USER": str(uid), "LOGNAME": str(uid)}
    os.execv(interpreter, [interpreter, "-m", "benchmarks.tour", *words])  # noqa: S606 - no shell


def _interpreter(uid: int, home: Path) -> str:
    """Ours, or where it lies in a closed folder the system's of the same version with our packages."""
    if _runs(sys.executable, uid):
        return sys.executable
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    other = shutil.which(version, path="/usr/local/bin:/usr/bin:/bin")
    if other is None or not _runs(other, uid):
        message = f"There is no {version} here that account {uid} may run."
        raise TourFailedError(message)
    script = home / "python"
    folders = os.pathsep.join(path for path in (str(Path.cwd()), *sys.path) if path)
    script.write_text(f"#!/bin/sh\nPYTHONPATH='{folders}' exec {other} \"$@\"\n", encoding="utf-8")
    script.chmod(0o755)
    return str(script)


def _runs(program: str, uid: int) -> bool:
    try:
        return not subprocess.run(
            [program, "-c", ""], user=uid, group=uid, extra_groups=[], check=False, cwd="/"
        ).returncode
    except OSError:
        return False
