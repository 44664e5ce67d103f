"""Images of trees that root's program started, as their user can change them: no wake gains a right."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from below_root.asking_server import USER, told
from kernel_server import criu_of_tests

pytestmark = [
    pytest.mark.criu,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root starts trees for others"
    ),
]
_ACTS = """
from benchmarks.hibernation.forged_images import forge, in_the_first_format, with_capability
COUNTS = '''import time
for n in range(9999):
    print(n, flush=True)
    time.sleep(0.02)'''
FORKS = '''import os, time
print("up", flush=True)
while True:
    if not os.fork():
        time.sleep(0.001)
        os._exit(0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError:
        pass'''
def saved(name="tree", code=COUNTS):
    one = tree(name)
    process = started(one, code)
    printed(name)
    outcome = one.save(60)
    return one, outcome, process.wait()
def woken(one):
    process = subprocess.Popen(one.wake_command(), stderr=subprocess.DEVNULL)
    refused = one.awake(60)
    return process, None if refused is None else refused.because
"""


def test_a_tree_is_saved_and_woken_once(home: Path) -> None:
    code = """
one, outcome, status = saved()
print(type(outcome).__name__, status)
process, because = woken(one)
again, also = woken(one)
print(because, again.wait())
process.terminate()
print(process.wait())
lines = [int(each) for each in (home / "tree.log").read_text().split()]
print(lines == list(range(len(lines))))
"""
    assert told(home, _ACTS + code, criu=criu_of_tests()).splitlines() == [
        "Saved 75",
        "None 76",
        "-15",
        "True",
    ]


def test_an_image_that_names_a_capability_is_refused(home: Path) -> None:
    code = """
one, _, _ = saved()
image = one.folder / "image"
forge(image, {each.name: with_capability(each.read_bytes()) for each in image.glob("core-*.img")})
process, because = woken(one)
print(because, process.wait())
"""
    said = told(home, _ACTS + code, criu=criu_of_tests())
    assert said == "It wants rights that its user has not. 76"


def test_an_image_that_criu_reads_otherwise_than_we_do_is_refused(home: Path) -> None:
    """CRIU begins sooner in files of its first format, and finds other rights there."""
    code = """
one, _, _ = saved()
image = one.folder / "image"
forged = {each.name: with_capability(each.read_bytes()) for each in image.glob("core-*.img")}
forge(image, in_the_first_format(image, forged))
before = (home / "tree.log").read_text()
process, because = woken(one)
print(because, process.wait(), (home / "tree.log").read_text() == before)
"""
    said = told(home, _ACTS + code, criu=criu_of_tests())
    assert said == "It wants rights that its user has not. 76 True"


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_fifo_in_place_of_a_threads_file_is_waited_for_by_nobody(
    home: Path, is_listed: bool
) -> None:
    code = f"""
one, _, _ = saved()
image = one.folder / "image"
core = next(image.glob("core-*.img"))
core.unlink()
os.mkfifo(core)
path = image / "image.json"
said = json.loads(path.read_text())
said["open_files"] = []
for each in said["files"]:
    if each["name"] == core.name:
        each.update(bytes=0, crc32=0)
if not {is_listed}:
    said["files"] = [each for each in said["files"] if each["name"] != core.name]
path.write_text(json.dumps(said))
process, because = woken(one)
print(process.wait(20), because)
"""
    assert told(home, _ACTS + code, criu=criu_of_tests()).startswith("76 ")


def test_an_image_that_asks_for_descriptors_of_pid_one_is_none(home: Path) -> None:
    """CRIU hands the descriptors that the image names to what wakes; the lock is one of them."""
    code = """
HOLDS = '''import os, time
inner, _ = os.pipe()
print(os.readlink(f"/proc/self/fd/{inner}"), flush=True)
while True:
    time.sleep(0.05)
    print(os.readlink(f"/proc/self/fd/{inner}"), flush=True)'''
one, _, _ = saved(code=HOLDS)
path = one.folder / "image" / "image.json"
log = (home / "tree.log").read_text()
said = json.loads(path.read_text())
path.write_text(json.dumps({**said, "pipes": {"3": log.split()[0]}, "open_files": []}))
process, because = woken(one)
print(because, process.wait(), (home / "tree.log").read_text() == log)
"""
    assert told(home, _ACTS + code, criu=criu_of_tests()) == "There is no image to wake. 76 True"


def test_an_image_of_another_user_is_neither_woken_nor_moved(home: Path) -> None:
    """Also where that user let all the world read it, and where the name of the owner is forged."""
    with tempfile.TemporaryDirectory(prefix="of-another-") as folder:
        told(home, _ACTS + "saved()", criu=criu_of_tests())
        others = Path(folder) / "tree"
        shutil.copytree(home / "tree" / "image", others / "image")
        said = (others / "image" / "image.json").read_text()
        for path in (Path(folder), others, *others.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
            os.chown(path, USER + 1, USER + 1)
        shutil.rmtree(home / "tree")
        code = f"""
asked = []
for name, target in (("linked", "tree"), ("own/image", "tree/image")):
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).symlink_to("{folder}/" + target)
    one = tree((home / name).parent.name if "/" in name else name)
    asked.append(subprocess.run(one.words("wake"), stderr=subprocess.DEVNULL).returncode)
print(asked)
"""
        assert told(home, _ACTS + code, criu=criu_of_tests()) in ("[1, 76]", "[76, 76]")
        assert (others / "image" / "image.json").read_text() == said
        assert sorted(path.name for path in others.iterdir()) == ["image"]


def test_an_image_behind_a_link_is_not_followed(home: Path) -> None:
    code = """
one, _, _ = saved()
(one.folder / "image").rename(home / "elsewhere")
(one.folder / "image").symlink_to(home / "elsewhere")
process, because = woken(one)
print(because, process.wait())
"""
    assert told(home, _ACTS + code, criu=criu_of_tests()).endswith(" 76")


def test_a_kernel_that_forks_while_it_is_saved_is_kept_whole_or_goes_on(home: Path) -> None:
    code = """
one = tree()
process = started(one, FORKS)
printed()
outcome = one.save(30)
if type(outcome).__name__ == "Saved":
    process.wait()
    process, because = woken(one)
    print(because is None)
else:
    print(outcome.alive and process.poll() is None)
process.kill()
"""
    assert told(home, _ACTS + code, criu=criu_of_tests()) == "True"
