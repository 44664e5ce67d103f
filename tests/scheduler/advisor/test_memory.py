"""What a layout needs of a GPU: published figures, and what must never happen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.advisor.kinds import GIB
from gpucommons.scheduler.advisor.layout import (
    ATTENTION,
    FULL,
    SHARE_WEIGHTS,
    Layout,
    layouts_of,
)
from gpucommons.scheduler.advisor.memory import kept_activations, memory, states
from gpucommons.scheduler.advisor.network import Traced, Transformer
from gpucommons.scheduler.advisor.recipe import NF4_BYTES, Adapters, Recipe

GPT = Transformer(
    layers=48,
    hidden=6144,
    heads=64,
    kv_heads=64,
    ffn=24576,
    vocabulary=51200,
    tied=True,
    dropout=True,
)
LLAMA = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocabulary=128256, gated=True
)


def kept(layout: Layout, recipe: Recipe) -> float:
    return float(kept_activations(GPT, recipe, layouts_of(layout))[0]) / GIB


def test_activations_are_those_of_the_paper_on_22_billion_parameters() -> None:
    # Korthikanti et al. 2022, figure 1.
    recipe = Recipe(batch=4, sequence=2048, precision="megatron", flash=False)
    plain = Layout(tensor=8, micro=4)

    assert kept(plain, recipe) == pytest.approx(59.25, rel=0.01)
    both = replace(plain, sequence_parallel=1, recompute=ATTENTION)
    assert kept(both, recipe) == pytest.approx(9.56, rel=0.01)
    assert kept(replace(plain, recompute=FULL), recipe) == pytest.approx(4.53, rel=0.01)


def test_sharing_divides_states_and_nothing_else() -> None:
    recipe = Recipe(batch=8, sequence=2048, precision="amp")
    alone = states(LLAMA, recipe, layouts_of(Layout(data=8)))
    shared = states(LLAMA, recipe, layouts_of(Layout(data=8, zero=SHARE_WEIGHTS)))

    assert sum(float(one[0]) for one in alone.values()) == pytest.approx(16 * LLAMA.parameters)
    assert sum(float(one[0]) for one in shared.values()) == pytest.approx(2 * LLAMA.parameters)


def test_frozen_weights_take_the_bytes_that_they_are_stored_in() -> None:
    recipe = Recipe(batch=2, sequence=2048, precision="bf16", adapters=Adapters.QLORA)
    held = states(LLAMA, recipe, layouts_of(Layout(micro=2)))
    layers = LLAMA.layers * LLAMA.layer_parameters

    expected = NF4_BYTES * layers + 2 * LLAMA.embedding_parameters
    assert float(held["weights"][0]) == pytest.approx(expected)
    assert float(held["adapters"][0]) < 0.05 * expected


def test_offloaded_states_leave_the_gpu() -> None:
    recipe = Recipe(batch=8, sequence=2048)
    here = memory(LLAMA, recipe, layouts_of(Layout(data=8, zero=SHARE_WEIGHTS))).total[0]
    away = memory(LLAMA, recipe, layouts_of(Layout(data=8, zero=SHARE_WEIGHTS, offload=1))).total[0]
    assert away < here - 1.5 * LLAMA.parameters


def test_the_largest_terms_come_first_and_add_up() -> None:
    found = memory(LLAMA, Recipe(batch=16, sequence=8192), layouts_of(Layout(data=8, micro=2)))
    largest = found.largest(0)
    assert [size for _, size in largest] == sorted((size for _, size in largest), reverse=True)
    assert len(largest) == 4
    assert float(found.total[0]) == pytest.approx(
        sum(float(one[0]) for one in found.terms.values())
    )


def test_a_traced_network_keeps_what_its_trace_counted() -> None:
    network = Traced(parameters=10**8, forward_flops=1e9, activation_bytes=1e8)
    recipe = Recipe(batch=32, precision="fp32")
    found = memory(network, recipe, layouts_of(Layout(micro=32)))
    assert float(found.terms["activations"][0]) == 32e8
    assert float(found.terms["optimizer"][0]) == 8e8


@settings(deadline=None, max_examples=30)
@given(
    micro=st.integers(1, 64),
    data=st.sampled_from([1, 2, 8, 64]),
    sequence=st.sampled_from([128, 2048, 32768]),
)
def test_more_samples_at_once_never_need_less(micro: int, data: int, sequence: int) -> None:
    recipe = Recipe(batch=data * micro * 2, sequence=sequence)
    less, more = (
        memory(LLAMA, recipe, layouts_of(Layout(data=data, micro=size, zero=SHARE_WEIGHTS))).total[
            0
        ]
        for size in (micro, 2 * micro)
    )
    assert 0 < less <= more
