"""Kernels whose variables could not be kept, for the notebooks that would show nothing of it.

A page whose kernel was replaced looks as before: prompts, outputs, idle. So the reason is kept until
somebody has closed the message, also over a restart of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from gpucommons.labextension.private_files import write_private

FILE = "losses.json"
#: Who never looks at a notebook again closes no message of it.
MOST = 50


class Loss(BaseModel):
    """One kernel that began anew, or whose variables ended with the server."""

    model_config = ConfigDict(frozen=True)

    kernel_id: str
    #: Of its notebook; "" where it belonged to none.
    path: str
    #: What stood in the way, in a sentence.
    because: str
    at_ms: int
    #: It waits on the disk until then for a start that can wake it; 0 = its variables are gone.
    kept_until_ms: int = 0


class _File(BaseModel):
    losses: list[Loss]


class Losses:
    """All that nobody has closed yet."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        #: Called when there are others than before.
        self.changed: Callable[[], None] = lambda: None
        try:
            self._all = _File.model_validate_json(self._path.read_bytes()).losses
        except (OSError, ValidationError):
            self._all = []

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._all)

    def add(self, loss: Loss) -> None:
        """A loss; an older one of the same kernel or notebook is the same story."""
        others = [
            each
            for each in self._all
            if each.kernel_id != loss.kernel_id and (not loss.path or each.path != loss.path)
        ]
        self._keep([*others, loss][-MOST:])

    def close(self, kernel_id: str) -> None:
        """Somebody has read it."""
        left = [each for each in self._all if each.kernel_id != kernel_id]
        if len(left) != len(self._all):
            self._keep(left)

    def _keep(self, losses: list[Loss]) -> None:
        self._all = losses
        write_private(self._path, _File(losses=losses).model_dump_json())
        self.changed()
