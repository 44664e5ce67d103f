"""Test-only: our culler under the name and call of jupyterhub-idle-culler, for its own suite."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gpucommons.idle_culler import servers_without_lease


def utcnow() -> datetime:
    """The suite replaces this to travel in time."""
    return datetime.now(UTC)


async def cull_idle(*arguments: Any, **options: Any) -> None:
    """Our function, on the suite's clock."""
    await servers_without_lease.cull_idle(
        *arguments, **options, now_ms=lambda: int(utcnow().timestamp() * 1000)
    )
