"""A transformer from the ``config.json`` that Hugging Face models carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucommons.scheduler.advisor.network import Network, Transformer, Unknown, refusal

#: Model types whose feed-forward part has three matrices, and those with two.
_GATED = frozenset(
    [
        "cohere",
        "gemma",
        "gemma2",
        "gemma3_text",
        "granite",
        "llama",
        "mistral",
        "mixtral",
        "olmo",
        "olmo2",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "smollm3",
        "stablelm",
        "starcoder2_gated",
    ]
)
_PLAIN = frozenset(
    [
        "bert",
        "bloom",
        "codegen",
        "distilbert",
        "falcon",
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "gpt_neox",
        "gptj",
        "mpt",
        "opt",
        "phi",
        "roberta",
        "starcoder2",
    ]
)
#: The same number under the names of different models, the usual one first.
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
}
_LEARNED_POSITIONS = frozenset(
    ["bert", "distilbert", "gpt2", "gpt_bigcode", "gpt_neo", "opt", "roberta"]
)
_TIED = frozenset(
    [
        "bert",
        "bloom",
        "distilbert",
        "falcon",
        "gemma",
        "gemma2",
        "gpt2",
        "gpt_bigcode",
        "mpt",
        "opt",
        "roberta",
    ]
)


def from_config(config: Mapping[str, Any]) -> Network:
    """A description; unknown where the configuration is of a kind that this does not read."""
    kind = str(config.get("model_type", ""))[:60]
    if kind not in _GATED | _PLAIN:
        named = f"model type {kind!r}" if kind else "a configuration without model type"
        return Unknown(why=f"What layers {named} has is not known here.")
    try:
        found = _transformer(kind, config)
    except KeyError as error:
        return Unknown(why=f"The configuration of {kind!r} lacks {error.args[0]}.")
    except TypeError as error:
        return Unknown(why=f"The configuration of {kind!r} holds no whole number in {error}.")
    refused = refusal(found)
    return Unknown(why=refused) if refused else found


def _transformer(kind: str, config: Mapping[str, Any]) -> Transformer:
    layers, hidden, heads = (
        _number(config, *_NAMES[name]) for name in ("layers", "hidden", "heads")
    )
    ffn = _optional(config, "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    experts = _optional(config, "num_local_experts", "num_experts") or 1
    head_width = _optional(config, "head_dim") or 0
    return Transformer(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=1
        if config.get("multi_query")
        else _optional(config, "num_key_value_heads") or heads,
        ffn=(experts > 1 and _optional(config, "moe_intermediate_size")) or ffn or 4 * hidden,
        vocabulary=_number(config, "vocab_size"),
        gated=kind in _GATED,
        tied=bool(config.get("tie_word_embeddings", kind in _TIED)),
        experts=experts,
        experts_used=_optional(config, "num_experts_per_tok", "top_k_experts") or 1,
        positions=_positions(kind, config),
        head_width=0 if head_width * heads == hidden else head_width,
    )


def _positions(kind: str, config: Mapping[str, Any]) -> int:
    if kind not in _LEARNED_POSITIONS:
        return 0
    return _optional(config, "max_position_embeddings", "n_positions") or 0


def _number(config: Mapping[str, Any], *names: str) -> int:
    found = _optional(config, *names)
    if found is None:
        raise KeyError(names[0])
    return found


def _optional(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        # JSON of Python also has NaN and Infinity.
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(name)
        return value
    return None
