"""Workers of ``torch.distributed``: one process each, or as many as each has GPUs."""

from __future__ import annotations

import pytest
from gangs import TRAIN, a_gang

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


@pytest.mark.parametrize("program", ["torchrun", "python"])
def test_torchrun_itself_is_told_where_the_others_are(program: str) -> None:
    command = (program, "-m", "pack.age")
    _, second = starts("torchrun", a_gang(command=command))
    if program == "python":
        assert second.command == command
    else:
        meeting = ("--nnodes", "2", "--node-rank", "1", "--master-addr", "host-0")
        assert second.command == ("torchrun", *meeting, "--master-port", "7000", "-m", "pack.age")


def test_plain_workers_stay_as_they_are() -> None:
    assert [(one.command, one.env) for one in starts("plain", a_gang())] == [(TRAIN, {})] * 2
    assert [one.command for one in starts("of a later release", a_gang())] == [TRAIN, TRAIN]
