"""Scripts of several workers as the frameworks' documentation shows them: joined, preempted, and gone on with."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.real_scripts import catalogue, environment
from benchmarks.real_scripts.play import Stage

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]

BY_LAUNCHER = {script.name: script for script in catalogue.BY_LAUNCHER}
#: Started by hand, each of its processes on its own: ports are added.
BY_HAND = {
    "accelerate": [["sh", "accelerate_by_hand.sh", "{}"]],
    "deepspeed": [["sh", "deepspeed_by_hand.sh", "{}"]],
    "tensorflow": [["sh", "tensorflow_by_hand.sh", "{}", "{}"]],
    "jax-processes": [["python", "jax_by_hand.py", rank, "{}"] for rank in "01"],
    "tensorflow-servers": [["sh", "tensorflow_servers_by_hand.sh", "{}", "{}", "{}"]],
    "mpi-ranks": [["sh", "mpi_by_hand.sh"]],
    "ray-tasks": [["sh", "ray_by_hand.sh", "{}"]],
    "spark-rows": [["sh", "spark_by_hand.sh"]],
}
#: `ray stop` ends every Ray of the machine: by hand it is played when the job has ended.
ENDS_OTHERS = ("ray-tasks",)
#: Without them mpirun starts nothing for root, as which CI runs.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def final_by_hand(environment_: Path, name: str, folder: Path) -> str:
    """The final number of the same script, started without us and never stopped."""
    for file in catalogue.EXAMPLES.iterdir():
        if file.is_file():
            shutil.copy(file, folder / file.name)
    path = f"{environment_ / 'bin'}{os.pathsep}{os.environ['PATH']}"
    with ExitStack() as held:
        servers = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [server.getsockname()[1] for server in servers]
    log = folder / "by-hand.log"
    with log.open("wb") as out:
        started = [
            subprocess.Popen(
                [
                    word if word != "{}" else str(ports[place % 3])
                    for place, word in enumerate(words)
                ],
                cwd=folder,
                env={**os.environ, **AS_ROOT, **environment.variables(environment_), "PATH": path},
                stdout=out,
                stderr=out,
            )
            for words in BY_HAND[name]
        ]
        ended = [process.wait(timeout=300) for process in started]
    text = log.read_text(errors="replace")
    assert ended == [0] * len(ended), text[-4000:]
    found = re.search(BY_LAUNCHER[name].final, text, re.MULTILINE)
    assert found is not None, text[-4000:]
    return found[1]


# From the longest, Spark and Ray, which are then played one after the other.
@pytest.mark.parametrize("name", tuple(reversed(BY_LAUNCHER)))
def test_two_workers_are_joined_go_on_after_a_preemption_and_end_with_the_number_of_the_manual_way(
    played_on: Stage, name: str, tmp_path: Path
) -> None:
    found = environment.find()
    assert found is not None
    with ThreadPoolExecutor(1) as beside:  # both wait more than they compute
        playing = beside.submit(played_on.play, BY_LAUNCHER[name])
        if name in ENDS_OTHERS:
            wait([playing])
        by_hand = final_by_hand(found, name, tmp_path)
        played = playing.result()

    assert (played.runs, played.attempts, played.resumes) == (True, 2, True), played
    assert (played.launcher, played.steps_repeated) == (BY_LAUNCHER[name].launcher, 0), played
    assert played.files_back, played
    assert played.curve_points > 0, played
    assert played.final == by_hand, played
