"""How long a step takes: what more bandwidth, compute and neighbours do to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.advisor.constants import Constants, moved
from gpucommons.scheduler.advisor.kinds import Pool, shipped
from gpucommons.scheduler.advisor.layout import (
    FULL,
    SHARE_MOMENTS,
    SHARE_WEIGHTS,
    Layout,
    layouts_of,
)
from gpucommons.scheduler.advisor.network import Traced, Transformer
from gpucommons.scheduler.advisor.recipe import Recipe
from gpucommons.scheduler.advisor.step import step

NETWORK = Transformer(
    layers=24, hidden=2048, heads=16, kv_heads=16, ffn=8192, vocabulary=50000, tied=True
)
KNOWN = Constants()


def pool(nodes: int = 2, **changes: object) -> Pool:
    tables = shipped()
    kind = tables.kinds["A100-80"]
    plain = Pool(
        kind=kind,
        gpus_per_node=8,
        nodes=nodes,
        inside=kind.link,
        between=tables.links["infiniband-800"],
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def seconds(layout: Layout, where: Pool, recipe: Recipe | None = None) -> float:
    recipe = recipe or Recipe(batch=64, sequence=2048)
    return float(step(NETWORK, recipe, layouts_of(layout), where, KNOWN).total[0])


def test_the_bubble_is_that_of_the_formula() -> None:
    # (p - 1) / m of the pipeline's own time, less with interleaved stages.
    layout = Layout(pipeline=8, accumulation=16, weighed=1)
    terms = step(NETWORK, Recipe(batch=16, sequence=2048), layouts_of(layout), pool(1), KNOWN).terms
    worked = float(terms["computation"][0] + terms["tensor links"][0])
    assert float(terms["pipeline bubble"][0]) / worked == pytest.approx(7 / 16, rel=0.01)


def test_the_stage_that_makes_the_logits_sets_the_pace_where_layers_are_equal() -> None:
    recipe = Recipe(batch=64, sequence=2048)
    weighed = Layout(pipeline=8, accumulation=64, weighed=1)
    equal = replace(weighed, weighed=0)
    alone = Layout(accumulation=64)
    assert seconds(equal, pool(1), recipe) > 1.1 * seconds(weighed, pool(1), recipe)
    assert seconds(alone, pool(1), recipe) == seconds(replace(alone, weighed=1), pool(1), recipe)


def test_parts_of_a_pipeline_send_their_gradients_while_those_before_them_still_work() -> None:
    slow = replace(pool(8), between=replace(pool().between, bytes_per_s=2e10))
    recipe = Recipe(batch=128, sequence=2048)
    whole = Layout(data=4, tensor=4, pipeline=4, accumulation=32, zero=SHARE_MOMENTS, weighed=1)
    links = [
        float(step(NETWORK, recipe, layouts_of(one), slow, KNOWN).terms["data links"][0])
        for one in (whole, replace(whole, virtual=3))
    ]
    assert links[0] > 0
    assert links[1] < 0.6 * links[0]


def test_gradients_that_take_no_longer_than_the_backward_pass_cost_next_to_nothing() -> None:
    recipe = Recipe(batch=64, sequence=2048)
    layout = Layout(data=16, micro=4)
    fast, crawling = (
        replace(pool(), between=replace(pool().between, bytes_per_s=speed))
        for speed in (1.8e11, 1e9)
    )
    terms = step(NETWORK, recipe, layouts_of(layout), fast, KNOWN).terms
    assert 0 < float(terms["data links"][0]) < 0.01 * float(terms["computation"][0])
    # Nothing hides what takes many times as long: 2 (d - 1) / d of 32-bit gradients.
    sent = 2 * 15 / 16 * NETWORK.parameters * 4 / (1e9 * KNOWN.between)
    assert seconds(layout, crawling, recipe) > sent


def test_pairs_of_a_node_with_one_root_share_it() -> None:
    tables = shipped()
    cards = replace(pool(1), kind=tables.kinds["T4"], inside=tables.links["pcie3"])
    recipe = Recipe(batch=8, sequence=2048, precision="fp16")
    pairs = layouts_of(Layout(tensor=2, data=4, micro=2))
    at = [
        float(step(NETWORK, recipe, pairs, where, KNOWN).terms["tensor links"][0])
        for where in (cards, replace(cards, gpus_per_node=2))
    ]
    assert at[0] > 3 * at[1]


def test_doing_the_forward_pass_again_costs_up_to_a_third() -> None:
    once = seconds(Layout(micro=8, accumulation=8), pool(1))
    again = seconds(Layout(micro=8, accumulation=8, recompute=FULL), pool(1))
    assert 1.2 < again / once < 1.34


def test_half_a_gpu_computes_with_the_whole_device_while_its_neighbour_is_idle() -> None:
    alone = Layout(micro=8, accumulation=8)
    whole = seconds(alone, pool(1))
    assert seconds(alone, pool(1, fraction=0.5)) == pytest.approx(whole, rel=0.02)
    busy = seconds(alone, pool(1, fraction=0.5, neighbours_busy=1.0))
    assert busy == pytest.approx(2 * whole, rel=0.05)


def test_slow_storage_is_the_bottleneck_and_said_so() -> None:
    recipe = Recipe(batch=64, sequence=2048, bytes_per_sample=1e9)
    layouts = layouts_of(Layout(data=8, micro=8))
    fast = step(NETWORK, recipe, layouts, pool(1, storage_bytes_per_s=1e12), KNOWN)
    slow = step(NETWORK, recipe, layouts, pool(1, storage_bytes_per_s=1e9), KNOWN)

    assert fast.bottleneck(0) == "computation"
    assert slow.bottleneck(0) == "data loading"
    assert float(slow.total[0]) == pytest.approx(64)


def test_a_traced_network_scales_by_its_gradients() -> None:
    network = Traced(parameters=10**8, forward_flops=1e11, activation_bytes=1e8)
    recipe = Recipe(batch=64)
    one = step(network, recipe, layouts_of(Layout(micro=64)), pool(1), KNOWN)
    eight = step(network, recipe, layouts_of(Layout(data=8, micro=8)), pool(1), KNOWN)
    assert one.total[0] / 8 < eight.total[0] < one.total[0]
    assert float(one.terms["data links"][0]) == 0


LAYOUTS = st.sampled_from(
    [
        Layout(data=16, micro=4),
        Layout(data=16, micro=4, zero=SHARE_WEIGHTS),
        Layout(data=2, tensor=8, micro=4, accumulation=8, sequence_parallel=1),
        Layout(data=2, tensor=4, pipeline=2, micro=2, accumulation=16),
        Layout(data=4, context=4, micro=2, accumulation=8, zero=SHARE_WEIGHTS),
    ]
)


@settings(deadline=None, max_examples=30)
@given(layout=LAYOUTS, more=st.floats(1.0, 50.0), which=st.sampled_from(["inside", "between"]))
def test_more_bandwidth_never_makes_a_step_slower(layout: Layout, more: float, which: str) -> None:
    plain = pool()
    link = getattr(plain, which)
    faster = replace(plain, **{which: replace(link, bytes_per_s=link.bytes_per_s * more)})
    assert seconds(layout, faster) <= seconds(layout, plain) * (1 + 1e-9)


@settings(deadline=None, max_examples=30)
@given(moves=st.lists(st.floats(-50, 50), min_size=11, max_size=11))
def test_history_moves_constants_within_bounds(moves: list[float]) -> None:
    changed = moved(KNOWN, np.array(moves))
    assert changed.overlap >= 1
    for name in ("products", "attention", "traffic", "between"):
        assert 0.24 < getattr(changed, name) / getattr(KNOWN, name) < 4.1
