"""Workers of ``torch.distributed``: one process each, or as many as each has GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from gangs import TRAIN, a_gang

from gpucommons.scheduler.client.submission import FileJob, command_for
from gpucommons.scheduler.launchers import starts


def test_a_worker_with_one_gpu_is_one_process_that_has_torchruns_variables() -> None:
    first, second = starts("torchrun", a_gang())
    assert (first.command, second.command) == (TRAIN, TRAIN)
    assert second.env == {
        "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2",
    }  # fmt: skip


def test_a_worker_with_more_gpus_has_a_process_for_each() -> None:
    _, second = starts("torchrun", a_gang(gpus=4))
    assert second.command == (
        "python", "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", "1",
        "--master-addr", "host-0", "--master-port", "7000", "--nproc-per-node", "4",
        "train.py", "--lr", "3",
    )  # fmt: skip
    assert second.env == {}


@pytest.mark.parametrize(
    "python", ["/opt/env/bin/python3", "python3.11", "env A=1 B= python", "env A=1 /opt/bin/python"]
)
def test_each_gpu_has_a_process_of_the_python_that_the_command_names(python: str) -> None:
    command = (*python.split(), "-u", "train.py", "--lr", "3")
    first, _ = starts("torchrun", a_gang(gpus=4, command=command))
    meeting = "--nnodes 2 --node-rank 0 --master-addr host-0 --master-port 7000"
    run = "-m torch.distributed.run"
    assert " ".join(first.command) == (
        f"{python} {run} {meeting} --nproc-per-node 4 train.py --lr 3"
    )


def test_torchrun_behind_variables_is_told_where_the_others_are() -> None:
    command = ("env", "A=1", "torchrun", "train.py")
    first, _ = starts("torchrun", a_gang(command=command))
    assert first.command[:4] == ("env", "A=1", "torchrun", "--nnodes")
    assert first.command[-1] == "train.py"


@pytest.mark.parametrize("program", ["torchrun", "python"])
def test_torchrun_itself_is_told_where_the_others_are(program: str) -> None:
    command = (program, "-m", "pack.age")
    _, second = starts("torchrun", a_gang(command=command))
    if program == "python":
        assert second.command == command
    else:
        meeting = ("--nnodes", "2", "--node-rank", "1", "--master-addr", "host-0")
        assert second.command == ("torchrun", *meeting, "--master-port", "7000", "-m", "pack.age")


@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize("module", ["torch.distributed.run", "torch.distributed.launch"])
@pytest.mark.parametrize("python", ["python", "/env/bin/python3", "python3.12"])
def test_torchrun_as_a_module_of_python_is_told_the_same(
    python: str, module: str, gpus: int
) -> None:
    start = (python, "-u", "-X", "dev", "-m", module)
    command = (*start, "--nproc-per-node", "2", "train.py")
    _, second = starts("torchrun", a_gang(gpus=gpus, command=command))
    meeting = ("--nnodes", "2", "--node-rank", "1", "--master-addr", "host-0")
    assert second.command == (
        *start, *meeting, "--master-port", "7000", "--nproc-per-node", "2", "train.py",
    )  # fmt: skip
    assert second.env == {}


def test_an_elastic_rendezvous_meets_at_the_first_worker() -> None:
    command = ("torchrun", "--rdzv-backend", "c10d", "--nproc-per-node", "2", "train.py")
    first, second = starts("torchrun", a_gang(command=command))
    meeting = ("--nnodes", "2", "--rdzv-id", "gpucommons", "--rdzv-endpoint", "host-0:7000")
    # A pod's own name may not be known to it yet, by which torchrun would find out.
    of_first, of_second = (("--rdzv-conf", f"is_host={one}") for one in (True, False))
    assert first.command == ("torchrun", *meeting, *of_first, *command[1:])
    assert second.command == ("torchrun", *meeting, *of_second, *command[1:])


def test_a_rendezvous_that_is_set_by_its_user_stays_as_they_say() -> None:
    command = ("torchrun", "--rdzv-backend=c10d", "--rdzv_conf", "timeout=900", "train.py")
    _, second = starts("torchrun", a_gang(command=command))
    assert second.command.count("--rdzv-conf") == 0
    assert second.command[-4:] == command[1:]


def test_a_notebook_is_one_process_however_many_gpus_it_has() -> None:
    command = tuple(command_for(FileJob(root=Path(), path="train.ipynb")))
    _, second = starts("torchrun", a_gang(gpus=4, command=command))
    assert second.command == command
    assert (second.env["RANK"], second.env["WORLD_SIZE"]) == ("1", "2")


def test_plain_workers_stay_as_they_are() -> None:
    assert [(one.command, one.env) for one in starts("plain", a_gang())] == [(TRAIN, {})] * 2
