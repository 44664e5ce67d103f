"""How long an attempt waits for its data, and what was chosen for the next one: stored with the job.

A copy of this module goes beside scripts in environments that have nothing of ours: it needs the standard
library alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORKERS_VARIABLE = "GPUCOMMONS_LOADER_WORKERS"
PREFETCH_VARIABLE = "GPUCOMMONS_LOADER_PREFETCH"


@dataclass(frozen=True, kw_only=True, slots=True)
class Loading:
    """Of the newest batches of an attempt, as its first process timed them."""

    batches: int
    #: Means: from one batch to the next, and how long of that the script waited for it.
    batch_us: int
    wait_us: int
    #: So many of a hundred batches were waited for at all.
    late_percent: int = 0
    #: Processes that load, and batches that each has ready; None where the loader does not say so.
    workers: int | None = None
    prefetch: int | None = None
    #: Of the machine that it may use; processes that train there, each with a loader of its own.
    cores: int | None = None
    processes: int = 1
    #: It reads a stream: with more workers each would read all of it, unless it shares itself out.
    stream: bool = False
    #: Of one epoch, and the memory that one takes once it is loaded.
    samples: int | None = None
    sample_bytes: int | None = None
    batch_samples: int | None = None
    #: Below which its files lie; empty = not known.
    file_system: str = ""
    #: The library that made the loader: ``keras``, or ``keras_dataset`` of a ``PyDataset``, whose own
    #: workers are counted then; empty = the script itself.
    made_by: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderChoice:
    """How data is to be loaded from the next attempt on, in place of what the script says."""

    workers: int
    prefetch: int
    by: str
    at_ms: int

    def variables(self) -> Mapping[str, str]:
        """What an attempt is told; only the first line of a script that reports reads it."""
        return {
            WORKERS_VARIABLE: str(self.workers),
            PREFETCH_VARIABLE: str(self.prefetch),
        }


def loader_in_words(workers: int, prefetch: int) -> str:
    """``4 workers, 2 batches ahead each``."""
    if workers == 0:
        return "no workers"
    ahead = "1 batch" if prefetch == 1 else f"{prefetch} batches"
    return f"{'1 worker' if workers == 1 else f'{workers} workers'}, {ahead} ahead each"
