"""When GPUs are free after a stop: of one large job, and of jobs that are stopped together on one disk.

Of those, who writes when is decided as for the product's jobs, by turns; who gets none in time is told
to leave.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Saved
from gpucommons.scheduler.executors.local.attempt.saving_turns import Turn, give_back, take_turn

VICTIMS, MIB, GRACE_S = 10, 1000, 30.0
LARGE_MIB, LARGE_TIMES, LARGE_SECONDS = 2000, 3, 300.0
#: What a stop may take besides writing, and at which share of the disk's speed that has to go.
ALLOWED_S, ALLOWED_PERCENT = 3.0, 80
#: As supervisors count it: beside the memory.
_ALWAYS_MS = 500
_LOOK_S = 0.05
_PROGRAM = """
import os, sys, time
memory = [os.urandom(1 << 20) for _ in range(int(sys.argv[1]))]
print("ready", flush=True)
time.sleep(3600)
"""


def large_rows(criu: Criu, place: Path) -> Iterator[dict[str, object]]:
    """One row a save. A disk's speed moves: it is measured before and after, and the slower one counts."""
    for number in range(LARGE_TIMES):
        folder = place / f"large-{number}"
        victim = _Victim(criu, folder, LARGE_MIB)
        victim.wait_ready()
        before = _disk_mib_per_s(place)
        begun = time.monotonic()
        save_s = victim.save(LARGE_SECONDS)
        free_s = time.monotonic() - begun
        disk = min(before, _disk_mib_per_s(place))
        shutil.rmtree(folder)
        yield {
            "what": "large",
            "mib": LARGE_MIB,
            "saved": save_s is not None,
            "free_s": round(free_s, 2),
            "allowed_s": round(ALLOWED_S + LARGE_MIB / (disk * ALLOWED_PERCENT / 100), 2),
            "disk_beside_mib_per_s": round(disk),
            "load": round(os.getloadavg()[0], 1),
        }


def _disk_mib_per_s(place: Path) -> float:
    """Write as much of what cannot be compressed, until the disk has it."""
    block, path = os.urandom(1 << 20), place / "beside"
    begun = time.monotonic()
    with path.open("wb", buffering=0) as stream:
        for _ in range(LARGE_MIB):
            stream.write(block)
        os.fsync(stream.fileno())
    seconds = time.monotonic() - begun
    path.unlink()
    return LARGE_MIB / seconds


def victims_row(criu: Criu, place: Path, rate_mib_per_s: int) -> dict[str, object]:
    """Start them, stop them all at once, and wait until the last of them is gone."""
    victims = [_Victim(criu, place / f"victim-{number}", MIB) for number in range(VICTIMS)]
    for one in victims:
        one.wait_ready()
    begun = time.monotonic()
    turns = place / "turns"
    with ThreadPoolExecutor(VICTIMS) as pool:
        saved = list(pool.map(lambda one: one.stop(turns, rate_mib_per_s), victims))
    free_s = time.monotonic() - begun
    return {
        "what": "victims",
        "victims": VICTIMS,
        "mib_each": MIB,
        "grace_s": GRACE_S,
        "saved": sum(one is not None for one in saved),
        "longest_save_s": round(max((one for one in saved if one is not None), default=0), 2),
        "all_free_s": round(free_s, 2),
        "in_grace": free_s <= GRACE_S,
        "load": round(os.getloadavg()[0], 1),
    }


class _Victim:
    def __init__(self, criu: Criu, folder: Path, mib: int) -> None:
        folder.mkdir(mode=0o700)
        self._tree = HibernatableTree(folder, criu)
        self._process = subprocess.Popen(
            self._tree.run_command([sys.executable, "-c", _PROGRAM, str(mib)]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_ready(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def stop(self, turns: Path, rate_mib_per_s: int) -> float | None:
        """How long saving it took; None where it was told to leave."""
        half_s = time.time() + GRACE_S / 2
        need_ms = _ALWAYS_MS + MIB * 1000 // max(1, rate_mib_per_s)
        turn = _turn(turns, need_ms, int(half_s * 1000))
        if turn is None:
            return self.save(None)
        seconds = self.save(max(0.1, half_s - time.time()))
        give_back(turns, turn, now_ms=int(time.time() * 1000))
        return seconds

    def save(self, within_s: float | None) -> float | None:
        """Wait until it is gone; how long saving took, None where it was told to leave instead."""
        assert self._process.stdout is not None
        begun, seconds = time.monotonic(), None
        if within_s is not None and isinstance(self._tree.save(within_s), Saved):
            seconds = time.monotonic() - begun
        if seconds is None:
            self._process.terminate()
        self._process.wait()
        self._process.stdout.close()
        return seconds


def _turn(turns: Path, need_ms: int, by_ms: int) -> Turn | None:
    """Its turn, once that has come; None where none comes in time any more."""
    while True:
        now_ms = int(time.time() * 1000)
        found = take_turn(turns, now_ms=now_ms, need_ms=need_ms, by_ms=by_ms)
        if found is not None:
            time.sleep(max(0, found.from_ms - now_ms) / 1000)
            return found
        if now_ms + need_ms > by_ms:
            return None
        time.sleep(_LOOK_S)
