"""Accelerate, in the words of ``accelerate launch`` and of the variables that an ``Accelerator`` reads.

A worker that is one process gets the variables: ``accelerate launch`` would only stand above it, and
ends at a signal before its script has saved. A worker with more GPUs is started with it, and so is a
command that names it, whose own options and configuration file hold but for where the others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpucommons.scheduler.launchers.launcher import (
    Asked,
    Launcher,
    Start,
    is_notebook,
    option,
    program_of,
    python_of,
    script_words,
)
from gpucommons.scheduler.launchers.torchrun import VARIABLES, variables
from gpucommons.scheduler.launchers.worker_addresses import Gang, Worker

_MODULE = ("-m", "accelerate.commands.launch")
_ON_CPU = "ACCELERATE_USE_CPU"
#: Ways to spread a training that shut each other out, and the processor.
_WAYS = ("--cpu", "--multi_gpu", "--tpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm")
_FIXED = (
    *("--machine_rank", "--main_process_ip", "--main_process_port"),
    *("--mpirun_hostfile", "--deepspeed_hostfile", "--gpu_ids"),
)
#: Options without a value; each other takes one.
_FLAGS = (
    *(*_WAYS, "-h", "--help", "-q", "--quiet", "-m", "--module", "--no_python", "--debug"),
    *("--same_network", "--use_parallelism_config", "--enable_cpu_affinity", "--downcast_bf16"),
    *("--dynamo_use_fullgraph", "--dynamo_use_dynamic", "--dynamo_use_regional_compilation"),
    *("--tpu_cluster", "--no_tpu_cluster", "--tpu_use_sudo", "--fp8_use_autocast_during_eval"),
    "--fp8_enable_fsdp_float8_all_gather",
)


def _starts(gang: Gang) -> tuple[Start, ...]:
    return tuple(_start(gang, worker) for worker in gang.workers)


def _start(gang: Gang, worker: Worker) -> Start:
    command, env = worker.command, _variables(gang, worker)
    words = script_words(command)
    if (length := _length_of(command)) is not None:
        given = command[length:]
        return Start(command=(*command[:length], *_meeting(gang, worker, given), *given), env=env)
    if _processes(worker) > 1 and words is not None and not is_notebook(words):
        python = python_of(command)
        return Start(command=(*python, *_MODULE, *_meeting(gang, worker, ()), *words))
    return Start(command=command, env=env)


def is_accelerate(command: Sequence[str]) -> bool:
    """Whether a command is ``accelerate launch``."""
    return _length_of(command) is not None


def _length_of(command: Sequence[str]) -> int | None:
    """How many first words of a command are ``accelerate launch``."""
    if program_of(command) == "accelerate" and tuple(command[1:2]) == ("launch",):
        return 2
    words = script_words(command) or ()
    return len(command) - len(words) + 2 if words[:2] == _MODULE else None


def _processes(worker: Worker) -> int:
    """One for each GPU that there really is: else one, on the processor."""
    return worker.processes if worker.finds_gpus else 1


def _variables(gang: Gang, worker: Worker) -> dict[str, str]:
    if _processes(worker) > 1:
        return {}
    on_cpu = {} if worker.finds_gpus else {_ON_CPU: "true"}
    return variables(gang, worker) | on_cpu


def _meeting(gang: Gang, worker: Worker, given: Sequence[str]) -> Iterator[str]:
    first, total = gang.workers[0], sum(_processes(one) for one in gang.workers)
    yield from ("--num_machines", str(len(gang.workers)), "--num_processes", str(total))
    yield from ("--machine_rank", str(worker.rank))
    yield from ("--main_process_ip", first.address, "--main_process_port", str(first.ports[0]))
    chosen = {word.partition("=")[0] for word in _own_options(given)}
    if not worker.finds_gpus and chosen.isdisjoint(_WAYS):
        # Else its launcher says that there are GPUs.
        yield "--cpu"


def _own_options(words: Sequence[str]) -> Sequence[str]:
    """Those of ``accelerate launch``, with underscores; what stands behind its script is the script's own."""
    found, place = [], 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        name, equals, value = words[place].partition("=")
        dashes = name[: len(name) - len(name.lstrip("-"))]
        whole = f"{dashes}{name.lstrip('-').replace('-', '_')}"
        found.append(f"{whole}{equals}{value}")
        if equals or whole in _FLAGS:
            place += 1
        else:
            found += words[place + 1 : place + 2]
            place += 2
    return found


def _refusal(asked: Asked) -> str | None:
    length = _length_of(asked.command)
    if length is None:
        return None
    words = _own_options(asked.command[length:])
    machines = option(words, "--num_machines")
    if machines not in (None, str(asked.workers)):
        return (
            f"accelerate launch --num_machines {machines} and {asked.workers} workers disagree: leave"
            " --num_machines out, each worker is a machine."
        )
    if option(words, "--num_processes") is not None:
        return (
            "accelerate launch --num_processes follows from the workers and their GPUs: leave it out, and ask"
            " for workers and GPUs."
        )
    fixed = next((name for name in _FIXED if option(words, name) is not None), None)
    if fixed is not None:
        return f"accelerate launch {fixed} is chosen for each attempt: leave it out."
    return None


ACCELERATE = Launcher(
    name="accelerate",
    starts=_starts,
    refusal=_refusal,
    variables=(*VARIABLES, _ON_CPU),
    module="accelerate",
)
