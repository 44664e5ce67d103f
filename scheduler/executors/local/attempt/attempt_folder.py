"""One attempt on disk: what scheduler and supervisor tell each other, in files that survive both.

The folder is the service's own; only ``run/`` below it belongs to the job's user. A file appears whole
or not at all. The lock is the proof of life: the supervisor holds it as long as it lives, so no pid
needs to be believed.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.scheduler.files.durable_files import write_whole

_LOOK_AGAIN_S = 0.01


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """The paths of one attempt."""

    path: Path

    @property
    def plan(self) -> Path:
        """What the supervisor is to do."""
        return self.path / "plan.json"

    @property
    def lock(self) -> Path:
        """Held by the living supervisor."""
        return self.path / "lock"

    @property
    def supervisor(self) -> Path:
        """Written once, before any worker starts: from then on no second supervisor may begin."""
        return self.path / "supervisor.json"

    @property
    def started(self) -> Path:
        """All workers run."""
        return self.path / "started.json"

    @property
    def stop(self) -> Path:
        """The order to stop, with the time of SIGKILL."""
        return self.path / "stop.json"

    @property
    def signalled(self) -> Path:
        """SIGTERM was sent."""
        return self.path / "signalled.json"

    @property
    def memory(self) -> Path:
        """How much saving it would write, as last seen while it ran."""
        return self.path / "memory.json"

    @property
    def saving(self) -> Path:
        """How much of its user's limit its image may take, from the save on; ``exit`` tells it then."""
        return self.path / "saving.json"

    @property
    def exit(self) -> Path:
        """How it ended; written when all its processes are gone."""
        return self.path / "exit.json"

    @property
    def given_back(self) -> Path:
        """What became of the files that it made; written once they were copied, or could not be."""
        return self.path / "given-back.json"

    @property
    def notice(self) -> Path:
        """Announced stop, for the job to read."""
        return self.path / "notice" / "notice.json"

    @property
    def run(self) -> Path:
        """The job's own: ``work``, ``checkpoints``, ``results``."""
        return self.path / "run"

    def log(self, rank: int) -> Path:
        """What a worker printed."""
        return self.path / "logs" / f"rank-{rank}.log"

    def supervised(self) -> bool:
        """Whether a supervisor lives."""
        try:
            descriptor = os.open(self.lock, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def hold_lock(self, *, patience_s: float = 0.0) -> int | None:
        """Take the lock for good; None when another supervisor has it. The kernel lets go of it.

        Whoever asks whether a supervisor lives has it for an instant, too: have patience where that
        must not count as another one.
        """
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        until_s = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until_s:
                    os.close(descriptor)
                    return None
                time.sleep(_LOOK_AGAIN_S)
            else:
                return descriptor


class Records:
    """Documents that are written now, or when the disk takes them: a full one is no reason to end a job."""

    def __init__(self) -> None:
        self._unwritten: dict[Path, Mapping[str, Any]] = {}

    def write(self, path: Path, document: Mapping[str, Any]) -> None:
        """Have this document lie there."""
        self._unwritten[path] = document
        self.are_written()

    def are_written(self) -> bool:
        """Try again with what the disk would not take; whether nothing is left."""
        with suppress(OSError):
            for path, document in list(self._unwritten.items()):
                write_json(path, document)
                del self._unwritten[path]
        return not self._unwritten


def write_json(path: Path, document: Mapping[str, Any], *, mode: int = 0o600) -> None:
    """Write a small document so that it is there whole after a crash, or not at all."""
    write_whole(path, json.dumps(document).encode(), mode=mode)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a document; None when it is not there."""
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
