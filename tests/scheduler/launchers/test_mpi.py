"""Workers of MPI get a list of all, and a program of ours before their command."""

from __future__ import annotations

import pytest
from gangs import TRAIN, a_gang

from gpucommons.scheduler import in_worker
from gpucommons.scheduler.in_worker import mpirun as at_run_time
from gpucommons.scheduler.launchers import starts
from gpucommons.scheduler.launchers.joined import MODULE
from gpucommons.scheduler.launchers.mpi import WORKERS


def test_every_worker_is_told_all_places_and_ranks() -> None:
    _, second = starts("mpi", a_gang(gpus=2))
    assert second.command == ("python", "-m", MODULE, "mpi", "--rank", "1", "--", *TRAIN)
    assert second.env == {WORKERS: "host-0:9000*2 host-1:9001*2"}


def test_ranks_are_in_the_order_of_workers_on_their_hosts() -> None:
    found = at_run_time.members("a:1*2 b:2*1")
    assert at_run_time.host_file(found) == "a\na\nb\n"
    assert at_run_time.seats(found) == [(0, 0), (0, 1), (1, 0)]


def test_horovod_is_told_what_horovodrun_would_tell_it() -> None:
    """The slots of two hosts with two each, as `create_slot_env_vars` of Horovod 0.28.1 numbers them."""
    found = at_run_time.members("a:1*2 b:2*2")
    told = at_run_time.of_rank(found, 1, 0)
    assert {name: value for name, value in told.items() if name.startswith("HOROVOD_")} == {
        "HOROVOD_RANK": "2",
        "HOROVOD_SIZE": "4",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
        "HOROVOD_CONTROLLER": "mpi",
        "HOROVOD_CPU_OPERATIONS": "mpi",
    }


@pytest.mark.parametrize("how", ["ray", "spark"])
def test_a_node_is_told_where_the_head_is_and_what_it_offers(how: str) -> None:
    _, second = starts(how, a_gang(gpus=2))
    assert second.command == (
        "python", "-m", MODULE, how, "--first", "host-0:9000", "--size", "2",
        "--head", "host-0:7000", "--cpus", "1", "--gpus", "2", "--memory-mib", "0",
        "--at", "host-1:8001", "--rank", "1", "--", *TRAIN,
    )  # fmt: skip


def test_what_is_named_is_what_runs() -> None:
    assert in_worker.__name__ == MODULE == at_run_time.MODULE
    assert WORKERS == at_run_time.WORKERS
