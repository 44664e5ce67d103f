"""Where CRIU is on this machine.

Debian's packages of 2026 before 4.2 fail on today's kernels, so an older one counts as none. A CRIU
that was unpacked into a folder is started through its own loader: nothing of the system is touched.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.hibernation import preload
from gpucommons.gpu.linux.state_home import state_home

#: The first version that saves and wakes on current kernels, and has no hole in external mounts.
OLDEST = (4, 2)
VARIABLE = "GPUCOMMONS_CRIU"
_LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
_SECONDS = 10
_LAST_SYSTEM_GROUP = 999


@dataclass(frozen=True, kw_only=True, slots=True)
class Criu:
    """A CRIU that can be started."""

    #: The program with its loader, where it needs one.
    command: tuple[str, ...]
    version: str


def find_criu(environ: Mapping[str, str]) -> Criu | None:
    """The CRIU to use: named by the variable, else made by ``setup``, else the system's."""
    named = environ.get(VARIABLE)
    if named:
        return criu_at(Path(named))
    own = criu_at(state_folder(environ) / "root")
    if own is not None:
        return own
    found = shutil.which("criu", path=_path(environ))
    return criu_at(Path(found)) if found else None


def criu_at(place: Path) -> Criu | None:
    """The CRIU that is this program, or lies unpacked in this folder; None if it is too old."""
    command = _in_folder(place) if place.is_dir() else None
    if place.is_file():
        command = (str(place),)
    # Only what was looked at is started: a link on the way may lead elsewhere by then.
    command = _resolved(command) if command else None
    version = _version(command) if command and _is_trusted(command) else None
    if command is None or version is None or _numbers(version) < OLDEST:
        return None
    return Criu(command=_with_preload(command), version=version)


def _resolved(command: tuple[str, ...]) -> tuple[str, ...] | None:
    try:
        return tuple(
            word if word.startswith("--") else str(Path(word).resolve(strict=True))
            for word in command
        )
    except (OSError, RuntimeError):  # gone meanwhile, or links in a circle
        return None


def _is_trusted(command: tuple[str, ...]) -> bool:
    """Whether nobody but this user and root can put something else in its place.

    ``sudo`` may leave the variables of the user who called: root does not run what lies in their home.
    """
    trusted = {0, os.geteuid()}
    places = [Path(word) for word in command if word.startswith("/")]
    try:
        return all(
            _is_kept_by(place, trusted, above=False)
            and all(_is_kept_by(folder, trusted, above=True) for folder in place.parents)
            for place in places
        )
    except OSError:
        return False


def _is_kept_by(place: Path, trusted: set[int], *, above: bool) -> bool:
    found = place.lstat()
    if found.st_uid not in trusted or stat.S_ISLNK(found.st_mode):
        return False
    if above and found.st_mode & stat.S_ISVTX:
        return True  # like /tmp: what is trusted's own in it, no other can move away
    if found.st_mode & stat.S_IWOTH:
        return False
    return not found.st_mode & stat.S_IWGRP or _is_group_of(place, found.st_gid, trusted)


def _is_group_of(place: Path, gid: int, trusted: set[int]) -> bool:
    """Whether the group that may write has no members but these.

    Distributions make such folders: Debian's /usr/local/sbin is of the group staff, which is empty
    until an admin puts somebody in, and homes with the umask 002 are of the user's own group.
    A directory service may keep its members to itself, so root trusts groups of the system only.
    """
    import grp  # noqa: PLC0415 - only where there are such groups
    import pwd  # noqa: PLC0415

    if "system.posix_acl_access" in os.listxattr(place):
        return False  # the group's bits then stand for others, too
    if gid == 0:
        return True
    if os.geteuid() == 0 and gid > _LAST_SYSTEM_GROUP:
        return False
    try:
        members = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(gid).gr_mem}
    except KeyError:
        return False
    return members | {one.pw_uid for one in pwd.getpwall() if one.pw_gid == gid} <= trusted


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where ``setup`` puts CRIU for this user."""
    return state_home(environ) / "gpucommons" / "criu"


def _path(environ: Mapping[str, str]) -> str:
    # Distributions put it where only root's path leads.
    return os.pathsep.join([environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"])


def _in_folder(root: Path) -> tuple[str, ...] | None:
    """How an unpacked CRIU is started: by the loader and the libraries beside it."""
    machine = platform.machine()
    libraries = root / "usr" / "lib" / f"{machine}-linux-gnu"
    loader = libraries / _LOADERS.get(machine, "")
    program = root / "usr" / "sbin" / "criu"
    if not (loader.is_file() and program.is_file()):
        return None
    return (str(loader), "--library-path", str(libraries), str(program))


def _with_preload(command: tuple[str, ...]) -> tuple[str, ...]:
    """So that it works below a container's system call filter, too."""
    library = preload.for_criu()
    if library is None or set(str(library)) & {" ", ":"}:  # both end a path there
        return command
    loader, *rest = command
    if rest:
        return (loader, "--preload", str(library), *rest)
    env = shutil.which("env")
    return (env, f"LD_PRELOAD={library}", loader) if env else command


def _version(command: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"^Version: (\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
