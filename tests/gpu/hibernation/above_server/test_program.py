"""Root's program above a server, with a server of its own that asks for trees: no image is needed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from below_root import hub
from below_root.asking_server import USER, server, told

from gpucommons.gpu.hibernation.above_server import standing

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root starts trees for others"
)


def test_a_tree_runs_as_its_user_as_the_server_would_start_it(home: Path) -> None:
    code = """
asks = '''
import os
status = open("/proc/self/status").read()
rights = {each.split()[1] for each in status.splitlines() if each.startswith(("Cap", "NoNew"))}
print(os.getresuid(), os.getresgid(), os.getgroups(), rights == {"0" * 16, "1"}, os.getcwd(),
      os.environ.get("MINE"), os.environ.get("JPY_PARENT_PID"), oct(os.umask(0)), os.getpid())
'''
os.chdir(home)
os.umask(0o027)
os.environ |= {"MINE": "kept", "JPY_PARENT_PID": "1"}
process = started(tree(), asks)
print(process.wait(), printed())
"""
    ids = (USER,) * 3
    assert told(home, code) == f"0 {ids} {ids} [] True {home} kept None 0o27 2"


def test_no_variable_of_the_users_reaches_a_process_that_has_rights(home: Path) -> None:
    """What stands for the tree was root's when it was started; its user's are for its command alone."""
    code = """
os.environ |= {"LD_LIBRARY_PATH": "/nowhere", "PYTHONPATH": "/nowhere", "MINE": "kept"}
one = tree()
started(one, "import os, time; print(os.environ['PYTHONPATH'], os.environ['MINE']); time.sleep(600)")
said = printed()
try:
    Path(f"/proc/{one.pid()}/environ").read_bytes()
except PermissionError:
    said += " and closed"
print(said, one.pid(), flush=True)
time.sleep(600)
"""
    with server(home, code) as line:
        said, number = line.rsplit(" ", 1)
        environ = Path(f"/proc/{number}/environ").read_bytes().rstrip(b"\0").split(b"\0")
    assert said == "/nowhere kept and closed"
    assert environ == [f"PATH={os.defpath}".encode(), b"LC_ALL=C.UTF-8"]


def test_it_ends_as_its_tree_ended_and_hands_on_signals(home: Path) -> None:
    code = """
ended = started(tree("one"), "raise SystemExit(7)").wait()
process = started(tree("two"), SLEEPS)
printed("two")
process.terminate()
print(ended, process.wait())
"""
    assert told(home, code) == "7 -15"


def test_who_kills_what_stands_for_a_tree_kills_the_tree(home: Path) -> None:
    code = """
one = tree(orphaned="save")
process = started(one, SLEEPS)
printed()
process.kill()
print(gone(one.pid()), one.settled(20), one.has_image())
"""
    assert told(home, code) == "True True False"


def test_with_its_server_the_program_ends_and_leaves_nothing(home: Path) -> None:
    code = """
started(tree(), SLEEPS)
printed()
print(place)
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""
    place = Path(told(home, code))
    assert place.name == "socket"
    assert not place.exists()
    end = time.monotonic() + 20
    while place.parent.exists() and time.monotonic() < end:
        # Where the group of the hub's is the machine's first one, the program may remove none below it.
        standing.end_left(place.parents[1])
        time.sleep(0.05)
    assert not place.parent.exists()


def test_a_program_that_is_killed_takes_its_server_along(home: Path) -> None:
    with server(home, "print(os.getppid(), os.getpid(), flush=True); time.sleep(600)") as line:
        program, number = map(int, line.split())
        with_server = os.pidfd_open(number)
        os.kill(program, signal.SIGKILL)
        assert _ends(with_server)
        os.close(with_server)


def _ends(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 20)[0])


@pytest.mark.parametrize(
    ("folder", "because"),
    [
        ("Path('/tmp')", "below {home} only"),
        ("home / '..' / 'other'", "below {home} only"),
    ],
)
def test_a_folder_elsewhere_is_refused(home: Path, folder: str, because: str) -> None:
    code = f"""
request = orders.Request(what="wake", folder={folder} / "tree", output=home / "out")
with socket.socket(socket.AF_UNIX) as line:
    line.connect(str(place))
    line.sendall(request.line())
    print(line.recv(1000))
"""
    assert because.format(home=home) in told(home, code)


def test_a_link_to_a_folder_of_roots_leads_to_nothing(home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="of-root-") as folder:
        Path(folder).chmod(0o777)
        (home / "linked").symlink_to(folder)
        (home / "below").mkdir()
        os.chown(home / "below", USER, USER)
        (home / "below" / "linked").symlink_to(folder)
        (home / "linked.log").symlink_to(Path(folder) / "written")
        code = """
process = started(tree("linked"), "print(1)")
print(process.wait())
"""
        assert told(home, code) == "1"
        assert list(Path(folder).iterdir()) == []
        assert oct(Path(folder).stat().st_mode)[-3:] == "777"


def test_a_folder_that_becomes_a_link_while_a_tree_starts_leads_to_nothing(home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="of-root-") as folder:
        Path(folder).chmod(0o755)
        code = f"""
import threading
over = False
def swap():
    while not over:
        try:
            (home / "tree").rename(home / "aside")
            (home / "tree").symlink_to("{folder}")
            (home / "tree").unlink()
            (home / "aside").rename(home / "tree")
        except OSError:
            pass
(home / "tree").mkdir(mode=0o700)
swapper = threading.Thread(target=swap)
swapper.start()
codes = set()
for _ in range(8):
    one = tree()
    words = one.words("run")
    codes.add(subprocess.run([*words, "--", "true"], stderr=subprocess.DEVNULL).returncode)
over = True
swapper.join()
print(codes <= {{0, 1, 76}}, place.exists())
"""
        assert told(home, code) == "True True"
        assert list(Path(folder).iterdir()) == []
        assert Path(folder).stat().st_uid == 0


def test_other_users_are_refused(home: Path) -> None:
    asks = """
import os, socket, sys
if int(sys.argv[2]):
    os.setresuid(*3 * (int(sys.argv[2]),))
with socket.socket(socket.AF_UNIX) as line:
    try:
        line.connect(sys.argv[1])
        print(line.recv(1000).decode().strip())
    except OSError as error:
        print(error.strerror)
"""
    with server(home, "print(place, flush=True); time.sleep(600)") as place:
        answers = [
            subprocess.run(
                [sys.executable, "-c", asks, place, str(uid)],
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout.strip()
            for uid in (2002, 0)
        ]
    assert answers == ["Permission denied", '{"refused": "This is another user\'s."}']


def test_kernels_beyond_the_limit_and_who_says_nothing_do_no_harm(home: Path) -> None:
    code = f"""
silent = []
for _ in range(200):
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(0.2)
    try:
        line.connect(str(place))
    except OSError:
        break
    silent.append(line)
for one in (b"[" * 20_000, b"\\xff\\n", b'{{"signal": 9}}\\n'):
    with connect(place, timeout_s=20) as line:
        try:
            line.sendall(one)
            line.recv(1000)
        except OSError:
            pass
for line in silent:
    line.close()
trees = [started(tree(f"t{{n}}"), SLEEPS) for n in range({hub.MOST_TREES})]
up = [printed(f"t{{n}}") for n in range({hub.MOST_TREES})]
more = started(tree("more"), SLEEPS)
print(up.count("up"), more.wait(), more.stderr.read().strip())
trees[0].kill()
trees[0].wait()
end = time.monotonic() + 20
again = 76
while again == 76 and time.monotonic() < end:
    again = started(tree("again"), "print('up')").wait()
print(again)
"""
    assert told(home, code).splitlines() == [
        f"{hub.MOST_TREES} 76 This server has as many kernels that can be saved as it may have.",
        "0",
    ]
