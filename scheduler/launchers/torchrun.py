"""``torch.distributed``, in torchrun's own words.

A worker with at most one GPU is one process: torchrun itself would only stand above it and keep signals
from it, so the process gets torchrun's variables. A worker with more GPUs is started with torchrun, one
process for each. A worker sees no GPU but its own, so its processes count from ``LOCAL_RANK`` 0. A
notebook is one process however many GPUs it has: its cells run in one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpucommons.scheduler.launchers.launcher import (
    Asked,
    Launcher,
    Start,
    behind_env,
    is_notebook,
    option,
    program_of,
    python_of,
    script_words,
)
from gpucommons.scheduler.launchers.worker_addresses import Gang, Worker

_PROGRAM = "torchrun"
#: What torchrun is where Python starts it.
_MODULES = ("torch.distributed.run", "torch.distributed.launch")
#: Options of Python that take the next word.
_WITH_VALUE = ("-W", "-X")
_MODULE = ("-m", "torch.distributed.run")
_NO_PYTHON = "--no-python"
VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
)
_FIXED = ("--rdzv-endpoint", "--node-rank", "--master-addr", "--master-port")
#: The one that meets at a port of the first worker, and may lose and take in workers.
_ELASTIC = "c10d"
#: Options of torchrun that take no value; each other takes one.
_FLAGS = (
    *("-h", "--help", "-m", "--module", _NO_PYTHON, "--run-path"),
    *("--standalone", "--use-env", "--virtual-local-rank", "--print-completion"),
)
_WITH_VALUE_OF_TORCHRUN = (
    *(
        "--nnodes",
        "--nproc-per-node",
        "--rdzv-backend",
        "--rdzv-endpoint",
        "--rdzv-id",
        "--rdzv-conf",
    ),
    *("--max-restarts", "--monitor-interval", "--start-method", "--event-log-handler", "--role"),
    *("--log-dir", "-r", "--redirects", "-t", "--tee", "--log-line-prefix-template"),
    *("--local-ranks-filter", "--duplicate-stdout-filters", "--duplicate-stderr-filters"),
    *("--node-rank", "--master-addr", "--master-port", "--local-addr", "--logs-specs"),
    *("--numa-binding", "--signals-to-handle", "--shutdown-timeout"),
)


def _starts(gang: Gang) -> tuple[Start, ...]:
    return tuple(_start(gang, worker) for worker in gang.workers)


def _start(gang: Gang, worker: Worker) -> Start:
    if (length := _length_of(worker.command)) is not None:
        start, given = worker.command[:length], worker.command[length:]
        options, _ = _split(given)
        is_elastic = option(options, "--rdzv-backend") == _ELASTIC
        meet = _rendezvous(gang, worker, options) if is_elastic else _meeting(gang, worker)
        return Start(command=(*start, *meet, *given))
    words = script_words(worker.command)
    if worker.processes > 1 and words is not None and not is_notebook(words):
        return Start(command=one_for_each_gpu(gang, worker, words))
    return Start(command=worker.command, env=variables(gang, worker))


def one_for_each_gpu(gang: Gang, worker: Worker, words: Sequence[str]) -> tuple[str, ...]:
    """torchrun, which starts a process for each GPU of a worker."""
    each = ("--nproc-per-node", str(worker.processes))
    python = python_of(worker.command) or ("python",)
    return (*python, *_MODULE, *_meeting(gang, worker), *each, *words)


def is_torchrun(command: Sequence[str]) -> bool:
    """Whether a command is torchrun, by its own name or as a module of Python."""
    return _length_of(command) is not None


def _length_of(command: Sequence[str]) -> int | None:
    """How many first words of a command start torchrun; None where it is something else."""
    behind = behind_env(command)
    if program_of(command[behind:]) == _PROGRAM:
        return behind + 1
    if not (python := python_of(command)):
        return None
    place = len(python)
    while place < len(command) and command[place].startswith("-") and command[place] != "-m":
        place += 2 if command[place] in _WITH_VALUE else 1
    named = tuple(command[place : place + 2])
    return place + 2 if named in {("-m", module) for module in _MODULES} else None


def not_python(command: Sequence[str]) -> tuple[str, ...]:
    """What ``torchrun --no-python`` starts; () where a command is something else."""
    options, started = _own_torchrun(command) or ((), ())
    return tuple(started) if _NO_PYTHON in options else ()


def processes(command: Sequence[str]) -> str | None:
    """How many processes one's own torchrun starts on each node, as it is written there; "" where it
    names no script, None for another command.
    """
    found = _own_torchrun(command)
    if found is None:
        return None
    options, started = found
    return (option(options, "--nproc-per-node") or "1") if started else ""


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


def _rendezvous(gang: Gang, worker: Worker, options: Sequence[str]) -> Iterator[str]:
    first = gang.workers[0]
    yield from ("--nnodes", str(len(gang.workers)), "--rdzv-id", "gpucommons")
    yield from ("--rdzv-endpoint", f"{first.address}:{first.ports[0]}")
    if option(options, "--rdzv-conf") is None:
        # Else it looks for its own name, which a pod does not know in time, and nobody would answer.
        yield from ("--rdzv-conf", f"is_host={worker is first}")


def _own_torchrun(command: Sequence[str]) -> tuple[Sequence[str], Sequence[str]] | None:
    """As :func:`_split`, of a command that is torchrun; None for another."""
    length = _length_of(command)
    return None if length is None else _split(command[length:])


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Options of torchrun by their whole names, and its script with the script's own."""
    found, place = [], 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        name, equals, value = words[place].partition("=")
        whole = _whole(name)
        found.append(f"{whole}{equals}{value}")
        if equals or whole in _FLAGS:
            place += 1
        else:
            found += words[place + 1 : place + 2]
            place += 2
    return found, words[place:]


def _whole(name: str) -> str:
    """An option by its whole name: torchrun takes each beginning that only one of them has."""
    plain = name.replace("_", "-") if name.startswith("--") else name
    known = (*_FLAGS, *_WITH_VALUE_OF_TORCHRUN)
    begun = [one for one in known if plain.startswith("--") and one.startswith(plain)]
    return begun[0] if len(begun) == 1 and plain not in known else plain


def _refusal(asked: Asked) -> str | None:
    found = _own_torchrun(asked.command)
    if found is None:
        return None
    words, _ = found
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
    backend = option(words, "--rdzv-backend")
    if backend not in (None, "static", _ELASTIC):
        return (
            f"torchrun --rdzv-backend {backend} needs a service that a job does not have: leave it out, or"
            f" take {_ELASTIC}."
        )
    fixed = next((name for name in _FIXED if option(words, name) is not None), None)
    if fixed is not None:
        return f"torchrun {fixed} is chosen for each attempt: leave it out."
    return None


TORCHRUN = Launcher(
    name="torchrun",
    starts=_starts,
    refusal=_refusal,
    variables=VARIABLES,
    module="torch",
)
