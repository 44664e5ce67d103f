"""What may become of a notebook that was idle for too long, and how often its user may keep it.

The one list for core, clients and culler. It stands below all of them, for clients do not import the core, and the core knows no bodies of requests.
"""

from __future__ import annotations

from typing import Literal, get_args

#: Its server is stopped and its kernels are saved first, where its server can do that; its kernels live
#: on and their GPU memory goes to the host, where that can be done; it starts again without its GPU; it
#: is stopped, and nothing of its kernels is kept.
OnIdle = Literal["hibernate", "park", "release", "cull"]
ON_IDLE: tuple[OnIdle, ...] = get_args(OnIdle)
#: Of a pool that says nothing: parking takes the machine's own memory, and its admin knows how much there is.
UNLESS_SAID: tuple[OnIdle, ...] = ("hibernate", "release", "cull")

#: So often a user may say *Keep 30 min* until work in the notebook begins a new count; and at most for so
#: long each time.
KEEPS = 2
KEEP_MIN = 30


def on_idle_of(chosen: str, allowed: tuple[str, ...]) -> str:
    """What its user chose, where the pool still allows it, else the first that the pool allows."""
    return chosen if chosen in allowed else allowed[0]
