"""Random histories of real processes: whoever saves and wakes them is killed (-9) at any moment.

A script counts in memory and writes each step down. A step that stands there twice was done by two, or
again; an image that was said to be complete and is gone, although nothing of it ever ran, was lost.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree

_ROUNDS = 4
_SECONDS = 120
_COUNTING = """
import os, sys, time
ballast, step = os.urandom(1 << 20) * 32, 0
history = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    step += 1
    os.write(history, b"%d\\n" % step)
    time.sleep(0.005)
"""
_SAVING = """
import json, sys
from pathlib import Path
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Saved
answer = HibernatableTree(Path(sys.argv[1]), Criu(command=(), version="")).save(60)
print("saved" if isinstance(answer, Saved) else answer.because, flush=True)
"""


def kills_row(criu: Criu, place: Path, seeds: range) -> dict[str, object]:
    """Play one for each seed."""
    counts = dict.fromkeys(("saves", "wakes", "kills", "doubled", "lost"), 0)
    for seed in seeds:
        _History(criu, place / f"kills-{seed}", random.Random(seed), counts).play()  # noqa: S311 - the same again
    return {"what": "kills", "histories": len(seeds), "first": seeds.start, **counts}


class _History:
    def __init__(self, criu: Criu, folder: Path, chance: random.Random, counts: dict[str, int]):
        folder.mkdir()
        self._file, self._chance, self._counts = folder / "history", chance, counts
        self._tree = HibernatableTree(folder / "tree", criu)
        self._tree.folder.mkdir(mode=0o700)
        self._runs: subprocess.Popen[bytes] | None = None

    def play(self) -> None:
        command = [sys.executable, "-u", "-c", _COUNTING, str(self._file)]
        self._runs = _started(self._tree.run_command(command))
        for _ in range(_ROUNDS):
            if not self._goes_on() or not self._saved() or not self._woken():
                break
        if self._runs is not None:
            _end(self._runs)
        self._tree.settled(_SECONDS)
        steps = [int(line) for line in self._file.read_text().split()]
        self._counts["doubled"] += steps != list(range(1, len(steps) + 1))

    def _goes_on(self) -> bool:
        """Whether it does more steps."""
        before, end = self._steps(), time.monotonic() + _SECONDS
        while self._steps() < before + 5:
            if time.monotonic() > end:
                self._counts["lost"] += 1
                return False
            time.sleep(0.01)
        return True

    def _steps(self) -> int:
        return self._file.read_bytes().count(b"\n") if self._file.exists() else 0

    def _saved(self) -> bool:
        """Whether there is an image; who asks for it, or stands for the tree, may be killed."""
        asks = subprocess.Popen(
            [sys.executable, "-c", _SAVING, str(self._tree.folder)], stdout=subprocess.PIPE
        )
        assert self._runs is not None
        self._perhaps_kill(asks if self._chance.random() < 0.5 else self._runs)
        said, _ = asks.communicate(timeout=_SECONDS)
        if said.startswith(b"saved"):
            self._tree.settled(_SECONDS)
            self._counts["lost"] += self._tree.image() is None
        elif self._runs.poll() is None and self._tree.image() is None:
            # Who asked was killed: it was saved all the same, or runs on.
            time.sleep(0.5)
        if self._tree.image() is not None:
            self._counts["saves"] += 1
            self._runs.wait()
            return True
        return False

    def _woken(self) -> bool:
        """Whether it lives again; a wake that is killed is repeated as long as there is an image."""
        while self._tree.image() is not None:
            self._runs = _started(self._tree.wake_command())
            if not self._perhaps_kill(self._runs) and self._tree.awake(_SECONDS) is None:
                self._counts["wakes"] += 1
                return True
            _end(self._runs)
            self._tree.settled(_SECONDS)
        return False

    def _perhaps_kill(self, process: subprocess.Popen[bytes]) -> bool:
        if self._chance.random() < 0.5:
            return False
        time.sleep(self._chance.random() * 0.6)
        process.kill()
        process.wait()
        self._counts["kills"] += 1
        return True


def _started(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
