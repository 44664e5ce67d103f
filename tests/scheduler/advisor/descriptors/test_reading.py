"""Descriptions of what people have; what cannot be described is unknown, with the reason."""

from __future__ import annotations

import math

import pytest

from gpucommons.scheduler.advisor.descriptors.huggingface import from_config
from gpucommons.scheduler.advisor.descriptors.keras import KerasLayer, from_summary
from gpucommons.scheduler.advisor.network import Traced, Transformer, Unknown

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


def test_llama_has_eight_billion_parameters() -> None:
    found = from_config(LLAMA)
    assert isinstance(found, Transformer)
    assert found.parameters == pytest.approx(8.03e9, rel=0.001)


def test_gpt2_is_read_by_its_own_names() -> None:
    config = {
        "model_type": "gpt2",
        "n_layer": 12,
        "n_embd": 768,
        "n_head": 12,
        "vocab_size": 50257,
        "n_positions": 1024,
    }
    found = from_config(config)
    assert isinstance(found, Transformer)
    assert found.tied
    assert found.parameters == pytest.approx(124e6, rel=0.01)


def test_experts_count_whole_in_memory_and_in_part_in_work() -> None:
    config = LLAMA | {
        "model_type": "mixtral",
        "vocab_size": 32000,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    }
    found = from_config(config)
    assert isinstance(found, Transformer)
    assert found.parameters == pytest.approx(46.7e9, rel=0.01)
    active = found.layers * found.active_layer_parameters + found.embedding_parameters
    assert active == pytest.approx(12.9e9, rel=0.01)


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "whisper"},
        {"model_type": None},
        {"num_hidden_layers": None},
        {"hidden_size": "4096"},
        {"hidden_size": 4096.5},
        {"num_attention_heads": True},
        {"num_attention_heads": 0},
        {"vocab_size": -3},
        {"num_hidden_layers": 10**9},
        {"intermediate_size": [1]},
        {"hidden_size": math.nan},
        {"hidden_size": math.inf},
        {"num_hidden_layers": -math.inf},
        {"hidden_size": 4100},
        {"num_key_value_heads": 7},
        {"head_dim": -1, "hidden_size": 4100},
    ],
)
def test_a_configuration_that_says_too_little_is_unknown(changes: dict[str, object]) -> None:
    found = from_config(LLAMA | changes)
    assert isinstance(found, Unknown)
    assert found.why.endswith(".")


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.5, "4096", True, [1]])
def test_what_is_no_whole_number_is_named(value: object) -> None:
    found = from_config(LLAMA | {"hidden_size": value})
    assert found == Unknown(
        why="The configuration of 'llama' holds no whole number in hidden_size."
    )


def test_a_width_that_its_heads_do_not_divide_is_refused_with_both_numbers() -> None:
    found = from_config(LLAMA | {"hidden_size": 4100})
    assert isinstance(found, Unknown)
    assert "4100 cannot be divided among 32 heads" in found.why


def test_heads_that_are_wider_than_their_part_count_in_attention() -> None:
    """Qwen3-0.6B: 16 heads of 128 on a width of 1024, 596 million weights."""
    config = LLAMA | {
        "model_type": "qwen3",
        "num_hidden_layers": 28,
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    }
    found = from_config(config)
    assert isinstance(found, Transformer)
    assert found.parameters == pytest.approx(596e6, rel=0.001)
    usual = from_config(LLAMA | {"head_dim": 128})
    assert usual == from_config(LLAMA)
    assert repr(usual) == repr(from_config(LLAMA)), "runs are kept under it"


def test_a_summary_of_keras_is_counted_layer_by_layer() -> None:
    layers = [
        KerasLayer(kind="Conv2D", output_shape=(26, 26, 32), parameters=320),
        KerasLayer(kind="Flatten", output_shape=(21632,), parameters=0),
        KerasLayer(kind="Dense", output_shape=(10,), parameters=216330),
    ]
    found = from_summary(layers)
    assert isinstance(found, Traced)
    assert found.parameters == 216650
    assert found.forward_flops == 2 * (320 * 26 * 26 + 216330)
    assert found.activation_bytes == 4 * (21632 + 21632 + 10)


def test_a_summary_without_shape_is_unknown() -> None:
    assert isinstance(from_summary([]), Unknown)
    unbuilt = KerasLayer(kind="Dense", output_shape=(0,), parameters=10)
    assert isinstance(from_summary([unbuilt]), Unknown)
