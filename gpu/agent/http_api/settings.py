"""Where the agent's HTTP API listens, who may call it, and what answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpucommons.gpu.client.wire import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpApiSettings:
    """Where the HTTP API listens, and who may call it."""

    host: str
    port: int
    #: Read anew for every request, because Secrets change in place.
    token_file: Path
    #: Of those who may read ``/metrics`` and nothing else; None = only the other token does.
    metrics_token_file: Path | None = None
    #: For TLS; None = the network keeps others out.
    cert_file: Path | None = None
    key_file: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Inside:
    """What answers."""

    #: Answers a request line; raises ``AgentUnavailable``.
    ask: Callable[[bytes], bytes]
    #: Prometheus' page; raises ``AgentUnavailable``.
    metrics: Callable[[], bytes]
    #: Requests that are answered outside the agent's loop.
    others: Mapping[str, Callable[[], Json]] = field(default_factory=dict)
