"""Layouts in the words of Megatron-LM and torchtitan: their scripts cut layers and stages as their own arguments say.

Read on 2026-11-30. Megatron-LM ``megatron/training/arguments.py``, ``config/training_config.py`` and
``core/model_parallel_config.py``: d98e8a6 of 2026-08-22, the same names as in core_v0.15.0. torchtitan
``config/job_config.py``, ``train.py`` and ``distributed/pipeline_parallel.py`` of v0.2.2 of 2026-02-20; its release
0.3.0 of 2026-09 has another configuration, in which recomputing is no longer an option with these values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpucommons.scheduler.advisor.layout import (
    FULL,
    NO_RECOMPUTE,
    OPERATORS,
    SHARE_MOMENTS,
    SHARE_NOTHING,
    SHARE_WEIGHTS,
    Layout,
    Layouts,
)
from gpucommons.scheduler.advisor.search import Ways

MEGATRON, TORCHTITAN = "megatron", "torchtitan"
#: Options of torchtitan from its release 0.3 on: there the configuration is a function.
_SINCE_0_3 = ("--module", "--config")


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnArguments:
    """What one of them takes."""

    #: As it calls itself.
    name: str
    #: Which layouts its arguments can say.
    takes: Callable[[Layouts], NDArray[np.bool_]]
    write: Callable[[Layout, int], Iterator[str]]
    #: Options that a plan decides, with how many values each has.
    decided: Mapping[str, int]
    #: What of a layout they cannot say.
    limits: str
    #: Its options are spelled with dashes and with underscores.
    either_spelling: bool = False
    #: Options without a value that it refuses where these others are not given.
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Without these it refuses layouts.
    variables: Mapping[str, str] = field(default_factory=dict)

    def ways(self, *, sharded: bool, recompute: bool) -> Ways:
        """Where a search looks for layouts."""
        return Ways(
            tensor=True,
            pipeline=True,
            context=True,
            sharded=sharded,
            recompute=recompute,
            takes=self.takes,
        )


def _megatron_takes(many: Layouts) -> NDArray[np.bool_]:
    """Interleaved stages want micro-batches in whole rounds."""
    rounds = (many.virtual == 1) | (many.accumulation % np.maximum(many.pipeline, 1) == 0)
    shares = np.isin(many.zero, (SHARE_NOTHING, SHARE_MOMENTS))
    again = np.isin(many.recompute, (NO_RECOMPUTE, FULL))
    said: NDArray[np.bool_] = shares & again & rounds & (many.offload == 0)
    return said


def _megatron(layout: Layout, batch: int) -> Iterator[str]:
    yield from ("--tensor-model-parallel-size", str(layout.tensor))
    yield from ("--pipeline-model-parallel-size", str(layout.pipeline))
    yield from ("--context-parallel-size", str(layout.context))
    yield from ("--micro-batch-size", str(layout.micro))
    yield from ("--global-batch-size", str(batch))
    if layout.virtual > 1:
        yield from ("--num-virtual-stages-per-pipeline-rank", str(layout.virtual))
    if layout.tensor > 1 and layout.sequence_parallel:
        yield "--sequence-parallel"
    if layout.zero == SHARE_MOMENTS:
        yield "--use-distributed-optimizer"
    if layout.recompute == FULL:
        yield from ("--recompute-granularity", "full", "--recompute-method", "uniform")
        yield from ("--recompute-num-layers", "1")


def _torchtitan_takes(many: Layouts) -> NDArray[np.bool_]:
    """Whole copies it keeps beside nothing else, and a stage for each micro-batch at most."""
    inner = many.tensor * many.pipeline * many.context
    copies = (many.zero == SHARE_NOTHING) & (many.context == 1)
    copies &= (many.data == 1) | (inner == 1)
    again = np.isin(many.recompute, (NO_RECOMPUTE, OPERATORS, FULL))
    filled = (many.pipeline == 1) | (many.accumulation >= many.pipeline)
    shared = copies | (many.zero == SHARE_WEIGHTS)
    said: NDArray[np.bool_] = shared & again & filled & (many.virtual == 1)
    return said


def _torchtitan(layout: Layout, batch: int) -> Iterator[str]:
    staged = layout.pipeline > 1
    copies = layout.zero == SHARE_NOTHING
    local = layout.micro * (layout.accumulation if staged else 1)
    shown = {
        "parallelism.data_parallel_replicate_degree": layout.data if copies else 1,
        "parallelism.data_parallel_shard_degree": 1 if copies else layout.data,
        "parallelism.tensor_parallel_degree": layout.tensor,
        "parallelism.pipeline_parallel_degree": layout.pipeline,
        "parallelism.context_parallel_degree": layout.context,
        "training.local_batch_size": local,
        "training.global_batch_size": batch,
        "activation_checkpoint.mode": {OPERATORS: "selective", FULL: "full"}.get(
            layout.recompute, "none"
        ),
    }
    if staged:
        shown["parallelism.pipeline_parallel_microbatch_size"] = layout.micro
        shown["parallelism.pipeline_parallel_schedule"] = "1F1B"
    if layout.recompute == OPERATORS:
        shown["activation_checkpoint.selective_ac_option"] = "op"
    if layout.offload:
        yield "--training.enable_cpu_offload"
    for name, value in shown.items():
        yield from (f"--{name}", str(value))


OWN_ARGUMENTS: Mapping[str, OwnArguments] = {
    MEGATRON: OwnArguments(
        name="Megatron-LM",
        takes=_megatron_takes,
        write=_megatron,
        decided={
            **dict.fromkeys(
                (
                    *("--tensor-model-parallel-size", "--pipeline-model-parallel-size"),
                    *("--context-parallel-size", "--micro-batch-size", "--global-batch-size"),
                    *("--num-virtual-stages-per-pipeline-rank", "--recompute-granularity"),
                    *("--num-layers-per-virtual-pipeline-stage", "--recompute-method"),
                    "--recompute-num-layers",
                ),
                1,
            ),
            # --recompute-activations is another word for one granularity, and wins over it.
            **dict.fromkeys(
                (
                    *("--sequence-parallel", "--use-distributed-optimizer"),
                    *("--recompute-activations", "--use-torch-fsdp2", "--use-megatron-fsdp"),
                ),
                0,
            ),
        },
        limits="weights shared out (FSDP), every second product recomputed",
        needs={
            "--overlap-param-gather": ("--use-distributed-optimizer",),
            "--overlap-param-gather-with-optimizer-step": (
                "--use-distributed-optimizer",
                "--num-virtual-stages-per-pipeline-rank",
            ),
        },
        # Asserted beside cut layers or sequences on GPUs before Blackwell.
        variables={"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    ),
    TORCHTITAN: OwnArguments(
        name="torchtitan",
        takes=_torchtitan_takes,
        write=_torchtitan,
        decided={
            **dict.fromkeys(
                (
                    *(f"--parallelism.{one}_parallel_degree" for one in ("tensor", "pipeline")),
                    "--parallelism.context_parallel_degree",
                    "--parallelism.data_parallel_replicate_degree",
                    "--parallelism.data_parallel_shard_degree",
                    "--parallelism.pipeline_parallel_microbatch_size",
                    "--parallelism.pipeline_parallel_schedule",
                    *("--training.local_batch_size", "--training.global_batch_size"),
                    *(
                        "--activation_checkpoint.mode",
                        "--activation_checkpoint.selective_ac_option",
                    ),
                ),
                1,
            ),
            "--training.enable_cpu_offload": 0,
        },
        limits="ZeRO-1, whole copies beside cut layers or stages, interleaved stages",
        either_spelling=True,
    ),
}


def own_command(
    command: Sequence[str], framework: str, arguments: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A command with a plan's arguments at its end, and the words of it that they replace or rule out."""
    own = OWN_ARGUMENTS[framework]
    unmet = [name for name, needed in own.needs.items() if not set(needed) <= set(arguments)]
    decided = {**own.decided, **dict.fromkeys(unmet, 0)}
    kept: list[str] = []
    replaced: list[str] = []
    place = 0
    while place < len(command):
        name, equals, _ = command[place].partition("=")
        values = decided.get(_spelled(name, own))
        if values is None:
            kept.append(command[place])
            place += 1
        else:
            length = 1 + (0 if equals else values)
            replaced += command[place : place + length]
            place += length
    return (*kept, *arguments), tuple(replaced)


def ways_of_script(framework: str) -> Ways:
    """Where a search looks for a script that takes these arguments, or nobody's."""
    own = OWN_ARGUMENTS.get(framework)
    return Ways() if own is None else own.ways(sharded=True, recompute=True)


def _spelled(name: str, own: OwnArguments) -> str:
    if own.either_spelling and name.startswith("--"):
        return f"--{name[2:].replace('-', '_')}"
    return name


def misfit(command: Sequence[str], framework: str) -> str | None:
    """Why a command does not take these names; None where nothing speaks against it."""
    if framework == TORCHTITAN and any(word.partition("=")[0] in _SINCE_0_3 for word in command):
        return (
            "--module and --config are of torchtitan 0.3 and later, whose arguments have other names: this"
            " plan is written for --job.config_file of torchtitan 0.1 and 0.2. Take one of these, or submit"
            " without the plan and set the layout in the configuration yourself."
        )
    return None
