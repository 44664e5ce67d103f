"""What cannot be saved or woken costs a sentence, and nothing that was there before."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation import process_image as images
from gpucommons.gpu.hibernation.inside import shared_memory
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused, Saved
from gpucommons.gpu.linux import mounts
from tests.gpu.hibernation.conftest import Start, line, python

pytestmark = pytest.mark.criu
_SECONDS = 60
TICKING = "import time\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.02)\n"


def refused(tree: HibernatableTree, within_s: float = _SECONDS) -> str:
    """The sentence of a save that was refused; the tree lives, and nothing of it lies on disk."""
    answer = tree.save(within_s)
    assert isinstance(answer, Refused), answer
    assert answer.alive
    assert tree.lives()
    assert not (tree.folder / layout.SAVING).exists()
    assert not (tree.folder / layout.COMPLETE).exists()
    return answer.because


def test_what_takes_longer_than_there_is_time_runs_on_and_can_be_saved_later(
    tree: HibernatableTree, start: Start
) -> None:
    program = start(tree.run_command(python(f"import os\nb = os.urandom(1 << 27)\n{TICKING}")))
    line(program)

    begun = time.monotonic()
    assert refused(tree, 0.05) == "Writing its memory took longer than there was time."

    assert time.monotonic() - begun < 30
    assert {line(program) for _ in range(50)} == {"tick"}
    assert isinstance(tree.save(_SECONDS), Saved)
    program.wait()
    while line(program):
        pass
    assert line(start(tree.wake_command())) == "tick"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for few files."""
    if os.geteuid():
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounts.tmpfs(disk, name="small", size_bytes=256 << 20, files=14)
    yield disk
    mounts.unmount(disk)


def test_a_disk_that_fills_up_while_saving_is_named(
    tree: HibernatableTree, start: Start, small_disk: Path
) -> None:
    tree = replace(tree, folder=small_disk / "tree")
    program = start(tree.run_command(python(TICKING)))
    line(program)

    assert refused(tree) == "The disk is full."
    assert line(program) == "tick"


def test_a_disk_without_room_is_not_filled(
    tree: HibernatableTree, start: Start, small_disk: Path
) -> None:
    tree = replace(tree, folder=small_disk / "tree")
    program = start(tree.run_command(python(f"b = b'x' * (250 << 20)\n{TICKING}")))
    line(program)

    assert refused(tree).startswith("The disk has ")
    assert line(program) == "tick"


def test_a_program_that_forks_all_the_time_goes_on(tree: HibernatableTree, start: Start) -> None:
    code = (
        "import os\nnumber = 0\nwhile True:\n"
        "    for _ in range(5):\n"
        "        if not os.fork():\n            os._exit(0)\n"
        "    for _ in range(5):\n        assert os.waitpid(-1, 0)[1] == 0\n"
        "    number += 1\n    print(number, flush=True)"
    )
    program = start(tree.run_command(python(code)))
    assert line(program) == "1"
    answer = tree.save(_SECONDS)
    assert isinstance(answer, Saved), answer
    last = "1"
    while printed := line(program):
        last = printed

    woken = start(tree.wake_command())

    assert [line(woken) for _ in range(3)] == [str(int(last) + more) for more in (1, 2, 3)]


def test_io_uring_is_named(tree: HibernatableTree, start: Start) -> None:
    setup = "import ctypes\nprint(ctypes.CDLL(None).syscall(425, 4, (ctypes.c_char * 120)()))\n"
    program = start(tree.run_command(python(setup + TICKING)))
    if line(program) == "-1":
        pytest.skip("this kernel forbids io_uring")

    assert refused(tree) == "It uses io_uring."
    assert line(program) == "tick"


def test_a_device_is_named(tree: HibernatableTree, start: Start) -> None:
    device = next(
        (
            path
            for path in map(Path, ("/dev/net/tun", "/dev/fuse", "/dev/autofs"))
            if os.access(path, os.R_OK)
        ),
        None,
    )
    if device is None:
        pytest.skip("there is no device here that this user may open")
    program = start(tree.run_command(python(f"device = open({str(device)!r}, 'rb')\n{TICKING}")))
    assert line(program) == "tick"

    assert refused(tree) == f"It holds a device: {device}."


def test_system_v_shared_memory_is_named(tree: HibernatableTree, start: Start) -> None:
    code = (
        "import ctypes\nc = ctypes.CDLL(None)\nc.shmat.restype = ctypes.c_void_p\n"
        "i = c.shmget(0, 4096, 0o1600)\nc.shmat(i, None, 0)\nc.shmctl(i, 0, None)\n"
    )
    program = start(tree.run_command(python(code + TICKING)))
    line(program)

    assert refused(tree) == "It uses System V shared memory."


def test_as_many_open_files_as_there_may_be_are_refused_before_it_is_too_late(
    tree: HibernatableTree, start: Start
) -> None:
    code = (
        "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))\n"
        "files = [os.open('/etc/passwd', 0) for _ in range(450)]\n"
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 512
    program = start(tree.run_command(python(code + TICKING)))
    line(program)

    assert refused(tree) == "It has nearly as many files open as it may have (512)."


#: In as many processes as it takes.
_OPENS_MANY = """
import os, resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
each, ready = min(most, 20_000) - 1_000, []
for _ in range(100_000 // each + 1):
    reads, writes = os.pipe()
    if not os.fork():
        held = [os.open('/etc/passwd', 0) for _ in range(each)]
        os.write(writes, b'.')
        import signal; signal.pause()
    ready.append(os.read(reads, 1))
"""


def test_a_hundred_thousand_open_files_take_no_longer_than_there_is_time(
    tree: HibernatableTree, start: Start
) -> None:
    program = start(tree.run_command(python(_OPENS_MANY + TICKING)))
    assert line(program) == "tick"

    begun = time.monotonic()
    assert refused(tree, 0.5) == "Writing its memory took longer than there was time."

    assert time.monotonic() - begun < 30
    assert {line(program) for _ in range(50)} == {"tick"}


def test_a_filter_of_system_calls_is_named(tree: HibernatableTree, start: Start) -> None:
    code = (
        "import ctypes, struct\nc = ctypes.CDLL(None)\nc.prctl(38, 1, 0, 0, 0)\n"
        "allow = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7FFF0000))\n"
        "program = struct.pack('HxxxxxxP', 1, ctypes.addressof(allow))\n"
        "print(c.prctl(22, 2, program, 0, 0))\n"
    )
    program = start(tree.run_command(python(code + TICKING)))
    assert line(program) == "0"

    assert refused(tree) == "It installed a filter of system calls (seccomp) of its own."


# --- waking ----------------------------------------------------------------------------------


def saved(tree: HibernatableTree, start: Start, code: str) -> None:
    program = start(tree.run_command(python(code)))
    line(program)
    answer = tree.save(_SECONDS)
    assert isinstance(answer, Saved), answer
    program.wait()


def test_a_truncated_image_is_refused_at_once(tree: HibernatableTree, start: Start) -> None:
    saved(tree, start, TICKING)
    pages = next((tree.folder / layout.COMPLETE).glob("pages-*.img"))
    os.truncate(pages, pages.stat().st_size // 2)

    begun = time.monotonic()
    woken = start(tree.wake_command())

    assert line(woken).startswith(f"The image is damaged: {pages.name} has ")
    assert woken.wait() == layout.REFUSED_STATUS
    assert time.monotonic() - begun < 50
    answer = tree.awake(1)
    assert answer is not None
    assert answer.because.startswith("The image is damaged")


def test_a_file_that_changed_meanwhile_is_named(tree: HibernatableTree, start: Start) -> None:
    data = tree.folder.parent / "data"
    data.write_text("before")
    saved(tree, start, f"held = open({str(data)!r})\n{TICKING}")
    data.write_text("longer than before")

    assert line(start(tree.wake_command())) == f"{data} was open, and it changed since."


def test_a_wake_that_was_killed_before_anything_ran_loses_nothing(
    tree: HibernatableTree, start: Start
) -> None:
    saved(tree, start, TICKING)
    # As the wake itself does first.
    (tree.folder / layout.COMPLETE).rename(tree.folder / layout.WAKING)

    assert tree.image() is not None
    assert line(start(tree.wake_command())) == "tick"


@pytest.mark.parametrize("after_ms", [20, 60, 100, 150, 200, 300])
def test_a_wake_that_is_killed_runs_once_or_can_be_repeated(
    tree: HibernatableTree, start: Start, after_ms: int
) -> None:
    seen = tree.folder.parent / "seen"
    go = tree.folder.parent / "go"
    os.mkfifo(go)
    code = (
        f"import os\nprint('ready', flush=True)\nos.open({str(go)!r}, os.O_RDONLY)\n"
        f"open({str(seen)!r}, 'a').write('ran\\n')\n{TICKING}"
    )
    saved(tree, start, code)
    writer = os.open(go, os.O_RDWR)  # what waits there goes on as soon as it is awake
    woken = start(tree.wake_command())

    ctypes.CDLL(None).usleep(after_ms * 1000)
    woken.kill()
    woken.wait()
    assert tree.settled(_SECONDS)
    repeatable = tree.image() is not None

    if repeatable:
        again = start(tree.wake_command())
        assert line(again) == "tick"
    os.close(writer)
    runs = seen.read_text().count("ran") if seen.exists() else 0
    assert runs == 1 if repeatable else runs <= 1


def test_a_tree_that_is_killed_while_it_is_saved_leaves_no_image(
    tree: HibernatableTree, start: Start
) -> None:
    program = start(tree.run_command(python(f"import os\nb = os.urandom(1 << 27)\n{TICKING}")))
    line(program)
    code = (
        "import sys; from pathlib import Path\n"
        "from gpucommons.gpu.hibernation.criu import Criu\n"
        "from gpucommons.gpu.hibernation.tree import HibernatableTree\n"
        "print(HibernatableTree(Path(sys.argv[1]), Criu(command=(), version='')).save(60))"
    )
    asking = start([sys.executable, "-c", code, str(tree.folder)])
    partial = tree.folder / layout.SAVING
    end = time.monotonic() + _SECONDS
    while not partial.exists() and time.monotonic() < end:
        os.sched_yield()
    program.kill()
    program.wait()

    assert "It ended while it was being saved." in line(asking)
    assert tree.settled(_SECONDS)
    assert tree.image() is None


#: So much in memory, in shared memory, and in a file whose name is gone.
LARGE = """
import os, pathlib, sys
where, size = sys.argv[1], 48 << 20
held = os.urandom(size if where == "memory" else 1)
path = pathlib.Path("/dev/shm/large" if where == "shared" else sys.argv[2])
stream = path.open("w+b")
stream.write(os.urandom(1 if where == "memory" else size)); stream.flush()
if where == "removed":
    path.unlink()
"""


@pytest.mark.parametrize("where", ["memory", "shared", "removed"])
def test_whatever_an_image_will_hold_counts_before_it_is_begun(
    tree: HibernatableTree, start: Start, where: str
) -> None:
    code = f"{LARGE}\n{TICKING}"
    file = tree.folder.parent / "file"
    program = start(tree.run_command([*python(code), where, str(file)]))
    line(program)

    answer = tree.save(_SECONDS, most_bytes=40 << 20)

    assert isinstance(answer, Refused)
    assert re.fullmatch(
        r"Saving it may take \d+ MiB, and there is time and room for 40 MiB.", answer.because
    )
    assert line(program) == "tick"
    assert isinstance(tree.save(_SECONDS, most_bytes=400 << 20), Saved)


def test_what_follows_the_work_of_criu_has_the_same_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pages-1.img").write_bytes(b"x")
    monkeypatch.setattr(shared_memory, "_PLACE", tmp_path)
    over = images.Deadline(time.monotonic() - 1)
    with pytest.raises(TimeoutError):
        images.describe_files(tmp_path, over)
    with pytest.raises(TimeoutError):
        shared_memory.pack(tmp_path.with_suffix(".tar"), over)


@pytest.mark.parametrize("within_s", [0.1, 0.2, 0.3])
def test_a_save_that_is_cut_off_while_it_writes_leaves_the_processes_whole(
    tree: HibernatableTree, start: Start, within_s: float
) -> None:
    code = (
        "import hashlib, os\nheld = os.urandom(1 << 28)\nonce = hashlib.sha256(held).digest()\n"
        "print('ready', flush=True)\n"
        "while hashlib.sha256(held).digest() == once: print('whole', flush=True)"
    )
    program = start(tree.run_command(python(code)))
    line(program)

    answer = tree.save(within_s)

    if isinstance(answer, Saved):
        pytest.skip("this machine writes faster than it was cut off")
    assert answer.alive
    assert {line(program) for _ in range(5)} == {"whole"}
