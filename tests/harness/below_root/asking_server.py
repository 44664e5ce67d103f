"""A server below root's program that is a few lines of Python, and says by printing what it found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from below_root import hub

USER = hub.USER
#: What every server of these tests begins with.
_SERVER = """
import json, os, socket, subprocess, sys, time
from pathlib import Path
from gpucommons.gpu.connections.unix_sockets import connect
from gpucommons.gpu.hibernation.above_server import orders
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree
home, place = Path(os.environ["HOME"]), Path(os.environ["GPUCOMMONS_TREES"])
def tree(name="tree", folder=home, **more):
    (folder / name).parent.mkdir(exist_ok=True)
    return HibernatableTree(
        folder / name, Criu(command=(), version=""), output=home / f"{name}.log",
        starter=place, preload=None, **more)
def started(one, code):
    words = one.run_command([sys.executable, "-u", "-c", code])
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
def printed(name="tree"):
    end = time.monotonic() + 20
    path = home / f"{name}.log"
    while time.monotonic() < end:
        if path.exists() and path.read_text().endswith("\\n"):
            return path.read_text().strip()
        time.sleep(0.02)
    return "nothing"
def gone(pid):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.02)
    return False
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
"""


def told(home: Path, code: str, *, criu: str = "-") -> str:
    """What a server below the program prints."""
    words = [str(USER), str(home), criu, sys.executable, "-c", _SERVER + code]
    done = subprocess.run(
        [sys.executable, hub.__file__, *words],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout.strip() or done.stderr


@contextmanager
def server(home: Path, code: str, *, criu: str = "-") -> Iterator[str]:
    """The first line of a server that goes on until it is told to end."""
    words = [str(USER), str(home), criu, sys.executable, "-c", _SERVER + code]
    with subprocess.Popen(
        [sys.executable, hub.__file__, *words],
        env={**os.environ, "HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(30)
