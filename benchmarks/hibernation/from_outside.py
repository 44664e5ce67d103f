"""Tries of a hostile user who looks into a tree from outside, where root started it for them.

While a tree wakes its threads have CRIU's right, and give it up one after another. They share their
memory, so whoever may write to it by one could have another one, that still has the right, do anything.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from benchmarks.hibernation.hostile import (
    AS_USER,
    SECONDS,
    Ground,
    new_tree,
    python_for_all,
    started,
)
from gpucommons.gpu.hibernation.tree import Refused

#: Their rights are given up one by one: the more of them, the longer that takes.
_THREADS = """
import threading, time
for _ in range(60): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""
#: Until its input ends it goes through all processes of its user's, again and again; then it tells what
#: it got, and that it had begun.
_LOOKS = """
import ctypes, os, select, sys
libc, own, got, rounds = ctypes.CDLL(None), os.getuid(), set(), 0
print("looks", flush=True)
def mine():
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(name) != os.getpid():
                told = open(f"/proc/{name}/status").read()
                if f"Uid:\\t{own}\\t" in told and "\\nState:\\tZ" not in told:
                    yield name
        except OSError:
            pass
while rounds < 3 or not select.select([0], [], [], 0)[0]:
    rounds += 1
    for pid in mine():
        for thread in [*os.listdir(f"/proc/{pid}/task")][:4] if os.path.isdir(f"/proc/{pid}/task") else []:
            place = f"/proc/{pid}/task/{thread}"
            for name in ("mem", "environ", "ns/user"):
                try:
                    held = os.open(f"{place}/{name}", os.O_RDWR if name == "mem" else os.O_RDONLY)
                except OSError:
                    continue
                if name == "environ" and not os.read(held, 1):
                    os.close(held)
                    continue
                got.add(name)
                if name == "ns/user" and not os.fork():
                    if not libc.setns(held, 0):
                        print("entered", flush=True)
                    os._exit(0)
                os.close(held)
            if not libc.ptrace(0x4206, int(thread), 0, 0):
                got.add("traced")
                libc.ptrace(17, int(thread), 0, 0)
print(*sorted(got), flush=True)
"""


def pid_one_from_outside(ground: Ground) -> str | None:
    """Another process of the same user looks into who may run CRIU: its memory, its descriptors."""
    tree = new_tree(ground)
    with started(
        ground, tree.run_command([python_for_all(), "-c", "import time; time.sleep(600)"])
    ) as one:
        refused = tree.awake(SECONDS)
        (pid_one,) = Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()
        code = (
            "import os\n"
            "looks = {'mem': lambda p: open(p, 'rb'), 'fd/1': os.readlink, 'root': os.listdir, 'environ': lambda p: open(p).read(1)}\n"
            "for name, look in looks.items():\n"
            f"    try:\n        look('/proc/{pid_one}/' + name)\n    except OSError:\n        continue\n"
            "    print('got in by', name)"
        )
        words = [python_for_all(), "-c", code]
        done = subprocess.run([*AS_USER, *words], capture_output=True, text=True, check=False)
        one.kill()
    return None if refused is None and not (done.stdout + done.stderr) else f"{refused} {done}"


def namespaces_within(ground: Ground) -> str | None:
    """A program in a tree makes a user namespace of its own, which is forbidden to its user outside."""
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None)\n"
        "held = os.open('/proc/self/ns/user', os.O_RDONLY)\n"
        "print(libc.unshare(0x10000000), libc.setns(held, 0), libc.setns(os.open('/proc/1/ns/user', os.O_RDONLY) if os.access('/proc/1/ns/user', os.R_OK) else held, 0))"
    )
    tree = new_tree(ground)
    with started(ground, tree.run_command([python_for_all(), "-c", code])) as one:
        said = one.communicate(timeout=SECONDS)[0].strip()
    return None if said == "-1 -1 -1" else said


def threads_that_wake_from_outside(ground: Ground) -> str | None:
    """Another process of the same user tries every thread before, during and after a wake.

    Memory, environment, the namespace and tracing. What it finds after the wake it would find during it,
    by the first thread that has given its right up: so this needs no luck with the moment.
    """
    tree = new_tree(ground)
    with started(ground, tree.run_command([python_for_all(), "-u", "-c", _THREADS])) as one:
        assert one.stdout is not None
        one.stdout.readline()
        saved = tree.save(SECONDS)
        assert not isinstance(saved, Refused), saved
        one.wait(SECONDS)
    looks = subprocess.Popen(
        [*AS_USER, python_for_all(), "-u", "-c", _LOOKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert looks.stdout is not None
    looks.stdout.readline()
    with started(ground, tree.wake_command()) as one:
        refused = tree.awake(SECONDS)
        got = looks.communicate("", timeout=SECONDS)[0].strip()
        one.kill()
    return refused.because if refused is not None else got or None


TRIES: tuple[Callable[[Ground], str | None], ...] = (
    pid_one_from_outside,
    threads_that_wake_from_outside,
)
