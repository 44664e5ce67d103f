"""Garbage is collected between steps of the core, not within them.

Nearly all that a step makes is the next state: it stays, and looking through it time and again while
it grows costs a sixth of a large step. What a step throws away goes at once by counting references.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_for_later() -> Iterator[None]:
    """Let no collection begin inside, in whichever thread; what was due comes right after it."""
    if not gc.isenabled():
        yield  # somebody further out sees to it
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
