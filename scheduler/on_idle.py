"""What may become of a notebook that was idle for too long: the one list for core, clients and culler.

It stands below all of them, for clients do not import the core, and the core knows no bodies of requests.
"""

from __future__ import annotations

from typing import Literal, get_args

#: Its server is stopped and its kernels are saved first, where its server can do that; it starts again
#: without its GPU; it is stopped, and nothing of its kernels is kept.
OnIdle = Literal["hibernate", "release", "cull"]
ON_IDLE: tuple[OnIdle, ...] = get_args(OnIdle)
