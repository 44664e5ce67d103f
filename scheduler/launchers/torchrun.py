"""``torch.distributed``, in torchrun's own words.

A worker with at most one GPU is one process: torchrun itself would only stand above it and keep signals
from it, so the process gets torchrun's variables. A worker with more GPUs is started with torchrun, one
process for each. A worker sees no GPU but its own, so its processes count from ``LOCAL_RANK`` 0. A
notebook is one process however many GPUs it has: its cells run in one kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpucommons.scheduler.launchers.gang import (
    NOTEBOOK_RUNNER,
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
#: What torchrun is where Python starts it.
_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
#: Options of Python that take the next word.
_WITH_VALUE = ("-W", "-X")
_MODULE = ("python", "-m", "torch.distributed.run")
VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
)
_FIXED = ("--rdzv-endpoint", "--node-rank", "--master-addr", "--master-port")
#: Options of torchrun that take no value; each other takes one.
_FLAGS = (
    *("-h", "--help", "-m", "--module", "--no-python", "--run-path"),
    *("--standalone", "--use-env", "--virtual-local-rank"),
)


def torch_starts(gang: Gang) -> tuple[Start, ...]:
    """Also of what stands on ``torch.distributed``."""
    return tuple(_start(gang, worker) for worker in gang.workers)


def _start(gang: Gang, worker: Worker) -> Start:
    if (length := _length_of(worker.command)) is not None:
        start, given = worker.command[:length], worker.command[length:]
        return Start(command=(*start, *_meeting(gang, worker), *given))
    words = script_words(worker.command)
    if worker.processes > 1 and words is not None and words[:2] != ("-m", NOTEBOOK_RUNNER):
        each = ("--nproc-per-node", str(worker.processes))
        return Start(command=(*_MODULE, *_meeting(gang, worker), *each, *words))
    return Start(command=worker.command, env=variables(gang, worker))


def is_torchrun(command: Sequence[str]) -> bool:
    """Whether a command is torchrun, by its own name or as a module of Python."""
    return _length_of(command) is not None


def _length_of(command: Sequence[str]) -> int | None:
    """How many first words of a command start torchrun; None where it is something else."""
    program = program_of(command)
    if program == _PROGRAM:
        return 1
    if _PYTHON.fullmatch(program) is None:
        return None
    place = 1
    while place < len(command) and command[place].startswith("-") and command[place] != "-m":
        place += 2 if command[place] in _WITH_VALUE else 1
    named = tuple(command[place : place + 2])
    return place + 2 if named in {("-m", module) for module in _MODULES} else None


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


def _own_options(words: Sequence[str]) -> Sequence[str]:
    """Those of torchrun, before the script: what stands behind it is the script's own."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        is_whole = "=" in words[place] or words[place].replace("_", "-") in _FLAGS
        place += 1 if is_whole else 2
    return words[:place]


def _refusal(asked: Asked) -> str | None:
    length = _length_of(asked.command)
    if length is None:
        return None
    words = _own_options(asked.command[length:])
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
