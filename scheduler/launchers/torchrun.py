"""``torch.distributed``, in torchrun's own words.

A worker with at most one GPU is one process: torchrun itself would only stand above it and keep signals
from it, so the process gets torchrun's variables. A worker with more GPUs is started with torchrun, one
process for each. A worker sees no GPU but its own, so its processes count from ``LOCAL_RANK`` 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.scheduler.launchers.gang import (
    Asked,
    Gang,
    Launcher,
    Start,
    Worker,
    option,
    program_of,
    script_words,
)

_PROGRAM = "torchrun"
_MODULE = ("python", "-m", "torch.distributed.run")
VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
)
_FIXED = ("--rdzv-endpoint", "--rdzv_endpoint", "--master-port", "--master_port")


def torch_starts(gang: Gang) -> tuple[Start, ...]:
    """Also of what stands on ``torch.distributed``."""
    return tuple(_start(gang, worker) for worker in gang.workers)


def _start(gang: Gang, worker: Worker) -> Start:
    if program_of(worker.command) == _PROGRAM:
        return Start(command=(worker.command[0], *_meeting(gang, worker), *worker.command[1:]))
    words = script_words(worker.command)
    if worker.processes > 1 and words is not None:
        each = ("--nproc-per-node", str(worker.processes))
        return Start(command=(*_MODULE, *_meeting(gang, worker), *each, *words))
    return Start(command=worker.command, env=variables(gang, worker))


def variables(gang: Gang, worker: Worker) -> dict[str, str]:
    """Of a worker that is one process."""
    size = str(len(gang.workers))
    return {
        "RANK": str(worker.rank),
        "WORLD_SIZE": size,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(worker.rank),
        "GROUP_WORLD_SIZE": size,
    }


def _meeting(gang: Gang, worker: Worker) -> Iterator[str]:
    first = gang.workers[0]
    yield from ("--nnodes", str(len(gang.workers)), "--node-rank", str(worker.rank))
    yield from ("--master-addr", first.address, "--master-port", str(first.ports[0]))


def _refusal(asked: Asked) -> str | None:
    if program_of(asked.command) != _PROGRAM:
        return None
    words = asked.command[1:]
    nodes = option(words, "--nnodes")
    if nodes is not None and nodes != str(asked.workers):
        return (
            f"torchrun --nnodes {nodes} and {asked.workers} workers disagree: leave --nnodes out, each"
            " worker is a node."
        )
    if "--standalone" in words:
        return (
            "torchrun --standalone keeps each worker alone: leave it out, the workers are joined."
        )
    fixed = next((name for name in _FIXED if option(words, name) is not None), None)
    if fixed is not None:
        return f"torchrun {fixed} is chosen for each attempt: leave it out."
    return None


TORCHRUN = Launcher(
    name="torchrun",
    starts=torch_starts,
    refusal=_refusal,
    variables=VARIABLES,
)
