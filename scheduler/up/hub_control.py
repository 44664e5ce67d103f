"""The two things that the supervisor asks of the hub, with a token that may do nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import httpx

from gpucommons.gpu.connections.trusted_authorities import trusted_at

_TRIES = 60
_BETWEEN_S = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class HubControl:
    """The hub's REST API as the supervisor uses it."""

    api_url: str
    token: str = field(repr=False)

    async def end_notebooks(self) -> bool:
        """Have the hub end every notebook in order, then itself: only it knows them all.

        Returns whether it will; it answers before it is done.
        """
        return await self._post("/shutdown", {"servers": True, "proxy": False})

    async def restore_routes(self) -> bool:
        """Have the hub tell a new proxy all routes; a hub that is busy starting is asked again."""
        for _ in range(_TRIES):
            if await self._post("/proxy", {}):
                return True
            await asyncio.sleep(_BETWEEN_S)
        return False

    async def _post(self, path: str, body: dict[str, bool]) -> bool:
        headers = {"Authorization": f"token {self.token}"}
        try:
            async with httpx.AsyncClient(
                trust_env=False, timeout=10.0, verify=trusted_at(self.api_url)
            ) as client:
                answer = await client.post(self.api_url + path, headers=headers, json=body)
        except httpx.HTTPError:
            return False
        return answer.is_success
