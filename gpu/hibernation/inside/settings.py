"""What a tree is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How this tree runs."""

    #: The tree's own folder; only its user may enter it.
    folder: Path
    #: Wake the image in the folder instead of running the command.
    wake: bool
    command: tuple[str, ...]
    criu: tuple[str, ...]
    #: What happens when the caller dies: saved, or ended as by SIGTERM.
    save_when_orphaned: bool = False
    #: Gets what the tree prints; None: the caller's own pipes do.
    output: Path | None = None
    preload: str | None = None
    #: Close network connections at a save; else a tree that holds one is refused.
    close_connections: bool = False
    #: NVIDIA's driver, where it was found out that it can park; None: what holds a GPU is refused.
    driver: str | None = None
