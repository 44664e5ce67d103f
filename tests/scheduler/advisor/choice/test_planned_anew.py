"""A training that goes on with other GPUs keeps its global batch, as its script is told where that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.advisor.choice.planned_anew import as_told, planned_anew
from gpucommons.scheduler.advisor.choice.question import Question, Verdict
from gpucommons.scheduler.advisor.kinds import Pool, shipped
from gpucommons.scheduler.advisor.layout import Layout
from gpucommons.scheduler.advisor.network import Transformer, Unknown
from gpucommons.scheduler.advisor.recipe import Recipe

TABLES = shipped()
KIND = TABLES.kinds["A100-80"]
POOL = Pool(kind=KIND, gpus_per_node=8, nodes=1, inside=KIND.link, between=KIND.link)
SMALL = Transformer(
    layers=24, hidden=1024, heads=16, kv_heads=16, ffn=4096, vocabulary=50000, tied=True
)
#: 7 billion parameters: their weights and moments alone do not fit one GPU.
LARGE = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=32, ffn=16384, vocabulary=50000, tied=True
)
ASK = Question(network=SMALL, recipe=Recipe(batch=64, sequence=1024), pool=POOL, steps=1000)
FOUR = Layout(data=4, micro=4, accumulation=4)


def batch(layout: Layout | None) -> int:
    assert layout is not None
    return layout.data * layout.micro * layout.accumulation


@pytest.mark.parametrize(
    ("gpus", "micro", "accumulation"), [(1, 4, 16), (2, 4, 8), (8, 2, 4), (16, 1, 4)]
)
def test_other_numbers_of_gpus_share_the_same_batch_as_scripts_are_told(
    gpus: int, micro: int, accumulation: int
) -> None:
    found = as_told(FOUR, gpus)
    assert found == Layout(data=gpus, micro=micro, accumulation=accumulation)
    assert batch(found) == batch(FOUR)


def test_tensor_ranks_stay_together() -> None:
    wide = replace(FOUR, data=2, tensor=2)
    assert as_told(wide, 2) == replace(wide, data=1, accumulation=8)
    assert as_told(wide, 1) is None
    assert as_told(wide, 3) is None


def test_what_gives_no_whole_samples_is_not_what_a_script_is_told() -> None:
    assert as_told(replace(FOUR, micro=1), 8) is None
    assert as_told(FOUR, 3) is None


def test_it_goes_on_the_way_it_had_where_that_fits() -> None:
    found = planned_anew(ASK, FOUR, 2)
    assert found is not None
    assert (found.as_told, found.plan.layout) == (True, as_told(FOUR, 2))
    assert found.plan.verdict is Verdict.FITS


def test_it_is_laid_out_otherwise_where_the_way_it_had_does_not_fit() -> None:
    """What eight GPUs share out of weights and moments is too much for two."""
    asked = replace(ASK, network=LARGE)
    before = Layout(data=8, micro=8, zero=3)
    found = planned_anew(asked, before, 2)
    assert found is not None
    assert not found.as_told
    assert found.plan.layout.gpus == 2
    assert found.plan.layout.data * found.plan.layout.micro * found.plan.layout.accumulation == 64
    assert found.plan.layout != as_told(before, 2)


@pytest.mark.parametrize(
    ("network", "gpus"),
    [
        # No layout of one GPU holds it; the pool has no sixteen; nobody knows what it does.
        (LARGE, 1),
        (SMALL, 16),
        (Unknown(why="It cannot be read."), 2),
    ],
)
def test_where_nothing_can_be_said_there_is_no_plan(
    network: Transformer | Unknown, gpus: int
) -> None:
    assert planned_anew(replace(ASK, network=network), FOUR, gpus) is None
