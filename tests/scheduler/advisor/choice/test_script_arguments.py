"""Layouts in Megatron-LM's and torchtitan's own arguments: what they say gives the layout and its batch again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpucommons.scheduler.advisor.choice.script_arguments import (
    MEGATRON,
    OWN_ARGUMENTS,
    TORCHTITAN,
    misfit,
    own_command,
)
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.kinds import Pool, shipped
from gpucommons.scheduler.advisor.layout import (
    FULL,
    OPERATORS,
    SHARE_MOMENTS,
    SHARE_NOTHING,
    SHARE_WEIGHTS,
    Layout,
)
from gpucommons.scheduler.advisor.network import Transformer
from gpucommons.scheduler.advisor.recipe import Recipe
from gpucommons.scheduler.advisor.search import search

KIND = shipped().kinds["A100-80"]
#: 7 billion parameters.
LARGE = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=32, ffn=16384, vocabulary=50000, tied=True
)
BATCH = 64


def said(framework: str, layout: Layout) -> Sequence[str]:
    return tuple(OWN_ARGUMENTS[framework].write(layout, BATCH))


def named(words: Sequence[str]) -> dict[str, str]:
    """Options with their values; "" for those that take none."""
    found, place = {}, 0
    while place < len(words):
        takes_value = place + 1 < len(words) and not words[place + 1].startswith("--")
        found[words[place].lstrip("-")] = words[place + 1] if takes_value else ""
        place += 2 if takes_value else 1
    return found


def test_a_layout_in_the_words_of_megatron() -> None:
    layout = Layout(
        data=2,
        tensor=4,
        pipeline=2,
        micro=2,
        accumulation=16,
        zero=SHARE_MOMENTS,
        recompute=FULL,
        sequence_parallel=1,
    )
    expected = (
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --context-parallel-size 1"
        " --micro-batch-size 2 --global-batch-size 64 --sequence-parallel --use-distributed-optimizer"
        " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    )
    assert " ".join(said(MEGATRON, layout)) == expected


def test_a_layout_in_the_words_of_torchtitan_with_the_micro_batches_of_its_stages() -> None:
    layout = Layout(
        data=4,
        tensor=2,
        pipeline=2,
        micro=2,
        accumulation=8,
        zero=SHARE_WEIGHTS,
        recompute=OPERATORS,
    )
    found = named(said(TORCHTITAN, layout))
    assert found["parallelism.data_parallel_shard_degree"] == "4"
    assert found["parallelism.data_parallel_replicate_degree"] == "1"
    assert found["parallelism.pipeline_parallel_microbatch_size"] == "2"
    assert found["training.local_batch_size"] == "16"
    assert found["training.global_batch_size"] == "64"
    assert found["activation_checkpoint.mode"] == "selective"
    assert found["activation_checkpoint.selective_ac_option"] == "op"


@pytest.mark.parametrize("framework", [MEGATRON, TORCHTITAN])
def test_what_is_offered_can_be_said_and_keeps_gpus_and_global_batch(framework: str) -> None:
    pool = Pool(kind=KIND, gpus_per_node=8, nodes=2, inside=KIND.link, between=KIND.link)
    ways = OWN_ARGUMENTS[framework].ways(sharded=True, recompute=True)
    found = search(LARGE, Recipe(batch=BATCH, sequence=2048), pool, Constants(), ways)
    layouts = [found.layouts.one(index) for index in range(len(found.layouts))]
    assert any(one.tensor > 1 for one in layouts)
    assert any(one.pipeline > 1 for one in layouts)
    for layout in layouts:
        options = named(said(framework, layout))
        if framework == MEGATRON:
            cut = ("tensor-model", "pipeline-model", "context")
            degrees = [int(options[f"{one}-parallel-size"]) for one in cut]
            micro = int(options["micro-batch-size"])
            data = layout.gpus // (degrees[0] * degrees[1] * degrees[2])
        else:
            ways_named = ("tensor_", "pipeline_", "context_", "data_replicate_", "data_shard_")
            spelled = [
                f"parallelism.{one.replace('data_', 'data_parallel_')}degree"
                if one.startswith("data_")
                else f"parallelism.{one}parallel_degree"
                for one in ways_named
            ]
            degrees = [int(options[one]) for one in spelled]
            data = degrees[3] * degrees[4]
            assert degrees[0] * degrees[1] * degrees[2] * data == layout.gpus
            micro = int(options["training.local_batch_size"])
        # Both programs refuse a global batch that is no multiple of this.
        assert BATCH % (micro * data) == 0
    shares = {one.zero for one in layouts}
    refused = SHARE_WEIGHTS if framework == MEGATRON else SHARE_MOMENTS
    assert refused not in shares
    assert found.pruned["cannot be said with its arguments"] > 0


@pytest.mark.parametrize(
    ("framework", "given", "kept"),
    [
        (
            MEGATRON,
            "pretrain_gpt.py --micro-batch-size 8 --seed 1 --sequence-parallel --lr=1e-4 --global-batch-size=32"
            " --use-torch-fsdp2 --use-megatron-fsdp",
            "pretrain_gpt.py --seed 1 --lr=1e-4",
        ),
        (
            TORCHTITAN,
            "train.py --training.local-batch-size 8 --training.seq_len 2048 --parallelism.tensor_parallel_degree=4",
            "train.py --training.seq_len 2048",
        ),
    ],
)
def test_a_plan_takes_the_place_of_what_the_command_says(
    framework: str, given: str, kept: str
) -> None:
    command, replaced = own_command(given.split(), framework, ("--new",))
    assert " ".join(command) == f"{kept} --new"
    assert sorted([*replaced, *kept.split()]) == sorted(given.split())


@pytest.mark.parametrize(
    ("zero", "virtual", "left_out"),
    [
        (
            SHARE_NOTHING,
            1,
            {"--overlap-param-gather", "--overlap-param-gather-with-optimizer-step"},
        ),
        (SHARE_MOMENTS, 1, {"--overlap-param-gather-with-optimizer-step"}),
        (SHARE_MOMENTS, 2, set()),
    ],
)
def test_what_megatron_refuses_beside_a_plan_is_left_out(
    zero: int, virtual: int, left_out: set[str]
) -> None:
    layout = Layout(data=2, pipeline=2, micro=2, accumulation=16, zero=zero, virtual=virtual)
    overlaps = (
        "--overlap-grad-reduce --overlap-param-gather --overlap-param-gather-with-optimizer-step"
    )
    given = ["pretrain_gpt.py", "--use-distributed-optimizer", *overlaps.split()]
    command, replaced = own_command(given, MEGATRON, said(MEGATRON, layout))
    assert set(replaced) == {"--use-distributed-optimizer", *left_out}
    assert set(overlaps.split()) - set(command) == left_out


def test_torchtitan_since_0_3_has_other_names() -> None:
    assert misfit(["train.py", "--job.config_file", "a.toml"], TORCHTITAN) is None
    why = misfit(["train.py", "--module", "llama3", "--config=debug"], TORCHTITAN)
    assert why is not None
    assert "other names" in why
