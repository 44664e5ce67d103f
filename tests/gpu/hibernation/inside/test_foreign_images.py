"""An image of another machine, kernel or user, and one of very many files: a sentence, and nothing is hurt."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from typing import Any

import pytest

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation.process_image import this_cpu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused, Saved
from tests.gpu.hibernation.conftest import Start, line, python

pytestmark = pytest.mark.criu
_SECONDS = 60
_TICKING = "import time\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.02)\n"
Told = dict[str, Any]


def _of_another_processor(told: Told) -> str:
    told["cpu"]["features"] = [*told["cpu"]["features"], "zz_matrix"]
    model = this_cpu().model
    return (
        f"It was saved on another processor ({model}), which has zz_matrix; this one ({model})"
        " has not."
    )


def _of_another_architecture(told: Told) -> str:
    told["cpu"]["architecture"] = "riscv64"
    return f"It was saved on riscv64, and this machine is {platform.machine()}."


def _of_a_newer_kernel(told: Told) -> str:
    told["kernel_release"] = "99.1.0"
    return f"It was saved on a newer kernel (99.1.0) than this machine's ({platform.release()})."


def _of_another_user(told: Told) -> str:
    told["uid"] += 1
    return "The image was saved by another user."


@pytest.mark.parametrize(
    "change",
    [_of_another_processor, _of_another_architecture, _of_a_newer_kernel, _of_another_user],
)
def test_a_foreign_image_is_refused_with_a_sentence_and_wakes_where_it_belongs(
    tree: HibernatableTree, start: Start, change: Callable[[Told], str]
) -> None:
    program = start(tree.run_command(python(_TICKING)))
    line(program)
    assert isinstance(tree.save(_SECONDS), Saved)
    program.wait()
    description = tree.folder / layout.COMPLETE / layout.DESCRIPTION
    own = description.read_text()
    told = json.loads(own)
    because = change(told)
    description.write_text(json.dumps(told))

    woken = start(tree.wake_command())

    assert line(woken) == because
    assert woken.wait() == layout.REFUSED_STATUS
    description.write_text(own)
    assert line(start(tree.wake_command())) == "tick"


#: No process here may have so many open: six share them.
_FILES, _SHARED_BY = 100_000, 6
_HOLDING = f"""
import os, pathlib, sys, time
folder, held = pathlib.Path(sys.argv[1]), []
for number in range(1000):
    (folder / str(number)).touch()
is_first = all(os.fork() for _ in range({_SHARED_BY - 1}))
for number in range({_FILES // _SHARED_BY}):
    held.append(os.open(folder / str(number % 1000), os.O_RDONLY))
(folder / f"ready-{{os.getpid()}}").touch()
while len(list(folder.glob("ready-*"))) < {_SHARED_BY}:
    time.sleep(0.02)
while True:
    if is_first:
        print("tick", flush=True)
    time.sleep(0.02)
"""


def test_a_program_of_a_hundred_thousand_open_files_is_kept_or_goes_on_within_its_grace(
    tree: HibernatableTree, start: Start
) -> None:
    folder = tree.folder.parent / "files"
    folder.mkdir()
    program = start(tree.run_command([*python(_HOLDING), str(folder)]))
    assert line(program) == "tick"
    begun = time.monotonic()

    answer = tree.save(20)

    took_s = time.monotonic() - begun
    assert took_s < 20 + 15
    if isinstance(answer, Refused):
        assert answer.because == "Writing its memory took longer than there was time."
        assert answer.alive
        assert line(program) == "tick"
        return
    program.wait()
    assert line(start(tree.wake_command())) == "tick"
