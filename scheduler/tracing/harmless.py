"""A trace is worth no request and no cycle: what fails in making one is said, and no more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOG = logging.getLogger(__name__)


@contextmanager
def harmless() -> Iterator[None]:
    """Whatever is raised in here ends in the log."""
    try:
        yield
    except Exception:  # noqa: BLE001 - see above
        _LOG.exception("A trace is left out.")
