"""Which groups a user is in, asked of the hub from any thread and remembered for seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.hub.hub import Hub

#: As long as token answers are believed.
_KNOWN_FOR_MS = 30_000
_TIMEOUT_S = 5.0
_REMEMBERED = 10_000


class HubDirectory:
    """Asks the hub; works in the asyncio loop it is made in, is called from others' threads."""

    def __init__(self, hub: Hub, *, now_ms: Callable[[], int]) -> None:
        self._hub = hub
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._known: dict[UserName, tuple[frozenset[str] | None, int]] = {}

    def groups_of(self, user: UserName) -> frozenset[str]:
        """The user's groups; none for one whom the hub does not know.

        Raises
        ------
        Unavailable
            When the hub does not answer.
        """
        return self._asked(user) or frozenset()

    def knows(self, user: UserName) -> bool:
        """Whether the hub has such a user.

        Raises
        ------
        Unavailable
            When the hub does not answer.
        """
        return self._asked(user) is not None

    def _asked(self, user: UserName) -> frozenset[str] | None:
        known = self._known.get(user)
        if known is not None and self._now_ms() < known[1]:
            return known[0]
        asked = asyncio.run_coroutine_threadsafe(self._hub.groups_of(user), self._loop)
        try:
            groups = asked.result(_TIMEOUT_S)
        except TimeoutError:
            asked.cancel()
            message = f"JupyterHub does not say which groups {user} is in; try again in a moment."
            raise Unavailable(message) from None
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[user] = (groups, self._now_ms() + _KNOWN_FOR_MS)
        return groups


class NoDirectory:
    """Without a hub there are no groups: teams name their members."""

    def groups_of(self, user: UserName) -> frozenset[str]:
        """None, for anybody."""
        return frozenset()

    def knows(self, user: UserName) -> bool:
        """Everybody: nobody else could say."""
        return True
