"""Workers of DeepSpeed are told what its own launcher tells a process."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gangs import TRAIN, a_gang

from gpucommons.scheduler.launchers import Gang, starts

BY_TORCHRUN = (
    *("python", "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", "1"),
    *("--master-addr", "host-0", "--master-port", "7000", "--nproc-per-node", "4"),
)


def test_a_worker_with_one_gpu_is_one_process_with_deepspeeds_variables() -> None:
    _, second = starts("deepspeed", a_gang())
    assert second.command == TRAIN
    assert second.env == {
        "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2",
        "LOCAL_SIZE": "1", "CROSS_RANK": "1", "CROSS_SIZE": "2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "started"),
    [
        ((), ("python", "-u", "a.py", "--local_rank=0", "--x")),
        (("--no_local_rank",), ("python", "-u", "a.py", "--x")),
        (("--module",), ("python", "-u", "-m", "a.py", "--local_rank=0", "--x")),
        (("--no_python",), ("a.py", "--local_rank=0", "--x")),
    ],
)
def test_its_program_starts_the_script_as_it_would_itself(
    options: tuple[str, ...], started: tuple[str, ...]
) -> None:
    _, second = starts("deepspeed", a_gang(command=("deepspeed", *options, "a.py", "--x")))
    assert second.command == started
    assert second.env["CROSS_SIZE"] == "2"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("python", "a.py"), ("a.py",)),
        (("deepspeed", "a.py"), ("a.py",)),
        (("deepspeed", "--module", "a"), ("-m", "a")),
        (("deepspeed", "--no_python", "a"), ("--no-python", "a")),
    ],
)
def test_with_more_gpus_torchrun_starts_one_for_each(
    command: tuple[str, ...], words: tuple[str, ...]
) -> None:
    _, second = starts("deepspeed", a_gang(gpus=4, command=command))
    assert second.command == (*BY_TORCHRUN, *words)
    # Processes that torchrun starts are told who they are by it.
    assert "RANK" not in second.env


def test_simulated_gpus_have_no_processes_of_their_own() -> None:
    gang = a_gang(gpus=4, command=("python", "a.py"))
    found = Gang(workers=tuple(replace(one, simulated=True) for one in gang.workers))
    assert starts("deepspeed", found)[1].command == ("python", "a.py")
