"""Where a user's programs keep what outlives them and is of no use to anybody else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def state_home(environ: Mapping[str, str]) -> Path:
    """The folder that the user named, if its path is absolute, else ``~/.local/state``."""
    named = environ.get("XDG_STATE_HOME", "")
    home = environ.get("HOME") or str(Path.home())
    return Path(named) if named.startswith("/") else Path(home, ".local", "state")
