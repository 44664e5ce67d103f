"""MPI: ranks as ``mpirun`` starts them, each in the worker whose GPUs and log it has.

A worker has one rank, or one for each of its GPUs. Horovod's variables are there besides, as ``horovodrun``
sets them where MPI joins its ranks. The command of ``mpirun`` itself is made in the first worker:
``in_worker.mpirun``.
"""

from __future__ import annotations

from gpucommons.scheduler.launchers.joined import joined
from gpucommons.scheduler.launchers.launcher import Asked, Launcher, Start, program_of
from gpucommons.scheduler.launchers.worker_addresses import Gang, Worker

WORKERS = "GPUCOMMONS_MPI_WORKERS"
#: Commands that start ranks themselves.
PROGRAMS = ("mpirun", "mpiexec", "horovodrun", "prterun", "prun")
#: What a worker takes in the list of all, at most: an address on a cluster, a port, a count.
TOLD_BYTES = 100


def _starts(gang: Gang) -> tuple[Start, ...]:
    all_of_them = " ".join(f"{_place(one)}*{one.processes}" for one in gang.workers)
    return tuple(
        Start(command=joined("mpi", one), env={WORKERS: all_of_them}) for one in gang.workers
    )


def _place(worker: Worker) -> str:
    return f"{worker.address}:{worker.ports[2]}"


def is_mpirun(command: tuple[str, ...]) -> bool:
    """Whether a command starts ranks itself."""
    return program_of(command) in PROGRAMS


def _refusal(asked: Asked) -> str | None:
    if not is_mpirun(asked.command):
        return None
    program = program_of(asked.command)
    return (
        f"{program} is started by the launcher mpi, over all workers: leave it and its options out"
        f" (gpucommons submit --workers {asked.workers} -- python SCRIPT). For {program} of your own in one"
        " worker, ask for one worker."
    )


MPI = Launcher(
    name="mpi",
    starts=_starts,
    refusal=_refusal,
    variables=("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_CONTROLLER", "OMPI_COMM_WORLD_SIZE"),
    told_bytes=TOLD_BYTES,
    program="mpirun",
)
