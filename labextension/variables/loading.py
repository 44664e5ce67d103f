"""Loading stored variables into a kernel that its user chose, by a press of its user."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpucommons.labextension.variables import asking
from gpucommons.labextension.variables.folders import Folders, Lost, read_json
from gpucommons.labextension.variables.inside import LOADED, NotKept

#: Longer than anybody waits for an answer; the kernel may go on with it.
LOAD_SECONDS = 120.0
_WHY = {
    "late": "the kernel still loads them: look at it again in a while",
    "gone": "the kernel ended while it loaded them",
    "error": "the kernel could not begin to load them",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What became of each variable."""

    loaded: tuple[str, ...] = ()
    failed: tuple[Lost, ...] = ()
    #: Why it ended before its end; empty where it did not.
    because: str = ""


_LOADED = TypeAdapter(Loaded)


async def load(
    folders: Folders, kernel_id: str, kernel: Any, *, now_ms: int, seconds: float = LOAD_SECONDS
) -> Loaded:
    """Load what is stored of one kernel into another.

    Raises
    ------
    NotKept
        Where nothing is stored of it, or the other kernel is at work.
    """
    stored = await asyncio.to_thread(folders.one, kernel_id)
    if stored is None or not stored.kept:
        message = "There are no stored variables of that kernel any more."
        raise NotKept(message)
    if not await asking.is_idle(kernel):
        message = "This kernel is running a cell: load them when it is done."
        raise NotKept(message)
    folder = folders.root / kernel_id
    text = asking.code("load", str(folder), dill_at=asking.dill_at())
    ended = await asking.run(kernel, text, seconds=seconds)
    if ended != "ok":
        return Loaded(because=_WHY[ended])
    try:
        told = _LOADED.validate_python(await asyncio.to_thread(read_json, folder, LOADED))
    except (OSError, NotKept, ValueError, ValidationError):
        return Loaded(because=_WHY["error"])
    await asyncio.to_thread(folders.mark_loaded, stored, now_ms)
    return told
