"""D3–D10 once more, as other accounts and where user namespaces are forbidden, after the tour itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.tour.timeline import TourFailedError

#: An ordinary account; none of this number needs to exist.
_UID = "2001"
_BY_ROOT = {
    "another_account": ("--kept", "--as", _UID),
    "namespaces_by_root_alone": ("--own-accounts", "--namespaces-by-root-alone"),
    "namespaces_by_nobody": ("--own-accounts", "--without-user-namespaces"),
}
_BY_ALL = {"weaker_ways": ("--kept", "--without-user-namespaces")}


def plays() -> dict[str, tuple[str, ...]]:
    """By name, the words of each that this account can play."""
    return _BY_ALL | (_BY_ROOT if os.geteuid() == 0 else {})


def play(others: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
    """Their figures by name, each in a process of its own: what is forbidden stays forbidden there."""
    return {name: _figures(name, words) for name, words in others.items()}


def _figures(name: str, words: tuple[str, ...]) -> dict[str, object]:
    sys.stdout.write(f"--- {name}: python -m benchmarks.tour {' '.join(words)}\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="gctour-json-") as folder:
        # Also whoever plays as another account writes into it.
        Path(folder).chmod(0o777)
        file = Path(folder) / "figures.json"
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.tour", *words, "--json", str(file)], check=False
        )
        if done.returncode:
            message = f"{name}: a row does not hold (its own words are above)"
            raise TourFailedError(message)
        return dict(json.loads(file.read_text(encoding="utf-8")))
