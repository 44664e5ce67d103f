"""A tree is saved and woken: it goes on where it stopped, once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation import refusals
from gpucommons.gpu.hibernation.preload import library
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused, Saved
from tests.gpu.hibernation.conftest import Start, line, python
from tests.gpu.ignored_signals import ignored

pytestmark = pytest.mark.criu
_SECONDS = 60

#: Counts until a file lies there, by a child that it talks to through pipes.
COUNTING = """
import pathlib, subprocess, sys, threading, time
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
memory = bytearray(b"kept" * 1000)
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
for number in range(10_000):
    child.stdin.write(b"%d\\n" % number)
    child.stdin.flush()
    print(int(child.stdout.readline()), memory[:4].decode(), flush=True)
    time.sleep(0.01)
    if pathlib.Path(sys.argv[1]).exists():
        sys.exit(3)
"""
SLEEPING = "import time\nprint('ready', flush=True)\ntime.sleep(1000)"


def saved(tree: HibernatableTree) -> Saved:
    answer = tree.save(_SECONDS)
    assert isinstance(answer, Saved), answer
    return answer


def counting(tree: HibernatableTree) -> list[str]:
    return [*python(COUNTING), str(enough(tree))]


def enough(tree: HibernatableTree) -> Path:
    return tree.folder.parent / "enough"


def rest(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.read().split("\n")[:-1]


def test_a_program_goes_on_where_it_stopped(tree: HibernatableTree, start: Start) -> None:
    first = start(tree.run_command(counting(tree)))
    begun = [line(first)]

    answer = saved(tree)
    begun += rest(first)
    assert first.wait() == layout.SAVED_STATUS
    image = tree.image()
    second = start(tree.wake_command())
    begun.append(line(second))
    enough(tree).touch()
    printed = begun + rest(second)

    assert printed == [f"{number} kept" for number in range(len(printed))]
    assert second.wait() == 3
    assert image is not None
    assert answer.image_bytes == image.bytes > 1 << 20
    assert len(image.processes) == 2


def test_a_tree_begins_with_no_signal_ignored(tree: HibernatableTree, start: Start) -> None:
    first = start(tree.run_command(["grep", "SigIgn", "/proc/self/status"]))

    assert ignored(rest(first)) == set()


def test_an_image_is_woken_once(tree: HibernatableTree, start: Start) -> None:
    line(start(tree.run_command(python(SLEEPING))))
    saved(tree)
    woken = start(tree.wake_command())
    assert tree.awake(_SECONDS) is None

    assert tree.image() is None
    again = start(tree.wake_command())

    assert rest(again) == ["Another tree lives in this folder."]
    woken.kill()
    woken.wait()
    late = start(tree.wake_command())
    assert rest(late) == ["There is no image to wake."]
    assert late.wait() == layout.REFUSED_STATUS


def test_what_was_woken_can_be_saved_again(tree: HibernatableTree, start: Start) -> None:
    program = start(tree.run_command(counting(tree)))
    seen = [line(program)]
    for _ in range(3):
        saved(tree)
        seen += rest(program)
        program = start(tree.wake_command())
        seen.append(line(program))

    enough(tree).touch()
    seen += rest(program)

    assert seen == [f"{number} kept" for number in range(len(seen))]
    assert program.wait() == 3


def test_it_ends_as_its_program_ends(tree: HibernatableTree, start: Start) -> None:
    assert start(tree.run_command(python("raise SystemExit(7)"))).wait() == 7
    killed = start(tree.run_command(python("import os; os.kill(os.getpid(), 9)")))
    assert killed.wait() == -signal.SIGKILL


def test_signals_reach_the_whole_group(tree: HibernatableTree, start: Start) -> None:
    program = start(tree.run_command(["sh", "-c", "echo ready; sleep 1000; echo never"]))
    line(program)

    program.send_signal(signal.SIGTERM)

    assert program.wait() == -signal.SIGTERM
    assert rest(program) == []


def test_it_has_the_rights_and_the_name_of_its_user_and_no_more(
    tree: HibernatableTree, start: Start
) -> None:
    code = (
        "import os\nprint(os.getuid(), os.getgid())\n"
        "print([x.split()[1] for x in open('/proc/self/status') if x.startswith(('Cap', 'NoNew'))])"
    )
    program = start(tree.run_command(python(code)))

    assert line(program) == f"{os.getuid()} {os.getgid()}"
    assert line(program) == str(["0000000000000000"] * 5 + ["1"])


def test_what_cannot_be_saved_runs_on(tree: HibernatableTree, start: Start) -> None:
    code = (
        "import socket, sys, time\na, b = socket.socketpair()\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\nprint('ready', flush=True)\n"
        "time.sleep(1); print('on', flush=True)"
    )
    with socket.socket(socket.AF_UNIX) as database:
        address = str(tree.folder.parent / "database")
        database.bind(address)
        database.listen()
        program = start(tree.run_command([*python(code), address]))
        connection, _ = database.accept()
        line(program)

        with connection:
            answer = tree.save(_SECONDS)

        assert answer == Refused(
            because="It holds a socket to a program outside, for example a database.", alive=True
        )
        assert tree.image() is None
        assert line(program) == "on"
        assert program.wait() == 0
    assert not (tree.folder / layout.SAVING).exists()


CALLS = """
import socket, sys, time
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
print("ready", flush=True)
time.sleep(1)
print("on", flush=True)
"""


def test_a_call_that_a_program_outside_has_not_taken_is_refused_and_it_runs_on(
    tree: HibernatableTree, start: Start
) -> None:
    with socket.socket(socket.AF_UNIX) as database:
        address = str(tree.folder.parent / "database")
        database.bind(address)
        database.listen()
        program = start(tree.run_command([*python(CALLS), address]))
        line(program)

        assert tree.save(_SECONDS) == Refused(because=refusals.CALLS_OUTSIDE, alive=True)
        assert tree.image() is None
        assert line(program) == "on"


def test_a_call_between_its_own_processes_is_saved_and_taken_after_the_wake(
    tree: HibernatableTree, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = (
        "import os, socket, time\nserver = socket.socket(socket.AF_UNIX); server.bind('calls')\n"
        "server.listen(); call = socket.socket(socket.AF_UNIX); call.connect('calls')\n"
        "print('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
        "call.send(b'hello'); print(server.accept()[0].recv(5).decode(), flush=True)"
    )
    line(start(tree.run_command(python(code))))
    saved(tree)
    (tmp_path / "go").touch()
    assert rest(start(tree.wake_command())) == ["hello"]


def test_a_save_of_what_does_not_run_is_refused(tree: HibernatableTree) -> None:
    assert tree.save(1) == Refused(because="It is not running.", alive=False)


@pytest.mark.parametrize("orphaned", ["end", "save"])
def test_when_the_caller_dies_it_is_ended_or_saved(
    tree: HibernatableTree, orphaned: str, start: Start
) -> None:
    tree = HibernatableTree(
        tree.folder,
        tree.criu,
        orphaned="save" if orphaned == "save" else "end",
        output=tree.folder / "output",
    )
    command = tree.run_command(counting(tree))
    code = f"import subprocess, time\nsubprocess.Popen({command!r})\ntime.sleep(1000)"
    caller = start([sys.executable, "-c", code])
    assert tree.awake(_SECONDS) is None

    caller.kill()
    caller.wait()

    assert tree.settled(_SECONDS)
    assert (tree.image() is not None) is (orphaned == "save")


def test_the_folder_is_its_users_alone(tree: HibernatableTree, start: Start) -> None:
    tree.folder.chmod(0o755)
    line(start(tree.run_command(python(SLEEPING))))
    saved(tree)

    for path in (tree.folder, tree.folder / layout.COMPLETE):
        assert path.stat().st_mode & 0o777 == 0o700


def test_a_tree_in_the_folder_keeps_it_and_an_image_can_be_removed(
    tree: HibernatableTree, start: Start
) -> None:
    program = start(tree.run_command(python(SLEEPING)))
    line(program)

    tree.remove()
    assert tree.folder.exists()
    saved(tree)
    program.wait()
    tree.remove()

    assert not tree.folder.exists()


def test_what_it_prints_may_go_to_a_file_that_it_opens_itself(
    tree: HibernatableTree, start: Start
) -> None:
    output = tree.folder / "output"
    tree = HibernatableTree(tree.folder, tree.criu, output=output)
    start(tree.run_command(counting(tree)))
    assert tree.awake(_SECONDS) is None
    saved(tree)
    enough(tree).touch()
    assert start(tree.wake_command()).wait() == 3

    printed = output.read_text().splitlines()
    assert printed == [f"{number} kept" for number in range(len(printed))]


def test_named_shared_memory_wakes_too(tree: HibernatableTree, start: Start) -> None:
    woken = tree.folder.parent / "woken"
    code = (
        "import os, time\nfrom multiprocessing import shared_memory\n"
        "memory = shared_memory.SharedMemory('gpucommons-test', create=True, size=1 << 20)\n"
        "memory.buf[0] = 7\nprint('ready', flush=True)\n"
        f"while not os.path.exists({str(woken)!r}):\n    time.sleep(0.02)\n"
        "again = shared_memory.SharedMemory('gpucommons-test')\n"
        "print(again.buf[0], flush=True)\nmemory.unlink()"
    )
    line(start(tree.run_command(python(code))))
    saved(tree)
    assert not Path("/dev/shm/gpucommons-test").exists()  # noqa: S108 - where it would lie

    woken.touch()
    assert rest(start(tree.wake_command())) == ["7"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_wakes(tree: HibernatableTree, start: Start, method: str) -> None:
    if library() is None:
        pytest.skip("without a compiler the library of semaphores is not there")
    script = tree.folder.parent / "script.py"
    script.write_text(
        "import multiprocessing, time\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    with context.Lock(), context.Pool(2) as pool:\n"
        "        print(sum(pool.map(abs, range(-9, 0))), flush=True)\n"
        "        time.sleep(3)\n"
        "        print(sum(pool.map(abs, range(-9, 0))), flush=True)\n"
    )
    assert line(start(tree.run_command([sys.executable, str(script)]))) == "45"
    saved(tree)
    woken = start(tree.wake_command())

    assert rest(woken) == ["45"]
    assert woken.wait() == 0


def test_without_the_library_a_semaphore_is_refused_by_name(
    tree: HibernatableTree, start: Start
) -> None:
    tree = HibernatableTree(tree.folder, tree.criu, preload=None)
    code = f"import multiprocessing\nlock = multiprocessing.Lock()\n{SLEEPING}"
    line(start(tree.run_command(python(code))))

    answer = tree.save(_SECONDS)

    assert isinstance(answer, Refused)
    assert answer.alive
    assert answer.because.startswith("It uses a semaphore (/dev/shm/sem.")


CONNECTED = """
import socket, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", 0))
listener.listen()
one = socket.create_connection(listener.getsockname())
other, _ = listener.accept()
print("ready", flush=True)
time.sleep(0.3)
try:
    print(one.recv(1))
except OSError as error:
    print("closed")
"""


def test_a_network_connection_is_refused_or_closed_as_the_caller_chose(
    tree: HibernatableTree, start: Start
) -> None:
    program = start(tree.run_command(python(CONNECTED)))
    line(program)
    assert tree.save(_SECONDS) == Refused(because="It holds a network connection.", alive=True)
    program.kill()
    program.wait()

    tree = HibernatableTree(tree.folder, tree.criu, close_connections=True)
    line(start(tree.run_command(python(CONNECTED))))
    saved(tree)

    assert rest(start(tree.wake_command()))[0] in ("closed", "b''")
