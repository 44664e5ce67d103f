"""Whether notebook servers of an account could save their kernels on this machine, found out by trying.

Only the account itself can tell: its CRIU may lie in its own home, and some systems forbid namespaces.
So a small process is saved and woken as that account, once while the hub runs; what failed is tried
again, as somebody may have mended it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpucommons.gpu.hibernation import criu

#: A page does not wait for longer; until then it is not known.
_PAGE_WAITS_S = 2.0
_AGAIN_AFTER_S = 60.0
_TRIAL_S = 120.0
_PR_SET_NO_NEW_PRIVS = 38


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """Who tries; without an id, the hub's own."""

    #: By which CRIU and the folder for it are found.
    environ: tuple[tuple[str, str], ...]
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()


def criu_of_this_account() -> str | None:
    """What `gpucommons hibernation setup` got: servers have other homes, and would not find it."""
    named, own = os.environ.get(criu.VARIABLE), criu.state_folder(os.environ) / "root"
    return named or (str(own) if own.is_dir() else None)


def environ_of_trial(place: object, *, home: str | None = None) -> tuple[tuple[str, str], ...]:
    """By which a server finds its CRIU and its folder; of another account nothing else is the hub's."""
    names = ("PATH", "LANG") if home else ("PATH", "LANG", "HOME", "XDG_STATE_HOME")
    found = {name: os.environ[name] for name in names if name in os.environ}
    found |= {"HOME": home} if home else {}
    found |= {criu.VARIABLE: place} if isinstance(place, str) else {}
    return tuple(sorted(found.items()))


async def try_as(account: Account) -> bool:
    """Have the self-test run as this account.

    Raises
    ------
    OSError
        Where nothing can be run as it.
    TimeoutError
        Where it hangs.
    SubprocessError
        Where it could gain rights.
    """
    process = await asyncio.create_subprocess_exec(
        # Alone: nothing of that account's home runs with it, and it sees no GPU.
        *(sys.executable, "-I", "-m", "gpucommons.gpu.hibernation.self_test_program"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        env={**dict(account.environ), "CUDA_VISIBLE_DEVICES": ""},
        start_new_session=True,
        preexec_fn=_without_new_privileges(),
        user=account.uid,
        group=account.gid,
        extra_groups=None if account.uid is None else account.groups,
    )
    try:
        return await asyncio.wait_for(process.wait(), _TRIAL_S) == 0
    finally:
        # With whatever it left behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _without_new_privileges() -> Callable[[], None]:
    # Loaded before the fork: loading is not safe after it.
    libc = ctypes.CDLL(None, use_errno=True)

    def preexec() -> None:
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")

    return preexec


class KernelTrials:
    """Those of all accounts, while the hub runs."""

    def __init__(
        self,
        trial: Callable[[Account], Awaitable[bool]] = try_as,
        *,
        now: Callable[[], float] = time.monotonic,
        page_waits_s: float = _PAGE_WAITS_S,
    ) -> None:
        self._trial, self._now, self._page_waits_s = trial, now, page_waits_s
        self._tried: dict[Account, tuple[asyncio.Task[bool], float]] = {}

    async def outcome(self, account: Account) -> bool | None:
        """What came of it; None = not known yet."""
        task, begun_s = self._tried.get(account, (None, 0.0))
        if task is None or (_has_failed(task) and self._now() - begun_s >= _AGAIN_AFTER_S):
            task = asyncio.ensure_future(self._try(account))
            self._tried[account] = (task, self._now())
        await asyncio.wait((task,), timeout=self._page_waits_s)
        return task.result() if task.done() else None

    async def _try(self, account: Account) -> bool:
        try:
            return await self._trial(account)
        except (OSError, TimeoutError, subprocess.SubprocessError):
            return False


def _has_failed(task: asyncio.Task[bool]) -> bool:
    return task.done() and not task.result()


#: One hub has one machine.
TRIALS = KernelTrials()
