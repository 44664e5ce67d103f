"""What all benchmarks share: one JSON object per line, and percentiles by nearest rank."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def write(path: Path | None, lines: Iterable[Mapping[str, object]]) -> None:
    """Write results, one object per line; nothing where no file was named."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def append(path: Path | None, line: Mapping[str, object]) -> None:
    """Add one result: what was measured is kept, whatever becomes of the next."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"{json.dumps(line)}\n")


def percentile(values: Sequence[int], percent: int) -> int:
    """The smallest value that at least so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
