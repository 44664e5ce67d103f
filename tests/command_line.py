"""A command's outcome, and a world that tells when its logs are read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service_world import ServiceWorld


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Done]


class WatchedWorld(ServiceWorld):
    """Tells when somebody reads a log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log_read = threading.Event()

    def read(self, *arguments: Any, **options: Any) -> Any:
        chunk = super().read(*arguments, **options)
        self.log_read.set()
        return chunk
