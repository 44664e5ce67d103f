"""Having a kernel run the text of `inside`, silently, and waiting for that no longer than allowed."""

from __future__ import annotations

import asyncio
import math
import time
from importlib.util import find_spec
from pathlib import Path
from queue import Empty
from typing import Any

from gpucommons.labextension.variables import inside

_LOOK_S = 1.0
#: A cell that is about to end may do so; that it ended, the server hears after its page.
_PATIENCE_S = 1.0
_LOOK_AGAIN_S = 0.05


def dill_at() -> str:
    """The folder of this server's own copy of dill."""
    spec = find_spec("dill")
    return str(Path(spec.origin).parent) if spec is not None and spec.origin else ""


def code(function: str, folder: str, **arguments: object) -> str:
    """What the kernel is to run: in names of its own, so that the user's are left alone."""
    text = Path(inside.__file__).read_text(encoding="utf-8")
    call = f"{function}(get_ipython(), {folder!r}, **{arguments!r})"
    names = "{'__name__': 'gpucommons_variables', 'get_ipython': get_ipython}"
    source = f"{text}\n{call}\n"
    return f"exec(compile({source!r}, '<gpucommons>', 'exec'), {names})"


async def run(kernel: Any, text: str, *, seconds: float) -> str:
    """Run it; returns ``ok``, ``error``, ``late``, or ``gone`` where the kernel ended meanwhile."""
    client = kernel.client()
    client.start_channels(iopub=False, stdin=False, hb=False, control=False)
    ends_s = time.monotonic() + seconds
    try:
        asked = client.execute(text, silent=True, store_history=False, allow_stdin=False)
        while (left_s := ends_s - time.monotonic()) > 0:
            try:
                reply = await client.get_shell_msg(timeout=min(left_s, _LOOK_S))
            except (TimeoutError, Empty):
                if not await kernel.is_alive():
                    return "gone"
                continue
            if reply["parent_header"].get("msg_id") == asked:
                return "ok" if reply["content"]["status"] == "ok" else "error"
        return "late"
    finally:
        client.stop_channels()


async def is_idle(kernel: Any, until_s: float = math.inf) -> bool:
    """Whether a kernel is at no cell, after a moment of patience that does not go beyond a time."""
    until_s = min(until_s, time.monotonic() + _PATIENCE_S)
    while getattr(kernel, "execution_state", None) == "busy":
        if time.monotonic() > until_s:
            return False
        await asyncio.sleep(_LOOK_AGAIN_S)
    return True
