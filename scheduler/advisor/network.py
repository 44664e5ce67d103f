"""What is trained: sizes from which work and memory follow, or "unknown".

A transformer is known by its shape, any other network by what a trace counted. Neither holds
weights or code: a description is numbers alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Larger numbers are typing errors: no model, sequence or batch comes near.
_MOST_PARAMETERS = 100_000_000_000_000
_MOST_LAYERS = 10_000
_MOST_WIDTH = 1_000_000
_MOST_VOCABULARY = 10_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Transformer:
    """A decoder or encoder of equal layers."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    #: Three matrices in the feed-forward part instead of two (SwiGLU).
    gated: bool = False
    #: One matrix embeds tokens and makes logits.
    tied: bool = False
    dropout: bool = False
    #: Experts of the feed-forward part, and how many of them a token visits.
    experts: int = 1
    experts_used: int = 1
    #: Learned positions that have weights.
    positions: int = 0
    #: Width of a head where it is not an equal part of ``hidden``; 0: it is. Outside of ``repr``, by
    #: which runs that were kept before it came are found.
    head_width: int = field(default=0, repr=False)

    @property
    def attention_width(self) -> int:
        """Width of all queries together."""
        return self.heads * self.head_width or self.hidden

    @property
    def kv_share(self) -> float:
        """Width of keys or values over width of queries."""
        return self.kv_heads / self.heads

    @property
    def attention_parameters(self) -> float:
        """Weights of one layer's attention: queries, keys, values, projection."""
        return self.hidden * self.attention_width * (2 + 2 * self.kv_share)

    @property
    def feed_forward_parameters(self) -> float:
        """Weights of one expert of one layer."""
        return self.hidden * self.ffn * (3 if self.gated else 2)

    @property
    def layer_parameters(self) -> float:
        """Weights of one layer, all experts."""
        router = self.hidden * self.experts if self.experts > 1 else 0
        return self.attention_parameters + self.experts * self.feed_forward_parameters + router

    @property
    def active_layer_parameters(self) -> float:
        """Weights of one layer that a token meets."""
        return self.attention_parameters + self.experts_used * self.feed_forward_parameters

    @property
    def head_parameters(self) -> float:
        """Weights that make logits."""
        return float(self.hidden * self.vocabulary)

    @property
    def embedding_parameters(self) -> float:
        """Weights outside of the layers, logits included."""
        both = self.head_parameters * (1 if self.tied else 2)
        return both + self.positions * self.hidden

    @property
    def parameters(self) -> float:
        """All weights."""
        return self.layers * self.layer_parameters + self.embedding_parameters


@dataclass(frozen=True, kw_only=True, slots=True)
class Traced:
    """Any network, as a trace counted it: it runs data parallel only."""

    parameters: int
    #: Multiplications and additions of one sample's forward pass, each counted.
    forward_flops: float
    #: What one sample leaves behind for the backward pass, in bytes of 32-bit floats.
    activation_bytes: float
    #: The largest single layer, which sharded data parallel gathers whole.
    largest_layer_parameters: int = 0
    #: Modules that compute, each of which starts kernels of its own.
    modules: int = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """Nothing is known of it, and why."""

    why: str
    #: Jobs that trained it were named.
    tried: bool = False


Network = Transformer | Traced | Unknown


def refusal(network: Network) -> str | None:
    """Why nothing can be computed from a description; None if it can."""
    match network:
        case Unknown():
            return network.why
        case Traced():
            return _traced_refusal(network)
        case Transformer():
            return _transformer_refusal(network)


def _traced_refusal(network: Traced) -> str | None:
    if not 0 < network.parameters <= _MOST_PARAMETERS:
        return f"A network of {network.parameters} parameters cannot be: look at the trace."
    if not 0 < network.forward_flops < float("inf"):
        return "The trace counted no work, so nothing can be said about speed."
    if not 0 <= network.activation_bytes < float("inf"):
        return "The trace counted no activations, so nothing can be said about memory."
    return None


def _transformer_refusal(network: Transformer) -> str | None:
    limits = {
        "layers": _MOST_LAYERS,
        "hidden": _MOST_WIDTH,
        "heads": _MOST_WIDTH,
        "kv_heads": _MOST_WIDTH,
        "ffn": _MOST_WIDTH * 10,
        "vocabulary": _MOST_VOCABULARY,
        "experts": _MOST_LAYERS,
        "experts_used": _MOST_LAYERS,
    }
    for name, most in limits.items():
        value = getattr(network, name)
        if not 0 < value <= most:
            return f"{name} is {value}: it must lie between 1 and {most}."
    if network.kv_heads > network.heads or network.experts_used > network.experts:
        return "More heads or experts are used than there are."
    if network.heads % network.kv_heads:
        return f"{network.heads} heads cannot share {network.kv_heads} heads of keys evenly."
    if not 0 <= network.head_width <= _MOST_WIDTH:
        return f"head_width is {network.head_width}: it must lie between 0 and {_MOST_WIDTH}."
    if not network.head_width and network.hidden % network.heads:
        return (
            f"A width of {network.hidden} cannot be divided among {network.heads} heads: look at"
            " hidden and heads."
        )
    return None
