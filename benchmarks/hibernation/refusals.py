"""What no image can hold: how long until that is known, and the process may be told to leave instead."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused

#: As much as a job has whose pool says nothing.
_GRACE_S = 60.0
#: Beside what cannot be saved: memory that would have been written.
_MEMORY = "import ctypes, os, socket, sys, time\nmemory = os.urandom(1 << 20) * 200\n"
_TICKS = "\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.02)\n"
_HOLDS = {
    "device": "held = open(sys.argv[1], 'rb')",
    "io_uring": "assert ctypes.CDLL(None).syscall(425, 4, (ctypes.c_char * 120)()) != -1",
    "socket": "held = socket.socket(socket.AF_UNIX); held.connect(sys.argv[1])",
}
_DEVICES = ("/dev/net/tun", "/dev/fuse", "/dev/autofs")


def refused_row(criu: Criu, place: Path) -> dict[str, object]:
    """Seconds by kind; what cannot be held on this machine is not there."""
    device = next((one for one in _DEVICES if os.access(one, os.R_OK)), None)
    seconds: dict[str, float] = {}
    with _database(place / "database") as address:
        for kind, code in _HOLDS.items():
            argument = device if kind == "device" else address
            taken_s = argument and _seconds(criu, place / f"holds-{kind}", code, argument)
            if taken_s:
                seconds[kind] = round(taken_s, 2)
    return {
        "what": "refused",
        "seconds": seconds,
        "grace_s": _GRACE_S,
        # Half of the grace is for saving, the other for whoever is told to leave.
        "in_grace": bool(seconds) and max(seconds.values()) <= _GRACE_S / 2,
    }


def _seconds(criu: Criu, folder: Path, code: str, argument: str) -> float | None:
    """None where this machine lets nobody hold such a thing."""
    tree = HibernatableTree(folder, criu)
    folder.mkdir(mode=0o700)
    command = [sys.executable, "-c", f"{_MEMORY}{code}{_TICKS}", argument]
    process = subprocess.Popen(
        tree.run_command(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        if not process.stdout.readline():
            return None
        begun = time.monotonic()
        answer = tree.save(_GRACE_S / 2)
        taken_s = time.monotonic() - begun
        if not isinstance(answer, Refused) or not answer.alive or not process.stdout.readline():
            sys.exit(f"{folder.name}: {answer}, and it does not run on")
        return taken_s
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def _database(address: Path) -> Iterator[str]:
    with socket.socket(socket.AF_UNIX) as database:
        database.bind(str(address))
        database.listen()
        # As long as nobody has taken the call, there is no connection that could not be saved.
        taken: list[object] = []
        threading.Thread(target=lambda: taken.append(database.accept()), daemon=True).start()
        yield str(address)
