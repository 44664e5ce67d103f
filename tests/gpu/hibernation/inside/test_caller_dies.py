"""Whoever starts a tree is killed, at every moment of its start: the tree ends, or is saved, with them."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import pytest
from below_root.asking_server import USER, server

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation.tree import INIT, HibernatableTree, Saved
from gpucommons.scheduler.working_folder.own_image import OwnImage, own_folder
from tests.gpu.hibernation.conftest import Start, line, python

pytestmark = pytest.mark.criu
_SECONDS = 60
_COUNTING = "import time\nfor n in range(99999):\n    print(n, flush=True)\n    time.sleep(0.01)"
#: Starts a tree, and stops it as soon as this file lies in its folder; "" = before its first step.
_CALLER = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, this_process
folder, criu, orphaned, moment, command = json.loads(sys.argv[1])
tree = HibernatableTree(
    Path(folder), Criu(command=tuple(criu), version=""), orphaned=orphaned,
    output=Path(folder).with_name("output"))
alive = this_process()
words = tree.run_command(command, alive=alive) if command else tree.wake_command(alive=alive)
child = subprocess.Popen(words, pass_fds=[alive])
while moment and not (tree.folder / moment).exists():
    pass
os.kill(child.pid, signal.SIGSTOP)
print(child.pid, flush=True)
time.sleep(1000)
"""
#: Nothing has begun; it has the folder; PID 1 stands; the command runs.
_MOMENTS = ("", layout.BEGUN, layout.CONTROL, layout.WOKEN)


def _dies(
    tree: HibernatableTree, start: Start, moment: str, command: list[str], orphaned: str = "end"
) -> None:
    """A caller starts it, and is killed at this moment; back when nothing of the tree runs."""
    order = [str(tree.folder), tree.criu.command, orphaned, moment, command]
    caller = start([sys.executable, "-c", _CALLER, json.dumps(order)])
    pid = int(line(caller))
    stands_for_it = os.pidfd_open(pid)
    caller.kill()
    caller.wait()
    os.kill(pid, signal.SIGCONT)

    assert _ends(stands_for_it)
    os.close(stands_for_it)
    assert tree.settled(_SECONDS)


def _ends(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], _SECONDS)[0])


def _printed(tree: HibernatableTree) -> list[str]:
    path = tree.folder.with_name("output")
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("moment", _MOMENTS)
def test_a_tree_ends_with_its_caller_at_every_moment(
    tree: HibernatableTree, start: Start, moment: str
) -> None:
    _dies(tree, start, moment, python(_COUNTING))

    said = _printed(tree)
    assert said == [] or moment
    time.sleep(0.1)
    assert _printed(tree) == said


@pytest.mark.parametrize("moment", _MOMENTS)
def test_what_was_to_be_woken_is_there_when_its_caller_dies(
    tree: HibernatableTree, start: Start, moment: str
) -> None:
    output = tree.folder.with_name("output")
    first = HibernatableTree(tree.folder, tree.criu, output=output)
    start(first.run_command(python(_COUNTING)))
    assert first.awake(_SECONDS) is None
    assert isinstance(first.save(_SECONDS), Saved)

    _dies(tree, start, moment, [], "save")

    assert tree.image() is not None
    seen = len(_printed(tree))
    woken = start(first.wake_command())
    assert first.awake(_SECONDS) is None
    while len(_printed(tree)) < seen + 5:
        time.sleep(0.01)
    woken.kill()
    said = _printed(tree)
    assert said == [str(n) for n in range(len(said))]


def test_pid_one_ends_with_who_stands_for_it_also_before_it_could_ask_for_that(
    tree: HibernatableTree, start: Start
) -> None:
    words = tree.run_command(python(_COUNTING))
    unasked = (
        f"import runpy, sys; sys.path.insert(0, {str(INIT.parents[3])!r})\n"
        "from gpucommons.gpu.hibernation.inside import calls\n"
        "calls.die_with_parent = lambda number: None\n"
        f"sys.argv = {words[words.index(str(INIT)) :]!r}\n"
        f"runpy.run_path({str(INIT)!r}, run_name='__main__')"
    )
    first = start([sys.executable, "-I", "-S", "-c", unasked])
    assert line(first) == "0"

    first.kill()

    assert tree.settled(_SECONDS)


#: As a supervisor starts a worker whose words its user's errand made.
_SUPERVISOR = """
import json, os, subprocess, sys, time
order = json.loads(sys.argv[1])
order |= {"supervisor": os.getpid(), "refusal": os.open(os.devnull, os.O_WRONLY)}
worker = subprocess.Popen(
    [sys.executable, "-m", "gpucommons.scheduler.executors.worker"],
    stdin=subprocess.PIPE, pass_fds=[order["refusal"]], start_new_session=True)
with worker.stdin:
    worker.stdin.write(json.dumps(order).encode())
print(worker.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("seed", range(6))
def test_a_worker_in_a_tree_ends_with_its_supervisor(
    tree: HibernatableTree, start: Start, tmp_path: Path, seed: int
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    prefix = OwnImage(run=run, criu=tuple(tree.criu.command)).anew(1)["prefix"]
    order = {
        "command": python(_COUNTING), "prefix": prefix, "env": dict(os.environ), "secrets": {},
        "home": str(tmp_path), "cwd": str(tmp_path),
    }  # fmt: skip
    supervisor = start([sys.executable, "-c", _SUPERVISOR, json.dumps(order)])
    worker = os.pidfd_open(int(line(supervisor)))
    time.sleep(random.Random(seed).random() * 0.4)  # noqa: S311 - no secret

    supervisor.kill()

    assert _ends(worker)
    os.close(worker)
    assert HibernatableTree(own_folder(run), tree.criu).settled(_SECONDS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts trees for others")
@pytest.mark.parametrize("orphaned", ["end", "save"])
def test_who_stands_for_roots_tree_hears_of_a_server_that_died_before_it_ran(
    orphaned: Literal["end", "save"],
) -> None:
    code = f"""
import signal
from gpucommons.gpu.hibernation.tree import this_process
alive = this_process()
one = tree(orphaned={orphaned!r})
code = '''
import os, signal, subprocess, sys, time
from gpucommons.gpu.hibernation.tree import this_process
alive = this_process()
words = [alive if each == "ALIVE" else each for each in sys.argv[1:]]
child = subprocess.Popen([str(each) for each in words], pass_fds=[alive])
os.kill(child.pid, signal.SIGSTOP)
print(child.pid, flush=True)
time.sleep(1000)
'''
words = one.run_command([sys.executable, "-c", SLEEPS], alive=0)
words[words.index("--alive") + 1] = "ALIVE"
caller = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
asker = int(caller.stdout.readline())
caller.kill()
caller.wait()
os.kill(asker, signal.SIGCONT)
print(gone(asker), one.settled(20), flush=True)
time.sleep(600)
"""
    with tempfile.TemporaryDirectory(prefix="below-root-") as folder:
        os.chown(folder, USER, USER)
        with server(Path(folder), code) as said:
            assert said == "True True"
