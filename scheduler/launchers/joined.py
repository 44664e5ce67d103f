"""What launchers say that need more than variables: the command behind a program of ours."""

from __future__ import annotations

from gpucommons.scheduler.launchers.launcher import Start
from gpucommons.scheduler.launchers.worker_addresses import Gang, Worker

#: The module that runs in such workers, above the user's command.
MODULE = "gpucommons.scheduler.in_worker"
#: Of a worker's ports, the one at which the first worker tells the others when it is over.
_FRAMEWORKS, _OWN, _MEETING = range(3)


def joined(how: str, worker: Worker, *words: str, rank: int | None = None) -> tuple[str, ...]:
    """``python -m … HOW … -- COMMAND``, the worker's own rank where no other is given."""
    number = worker.rank if rank is None else rank
    return ("python", "-m", MODULE, how, *words, "--rank", str(number), "--", *worker.command)


def first_place(gang: Gang) -> str:
    """Where the first worker tells the others when it is over."""
    return f"{gang.workers[0].address}:{gang.workers[0].ports[_MEETING]}"


def meeting_of(gang: Gang) -> tuple[str, ...]:
    """How many there are, and where the first one answers."""
    return ("--first", first_place(gang), "--size", str(len(gang.workers)))


def cluster_start(how: str, gang: Gang, worker: Worker) -> Start:
    """A node of a framework's own cluster: the first one has its head, and runs the script."""
    first = gang.workers[0]
    words = [*meeting_of(gang), "--head", f"{first.address}:{first.ports[_FRAMEWORKS]}"]
    words += ["--cpus", str(worker.cpus), "--gpus", str(worker.gpus)]
    words += ["--memory-mib", str(worker.memory_mib)]
    words += ["--at", f"{worker.address}:{worker.ports[_OWN]}"]
    return Start(command=joined(how, worker, *words))
