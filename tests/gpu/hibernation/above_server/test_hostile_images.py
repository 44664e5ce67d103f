"""Images of trees that root's program started, as their user can change them: no wake gains a right."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
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
from benchmarks.hibernation.forged_images import forge, with_capability
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


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="below-root-") as folder:
        os.chown(folder, USER, USER)
        yield Path(folder)


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
