"""Starting a worker: the process that becomes its command, and where it says why it did not.

A worker's command may stand in a tree that can be saved, or be brought back from its image; what
stands before it is all that differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.inside.tree_settings import Account as TreeAccount
from gpucommons.gpu.hibernation.preload import library
from gpucommons.gpu.hibernation.tree import HibernatableTree, this_process
from gpucommons.gpu.linux.control_groups import enter
from gpucommons.scheduler.executors.local.attempt.plan import (
    MAX_REFUSAL_BYTES,
    PID_ONE,
    Account,
    Plan,
    WorkerPlan,
    as_user,
)
from gpucommons.scheduler.working_folder.own_image import own_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How a worker is started."""

    #: What stands before its command; for a wake it stands alone.
    prefix: tuple[str, ...] = ()
    #: Folders as (where they lie, where the processes saw them).
    places: tuple[tuple[str, str], ...] = ()
    woken_from: int | None = None


class Worker:
    """One worker's process, from before its command to its end."""

    def __init__(self, process: subprocess.Popen[bytes], refusal: int) -> None:
        self.process = process
        self._refusal: int | None = refusal
        self._refused = ""

    def output(self) -> IO[bytes]:
        """What it prints."""
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        return self.process.stdout

    def refused(self) -> str:
        """Why its command did not run, empty where that is not said; its status may be the command's."""
        if self._refusal is not None and not self._refused:
            # Never waited for: under a shared account another process may hold the pipe open.
            with suppress(BlockingIOError):
                said = os.read(self._refusal, MAX_REFUSAL_BYTES)
                self._refused = said.decode(errors="replace")
        return self._refused

    def end(self) -> None:
        """End it, and with it the tree that it stands for: both are gone when this returns."""
        self.process.kill()
        self.process.wait()


def start_worker(plan: Plan, worker: WorkerPlan, start: Start, run: Path) -> Worker:
    """Start one worker; it waits for nothing but its order, which it gets here.

    Raises
    ------
    OSError
        When it cannot be put under the limit of its slice.
    """
    refusal, write_end = os.pipe()
    os.set_blocking(refusal, False)
    planned, account = plan.hibernation, plan.account
    by_root = bool(start.prefix) and planned is not None and planned.by_root and account is not None
    words = [sys.executable, "-m", "gpucommons.scheduler.executors.worker"]
    # A worker that becomes its command dies with this process, and its command is not to hold it.
    alive = this_process() if by_root else None
    try:
        process = _begin(
            _by_root(plan, start, run, words, write_end) if by_root else words,
            [write_end] if alive is None else [write_end, alive],
            # A tree does not wait for its order, and what it starts has to be under the limit.
            cgroup=worker.cgroup if by_root else None,
            account=None if by_root else account,
        )
    except OSError:
        os.close(refusal)
        raise
    finally:
        os.close(write_end)
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    if worker.cgroup is not None and not by_root:
        # It waits for its order, so it has allocated nothing yet.
        enter(worker.cgroup, process.pid)
    if start.prefix and account is not None:
        # A woken process opens it again, as its user.
        os.fchown(process.stdout.fileno(), account.uid, account.gid)
    with suppress(BrokenPipeError), process.stdin:
        # Of what root wakes nothing reads an order, and more than a pipe holds would never be written.
        if not (by_root and start.woken_from is not None):
            order = {
                **_order(plan, worker, start, by_root=by_root),
                "cwd": str(run / "work" / plan.working_dir),
                "refusal": write_end,
            }
            process.stdin.write(json.dumps(order).encode())
    return Worker(process, refusal)


def _order(plan: Plan, worker: WorkerPlan, start: Start, *, by_root: bool) -> dict[str, object]:
    """What a worker is to become; what root wakes or starts stands in its tree already."""
    return {
        "command": () if start.woken_from is not None else worker.command,
        "prefix": () if by_root else start.prefix,
        "places": () if by_root else start.places,
        "env": _with_library(worker.env) if by_root else worker.env,
        "secrets": plan.secrets,
        "environment": plan.environment,
        "home": plan.home,
        "supervisor": PID_ONE if by_root else os.getpid(),
    }


def _begin(
    words: list[str], handed: list[int], *, cgroup: str | None, account: Account | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
            cwd="/",
            pass_fds=handed,
            preexec_fn=partial(enter, cgroup) if cgroup else None,  # noqa: PLW1509 - it only writes
            **as_user(account),
        )
    except subprocess.SubprocessError as error:
        # All that is told of what fails between fork and exec.
        message = f"{cgroup} took no process"
        raise OSError(message) from error


def _by_root(plan: Plan, start: Start, run: Path, worker: list[str], refusal: int) -> list[str]:
    """The worker in a tree that root starts; of what its user's errand says nothing is executed."""
    assert plan.hibernation is not None  # noqa: S101 - whoever asks has looked
    assert plan.account is not None  # noqa: S101 - as above
    account = plan.account
    tree = HibernatableTree(
        own_folder(run),
        Criu(command=plan.hibernation.criu, version=""),
        account=TreeAccount(uid=account.uid, gid=account.gid, groups=tuple(account.groups)),
    )
    alive = this_process()
    if start.woken_from is not None:
        return tree.words("wake", "--places", json.dumps(start.places), alive=alive)
    words = tree.words("run", "--has-order", "--handed", str(refusal), alive=alive)
    return [*words, "--", *worker]


def _with_library(env: Mapping[str, str]) -> dict[str, str]:
    """As a tree's start does it, for a command that is executed by the worker."""
    ours, own = library(), env.get("LD_PRELOAD")
    if ours is None:
        return dict(env)
    return {**env, "LD_PRELOAD": f"{ours}:{own}" if own else str(ours)}
