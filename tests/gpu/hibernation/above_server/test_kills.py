"""Root's program is killed at any moment: what was begun is kept whole, and nothing runs twice."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from below_root.asking_server import server, told
from kernel_server import criu_of_tests

pytestmark = [
    pytest.mark.criu,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root starts trees for others"
    ),
]
#: A save and a wake of these few MB take less.
_LONGEST_S = 0.6
_BEGINS = """
one = tree(orphaned="save")
started(one, '''import os, time
for n in range(99999):
    print(n, flush=True)
    time.sleep(0.01)''')
printed()
"""
_WAKES = """
one = tree(orphaned="save")
assert one.settled(60), "it still lives"
assert one.has_image(), "nothing is kept"
process = subprocess.Popen(one.wake_command(), stderr=subprocess.DEVNULL)
"""
_SAYS_ITS_PROGRAM = "print(os.getppid(), flush=True)\n"
_SAVES = "print(one.save(60), flush=True)\n"
_STAYS = "time.sleep(60)\n"
_ENDS = """
refused = one.awake(60)
seen = len((home / "tree.log").read_text().split())
end = time.monotonic() + 20
while len((home / "tree.log").read_text().split()) < seen + 20 and time.monotonic() < end:
    time.sleep(0.02)
process.terminate()
status = process.wait()
lines = [int(each) for each in (home / "tree.log").read_text().split()]
print(refused, status, lines == list(range(len(lines))), len(lines) > seen)
"""


def _killed_after(home: Path, code: str, seconds: float) -> None:
    """Have a server do this, and kill its program so long after it has said which that is."""
    with server(home, code, criu=criu_of_tests()) as line:
        assert line.isdigit(), line
        time.sleep(seconds)
        os.kill(int(line), signal.SIGKILL)


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_while_it_is_saved_or_woken_loses_nothing_and_doubles_nothing(
    home: Path, seed: int
) -> None:
    moments = random.Random(seed)  # noqa: S311 - no secret

    _killed_after(
        home, _BEGINS + _SAYS_ITS_PROGRAM + _SAVES + _STAYS, moments.random() * _LONGEST_S
    )
    for _ in range(3):
        _killed_after(home, _WAKES + _SAYS_ITS_PROGRAM + _STAYS, moments.random() * _LONGEST_S)

    assert told(home, _WAKES + _ENDS, criu=criu_of_tests()) == "None -15 True True"
