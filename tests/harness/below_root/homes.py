"""A user's home beside the places where root's programs listen."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from below_root.hub import USER


@contextmanager
def home_of_user() -> Iterator[Path]:
    """In a folder of root's: whoever starts a program ends what killed ones left beside its own place."""
    with tempfile.TemporaryDirectory(prefix="below-root-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "home"
        home.mkdir()
        os.chown(home, USER, USER)
        yield home
