"""What all tours have around their rows: our command line, the figures as one line, a row that fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import results
from benchmarks.tour.timeline import PATIENCE_S, TourFailedError

Figures = Mapping[str, object]


def played(
    play: Callable[[], Figures],
    file: Path | None,
    failures: tuple[type[Exception], ...] = (TourFailedError,),
) -> Figures | None:
    """Play, print the figures and write them into a file, if one is named; None where a row fails."""
    try:
        found = play()
    except failures as error:
        sys.stderr.write(f"tour: {error}\n")
        return None
    results.write(file, [found])
    print(json.dumps(found))
    return found


def gpucommons(
    *words: str, env: Mapping[str, str], cwd: Path | None = None, timeout_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Run ``gpucommons …`` of this installation, whatever it answers.

    Raises
    ------
    TourFailedError
        When it does not end in that time. It takes a second of processor time, and on a machine that others
        use, too, a minute may have less than that for it.
    """
    try:
        return subprocess.run(
            [Path(sys.executable).parent / "gpucommons", *words],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"gpucommons {' '.join(words)}: no answer within {timeout_s:g} s"
        raise TourFailedError(message) from None
