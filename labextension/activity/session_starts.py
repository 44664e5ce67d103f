"""Two pages that open one notebook at once get one kernel.

Jupyter Server looks whether a path has a session and begins one where it has none; while the first kernel
starts there is none yet, so a second page's request began a second kernel for the same notebook. One of
the two then held a GPU that nobody saw, and both came back after a stop.
"""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakValueDictionary

from jupyter_core.utils import ensure_async


def begin_one_by_one(sessions: Any) -> None:
    """Have a server's manager of sessions begin those of one path one after the other."""
    create = sessions.create_session
    turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create_once(path: str | None = None, **asked: Any) -> Any:
        if not path or asked.get("kernel_id"):
            return await create(path=path, **asked)
        async with turns.setdefault(path, asyncio.Lock()):
            if await ensure_async(sessions.session_exists(path=path)):
                return await sessions.get_session(path=path)
            return await create(path=path, **asked)

    sessions.create_session = create_once
