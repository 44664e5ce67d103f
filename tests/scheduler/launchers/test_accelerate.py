"""Workers of Accelerate: its variables where a worker is one process, else its own launcher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gangs import TRAIN, a_gang

from gpucommons.scheduler.client.submission import FileJob, command_for
from gpucommons.scheduler.launchers import Gang, starts

MEETS = ("--main_process_ip", "host-0", "--main_process_port", "7000")


def meeting(processes: int) -> tuple[str, ...]:
    return (
        *("--num_machines", "2", "--num_processes", str(processes), "--machine_rank", "1"),
        *MEETS,
    )


def simulated(gang: Gang) -> Gang:
    return Gang(workers=tuple(replace(one, simulated=True) for one in gang.workers))


def test_a_worker_with_one_gpu_is_one_process_that_hears_signals_itself() -> None:
    _, second = starts("accelerate", a_gang())
    assert second.command == TRAIN
    assert (second.env["RANK"], second.env["WORLD_SIZE"], second.env["LOCAL_RANK"]) == (
        "1",
        "2",
        "0",
    )
    assert "ACCELERATE_USE_CPU" not in second.env


@pytest.mark.parametrize("gang", [a_gang(gpus=0), simulated(a_gang()), simulated(a_gang(gpus=4))])
def test_without_gpus_that_it_would_find_it_is_told_to_use_the_processor(gang: Gang) -> None:
    _, second = starts("accelerate", gang)
    assert second.command == TRAIN
    assert (second.env["ACCELERATE_USE_CPU"], second.env["WORLD_SIZE"]) == ("true", "2")


def test_a_worker_with_more_gpus_has_a_process_for_each() -> None:
    _, second = starts("accelerate", a_gang(gpus=4))
    launch = ("python", "-m", "accelerate.commands.launch")
    assert second.command == (*launch, *meeting(8), "train.py", "--lr", "3")
    assert second.env == {}


@pytest.mark.parametrize(
    "launch",
    [("accelerate", "launch"), ("python", "-u", "-m", "accelerate.commands.launch")],
)
def test_accelerate_launch_keeps_its_own_options(launch: tuple[str, ...]) -> None:
    given = ("--config_file", "mine.yaml", "--mixed_precision=bf16", "train.py", "--cpu")
    _, second = starts("accelerate", a_gang(command=(*launch, *given)))
    assert second.command == (*launch, *meeting(2), *given)


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (("train.py", "--cpu"), ("--cpu",)),
        (("--cpu", "train.py"), ()),
        (("--use-fsdp", "train.py"), ()),
    ],
)
def test_accelerate_launch_without_gpus_runs_on_the_processor(
    given: tuple[str, ...], added: tuple[str, ...]
) -> None:
    command = ("accelerate", "launch", *given)
    _, second = starts("accelerate", a_gang(gpus=0, command=command))
    assert second.command == ("accelerate", "launch", *meeting(2), *added, *given)


def test_a_notebook_is_one_process_however_many_gpus_it_has() -> None:
    command = tuple(command_for(FileJob(root=Path(), path="train.ipynb")))
    assert starts("accelerate", a_gang(gpus=4, command=command))[1].command == command
