"""DeepSpeed, as its own launcher starts a process: its variables, and ``--local_rank`` for the script.

A worker with at most one GPU is one process. One with more is started with torchrun, which DeepSpeed
takes as well: its own launcher would number the GPUs of the machine anew, and so reach for others'.
Then the script gets no ``--local_rank`` and finds it in ``LOCAL_RANK``, as with ``--no_local_rank``.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.scheduler.launchers.launcher import (
    Asked,
    Launcher,
    Start,
    is_notebook,
    program_of,
    script_words,
)
from gpucommons.scheduler.launchers.torchrun import VARIABLES, one_for_each_gpu, variables
from gpucommons.scheduler.launchers.worker_addresses import Gang, Worker

_PROGRAM = "deepspeed"
_AS_MODULE, _NO_PYTHON, _NO_LOCAL_RANK = "--module", "--no_python", "--no_local_rank"
#: Of its program: all others say how it reaches machines, of which it needs to know nothing here.
_OPTIONS = (_AS_MODULE, _NO_PYTHON, _NO_LOCAL_RANK)


def _starts(gang: Gang) -> tuple[Start, ...]:
    return tuple(_start(gang, worker) for worker in gang.workers)


def _start(gang: Gang, worker: Worker) -> Start:
    env = _variables(gang, worker)
    if is_deepspeed(worker.command):
        return _as_its_program(gang, worker, env)
    words = script_words(worker.command)
    if _processes(worker) > 1 and words is not None and not is_notebook(words):
        return Start(command=one_for_each_gpu(gang, worker, words))
    return Start(command=worker.command, env=env)


def _as_its_program(gang: Gang, worker: Worker, env: dict[str, str]) -> Start:
    """What ``deepspeed [--module] SCRIPT …`` starts."""
    options, words = _split(worker.command[1:])
    is_python = _NO_PYTHON not in options
    if _processes(worker) > 1:
        how = () if is_python else ("--no-python",)
        module = ("-m",) if _AS_MODULE in options else ()
        return Start(command=one_for_each_gpu(gang, worker, (*how, *module, *words)))
    local = () if _NO_LOCAL_RANK in options else ("--local_rank=0",)
    python = ("python", "-u", *(("-m",) if _AS_MODULE in options else ())) if is_python else ()
    return Start(command=(*python, *words[:1], *local, *words[1:]), env=env)


def is_deepspeed(command: Sequence[str]) -> bool:
    """Whether a command is DeepSpeed's own program."""
    return program_of(command) == _PROGRAM


def _split(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Options of the program, and the script with its own."""
    length = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    return tuple(words[:length]), tuple(words[length:])


def _processes(worker: Worker) -> int:
    """One for each GPU that there really is: else one, on the processor."""
    return worker.processes if worker.finds_gpus else 1


def _variables(gang: Gang, worker: Worker) -> dict[str, str]:
    own = {
        "LOCAL_SIZE": "1",
        "CROSS_RANK": str(worker.rank),
        "CROSS_SIZE": str(len(gang.workers)),
    }
    return {} if _processes(worker) > 1 else variables(gang, worker) | own


def _refusal(asked: Asked) -> str | None:
    if not is_deepspeed(asked.command):
        return None
    options, words = _split(asked.command[1:])
    unknown = next((word for word in options if word.partition("=")[0] not in _OPTIONS), None)
    if unknown is not None:
        return (
            f"deepspeed {unknown.partition('=')[0]} is of DeepSpeed's own way to start workers, in whose place"
            " the launcher is: leave it out, and ask for workers and GPUs."
        )
    return None if words else "deepspeed needs a script: deepspeed train.py."


DEEPSPEED = Launcher(
    name="deepspeed",
    starts=_starts,
    refusal=_refusal,
    variables=(*VARIABLES, "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"),
    module="deepspeed",
)
