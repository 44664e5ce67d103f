"""Whether this machine can save and wake a process, found out by doing it.

Versions and settings say little: user namespaces, /proc, filters of system calls, AppArmor and the
file system all have a word. So a small process is saved and woken with the folder that will be used.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.inside.tree_settings import Account
from gpucommons.gpu.hibernation.scratch import remove_left, scratch
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused, this_process
from gpucommons.gpu.hibernation.unused_account import unused_account
from gpucommons.gpu.parking import self_test as parking

log = logging.getLogger(__name__)

_Process = subprocess.Popen[str]

_MIB = 1 << 20
_LOOK_S = 0.01
_USER_NAMESPACE = Path("/proc/self/ns/user")
#: Memory of the small process that cannot be left out as zeros.
_BALLAST_MIB = 64
_PROGRAM = """
import os, sys
ballast = os.urandom(1 << 20) * int(sys.argv[1])
print("ready", flush=True)
os.read(os.open(sys.argv[2], os.O_RDONLY), 1)
print(len(ballast) >> 20, os.getuid(), os.readlink("/proc/self/ns/user"), flush=True)
"""
NO_CRIU = (
    "There is no CRIU 4.2 or newer here; `gpucommons hibernation setup` gets one without root."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ability:
    """What a node can do with live processes."""

    can_hibernate: bool
    #: Why not; empty when it can.
    because: str = ""
    #: Measured on a small process, the disk's cache included; 0 when it cannot.
    save_mib_per_s: int = 0
    wake_mib_per_s: int = 0
    #: What the disk itself writes, its cache left out.
    disk_mib_per_s: int = 0
    #: Users may make no namespaces here, but root can start what is to be saved, as its user.
    by_root: bool = False
    #: Not even root may make one, so the one right that CRIU has counts on the whole machine.
    machine_wide: bool = False


def self_test(
    criu: Criu | None, folder: Path, timeout_s: float = 60, *, starter: Path | None = None
) -> Ability:
    """Save and wake a small process in this folder, and measure both.

    ``starter``: root's program above this server starts it, see :class:`HibernatableTree`.
    """
    if sys.platform != "linux":
        return _cannot("Only Linux can save live processes.")
    if criu is None:
        return _cannot(NO_CRIU)
    try:
        with scratch(folder) as place:
            return _try(criu, place, timeout_s, starter=starter)
    except OSError as error:
        return _cannot(f"The self-test could not run in {folder}: {error.strerror}.")


def gpu_self_test(criu: Criu, folder: Path, driver: Path, timeout_s: float = 60) -> str | None:
    """Why a process that holds memory of the GPU here cannot be saved and woken; None where it can.

    Found out with one, as in :func:`self_test`; that one passes first.
    """
    try:
        with scratch(folder) as place:
            return _try_gpu(criu, place, driver, timeout_s)
    except OSError as error:
        return f"The self-test could not run in {folder}: {error.strerror}."


def _try_gpu(criu: Criu, place: Path, driver: Path, timeout_s: float) -> str | None:
    go = place / "go"
    os.mkfifo(go, 0o600)
    tree = HibernatableTree(place / "tree", criu, driver=driver)
    (place / "tree").mkdir(mode=0o700)
    with _started(
        tree.run_command(parking.command(driver, go), alive=this_process()), timeout_s
    ) as process:
        ready = parking.line(process)
        if ready != "ready":
            return ready or "The small process did not start."
        saved = tree.save(timeout_s)
        if isinstance(saved, Refused):
            return saved.because
        process.wait(timeout_s)
    with _started(tree.wake_command(alive=this_process()), timeout_s) as process:
        refused = tree.awake(timeout_s)
        because = tree.why_parked() if refused is None else refused.because
        if because is not None:
            return because
        told = _let_go_on(go, process)
    return None if told == "same" else "The small process woke with another GPU memory."


def _try(
    criu: Criu,
    place: Path,
    timeout_s: float,
    *,
    account: Account | None = None,
    starter: Path | None = None,
) -> Ability:
    go, said = place / "go", place / "said"
    os.mkfifo(go, 0o600)
    output = None if starter is None else said
    tree = HibernatableTree(place / "tree", criu, account=account, starter=starter, output=output)
    lines = parking.line if output is None else _Written(output)
    (place / "tree").mkdir(mode=0o700)
    uid = os.getuid() if account is None else account.uid
    if account is not None:
        for path in (go, place / "tree", place):
            os.chown(path, account.uid, account.gid)
    program = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_BALLAST_MIB), str(go)]
    with _started(tree.run_command(program, alive=this_process()), timeout_s, uid) as process:
        ready = lines(process)
        if ready != "ready":
            return _cannot(ready or "The small process did not start.")
        saved = tree.save(timeout_s)
        if isinstance(saved, Refused):
            return _cannot(saved.because)
        process.wait(timeout_s)
    started = time.monotonic()
    with _started(tree.wake_command(alive=this_process()), timeout_s, uid) as process:
        refused = tree.awake(timeout_s)
        seconds = time.monotonic() - started
        if refused is not None:
            return _cannot(refused.because)
        told = _let_go_on(go, process, lines)
    memory, _, namespace = told.rpartition(" ")
    if memory != f"{_BALLAST_MIB} {uid}":
        return _cannot("The small process woke with another memory.")
    return Ability(
        can_hibernate=True,
        save_mib_per_s=_mib_per_s(saved.image_bytes, saved.seconds),
        wake_mib_per_s=_mib_per_s(saved.image_bytes, seconds),
        disk_mib_per_s=_disk(place),
        by_root=account is not None or starter is not None,
        machine_wide=namespace == str(_USER_NAMESPACE.readlink()),
    )


def _mib_per_s(count: int, seconds: float) -> int:
    return max(1, int(count / _MIB / max(seconds, 0.001)))


def _cannot(because: str) -> Ability:
    return Ability(can_hibernate=False, because=because)


def _let_go_on(go: Path, process: _Process, lines: Callable[[_Process], str] = parking.line) -> str:
    """What the woken process says once it may go on."""
    # Held for both ends: whether it opens the pipe now or a moment later, it goes on.
    held = os.open(go, os.O_RDWR)
    os.write(held, b"\n")
    told = lines(process)
    os.close(held)
    return told


class _Written:
    """What is printed into a file, line by line; in place of :func:`parking.line`."""

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, 0

    def __call__(self, process: subprocess.Popen[str]) -> str:
        """The next line; empty when the process has ended, then what that says."""
        while True:
            has_ended = process.poll() is not None
            text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
            line, end, _ = text[self._seen :].partition("\n")
            if end:
                self._seen += len(line) + 1
                return line.strip()
            if has_ended:
                return parking.line(process)
            time.sleep(_LOOK_S)


@contextmanager
def _started(
    words: list[str], timeout_s: float, uid: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    alive = this_process()
    with parking.started(
        words,
        timeout_s,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        handed=() if alive is None else (alive,),
    ) as process:
        if uid is not None and process.stdout is not None:
            # What wakes opens it again, as its user.
            os.fchown(process.stdout.fileno(), uid, -1)
        yield process


def _disk(place: Path) -> int:
    """Write some of what cannot be compressed, until the disk has it."""
    block = os.urandom(_MIB)
    path = place / "written"
    amount = min(_BALLAST_MIB, shutil.disk_usage(place).free // _MIB // 4)
    started = time.monotonic()
    with path.open("wb", buffering=0) as stream:
        for _ in range(amount):
            stream.write(block)
        os.fsync(stream.fileno())
    return max(1, int(amount / max(time.monotonic() - started, 0.001)))


def self_test_as_nobody(criu: Criu, folder: Path, timeout_s: float = 60) -> Ability:
    """The same by root, as an account that has less than any user: what it can save, users can."""
    # First: an account that still has processes is none that nobody has.
    remove_left(folder)
    return self_test_as(unused_account(), criu, folder, timeout_s)


def self_test_for_users(criu: Criu, folder: Path, timeout_s: float = 60) -> Ability:
    """The same by root, where it also starts what is to be saved: users need no namespaces then."""
    remove_left(folder)
    # One account for both: the folder is its own.
    uid = unused_account()
    alone = self_test_as(uid, criu, folder, timeout_s)
    if alone.can_hibernate:
        return alone
    try:
        with scratch(folder) as place:
            by_root = _try(criu, place, timeout_s, account=Account(uid=uid, gid=uid))
    except OSError as error:
        log.info("root could not try to save a process of a user's: %s", error)
        return alone
    if not by_root.can_hibernate:
        log.info("root cannot save a process of a user's: %s", by_root.because)
    return by_root if by_root.can_hibernate else alone


def self_test_as(uid: int, criu: Criu, folder: Path, timeout_s: float = 60) -> Ability:
    """The same as another account, by root: what root may do says little of what that one may.

    A CRIU below root's home cannot be run by it, and some systems forbid namespaces to users alone.
    """
    words = [sys.executable, "-m", __name__, json.dumps(criu.command), str(folder), str(timeout_s)]
    try:
        os.chown(folder, uid, uid)
        done = _run_as(uid, words, 3 * timeout_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _cannot(f"A user's self-test could not run: {error}.")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        return _cannot(f"A user's self-test failed: {last}.")
    return Ability(**json.loads(done.stdout))


def _run_as(uid: int, words: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd="/",
        env={name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        user=uid,
        group=uid,
        extra_groups=[],
    )


def _main(command: str, folder: str, timeout_s: str) -> None:
    calls.no_new_privileges()
    criu = Criu(command=tuple(json.loads(command)), version="")
    json.dump(asdict(self_test(criu, Path(folder), float(timeout_s))), sys.stdout)


if __name__ == "__main__":
    _main(*sys.argv[1:])
