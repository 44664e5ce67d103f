"""An executor: each worker is a process of this machine, without GPUs, as the scheduler's own account.

What it shows is how little an executor may rely on: it can be killed at any moment, and is asked the
same thing again afterwards. So what it knows lies in files, and a second start does nothing. Not shown:
checkpoints, results, and a SIGKILL that comes also while no scheduler runs.
"""

import os
import signal
import socket
import subprocess
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptSignalled,
    AttemptStarted,
    Observation,
)
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Millis, NodeId
from gpucommons.scheduler.executors.base import Found, Launch, Live, Place, gang_of
from gpucommons.scheduler.executors.plugin import Offer
from gpucommons.scheduler.files.log_reader import LogChunk, read_log
from gpucommons.scheduler.launchers import starts

#: `set -C`: of two shells that begin the same worker, one can make the file and goes on. Signals reach
#: the whole group; the shell ignores them, so that it can write down how its command ended.
WORKER = """set -C; echo $$ 2>/dev/null >"$0/pid" || exit 0
trap : TERM USR1
"$@" >"$0/log" 2>&1 </dev/null
echo $? >"$0/exit.part" && mv "$0/exit.part" "$0/exit"
"""


class BareExecutor:
    name = "bare"

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._known: dict[AttemptId, Attempt] = {}

    def nodes(self) -> tuple[Node, ...]:
        return tuple(
            Node(
                node_id=NodeId(f"{socket.gethostname()}-{pool.name}"),
                pool=pool.name,
                devices=(),
                cpu_milli=4000,
                memory_mib=8192,
            )
            for pool in self._offer.pools()
        )

    def start(self, launch: Launch) -> None:
        attempt = launch.attempt
        self._known[attempt.attempt_id] = attempt
        places = [
            Place(address="127.0.0.1", ports=(20_000 + rank,))
            for rank in range(len(attempt.placements))
        ]
        joined = starts(launch.workload.spec.launcher, gang_of(launch, places))
        for rank, start in enumerate(joined):
            folder = self._folder(attempt, rank)
            work = folder / "work"
            if (folder / "pid").exists():
                continue
            work.mkdir(parents=True, exist_ok=True)
            if launch.workload.spec.snapshot and self._offer.snapshot_path:
                with tarfile.open(
                    self._offer.snapshot_path(launch.workload.spec.snapshot)
                ) as files:
                    files.extractall(work, filter="data")
            env = {
                "PATH": os.environ["PATH"],
                "GPUCOMMONS_JOB_ID": launch.workload.workload_id,
                "GPUCOMMONS_RANK": str(rank),
                **launch.workload.spec.env,
                **start.env,
            }
            # In a session of its own, and no child of the scheduler: it may end first.
            command = ["setsid", "--fork", "sh", "-c", WORKER, str(folder), *start.command]
            subprocess.run(command, cwd=work, env=env, check=True)

    def announce(self, attempt: Attempt) -> None:
        self._known[attempt.attempt_id] = attempt

    def spare(self, attempt: Attempt) -> None:
        self._known[attempt.attempt_id] = attempt

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        self._known[attempt.attempt_id] = attempt
        self._kill(attempt, signal.SIGTERM)
        for rank in range(len(attempt.placements)):
            (self._folder(attempt, rank) / "told").touch()

    def adopt(self, known: Sequence[Attempt]) -> tuple[Live, ...]:
        self._known = {one.attempt_id: one for one in known}
        return tuple(
            Live(attempt_id=one.attempt_id, running=True)
            for one in known
            if (self._folder(one, 0) / "pid").exists()
        )

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        return ()

    def observe(self) -> tuple[Observation, ...]:
        return tuple(seen for one in list(self._known.values()) for seen in self._look(one))

    def _look(self, attempt: Attempt) -> list[Observation]:
        ranks = range(len(attempt.placements))
        folders = [self._folder(attempt, rank) for rank in ranks]
        if not all((folder / "pid").exists() for folder in folders):
            return []
        stop = attempt.stop
        if stop and stop.signalled and self._offer.now_ms() >= stop.kill_ms:
            self._kill(attempt, signal.SIGKILL)
        found: list[Observation] = [AttemptStarted(attempt_id=attempt.attempt_id)]
        told = all((folder / "told").exists() for folder in folders)
        if told:
            found.append(AttemptSignalled(attempt_id=attempt.attempt_id))
        codes = [_exit_code(folder) for folder in folders]
        if any(codes) and not all(code is not None for code in codes):
            self._kill(attempt, signal.SIGTERM)  # a gang ends whole
        if all(code is not None for code in codes):
            worst = max((code or 0 for code in codes), key=abs)
            found.append(AttemptEnded(attempt_id=attempt.attempt_id, exit_code=worst, told=told))
        return found

    def forget(self, attempt_id: AttemptId) -> None:
        self._known.pop(attempt_id, None)

    def log(self, attempt: Attempt, *, rank: int, offset: int, limit_bytes: int) -> LogChunk:
        folder = self._folder(attempt, rank)
        over = _exit_code(folder) is not None
        return read_log(folder / "log", offset=offset, limit_bytes=limit_bytes, over=over)

    def rest(self) -> None:
        self._known.clear()

    def close(self) -> None:
        """Nothing to let go of."""

    def _folder(self, attempt: Attempt, rank: int) -> Path:
        return self._offer.state / attempt.attempt_id / str(rank)

    def _kill(self, attempt: Attempt, what: int) -> None:
        for rank in range(len(attempt.placements)):
            folder = self._folder(attempt, rank)
            if _exit_code(folder) is None:
                with suppress(OSError, ValueError):
                    os.killpg(int((folder / "pid").read_text()), what)


def _exit_code(folder: Path) -> int | None:
    """None while it runs; -9 where its shell is gone and wrote nothing down."""
    runs = _runs(folder)  # asked first: it may end and write in between
    with suppress(OSError, ValueError):
        code = int((folder / "exit").read_text())
        return code if code < 128 else 128 - code
    return None if runs else -9


def _runs(folder: Path) -> bool:
    with suppress(OSError):
        shell = Path("/proc", (folder / "pid").read_text().strip(), "cmdline").read_bytes()
        return str(folder).encode() in shell
    return False
