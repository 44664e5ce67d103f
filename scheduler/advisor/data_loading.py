"""Whether a training waits for its data, and what would help: more workers, batches ahead, memory, nearness.

Its step is the longer of two: what it computes, and what its loader needs for a batch, shared out over
the loader's workers, ``t = max(compute, loading / workers)``; without workers one follows the other. Both
follow from what was timed where batches are handed out. Nothing is said of what was not timed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gpucommons.scheduler.data_loading import Loading

#: Who waits for less than this part of the time is not limited by its data.
LEAST_WAIT = 0.1
#: Whatever a script waits, GPUs that are so busy have work: it is handed to them ahead of time.
BUSY = 0.9
#: Fewer batches than these are waited for: the loader is fast enough, and uneven.
_UNEVEN_PERCENT = 30
_MOST_PREFETCH = 8
#: Batches ahead take no more than this part of the memory that a worker asks for, all data no more than half;
#: either is shared by its training processes, each of which has its own.
_AHEAD, _CACHED = 0.1, 0.5
#: More workers than this win nothing by it.
_LEAST_GAIN = 0.9
#: No loader was seen to share itself out perfectly.
_LOSS = 1.1
_MIB = 2**20
#: Files of these come over a network.
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "beegfs", "gpfs", "glusterfs", "9p")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadingQuestion:
    """What is known of one attempt."""

    loading: Loading | None
    #: What each worker of the job asks for.
    cpu_milli: int
    memory_mib: int
    #: Of the GPUs that it held; None = not measured.
    gpu_busy: float | None = None
    #: It ran on nodes that do not have the data which it names.
    far_from_data: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadingHint:
    """One thing that the job's owner can do; the kind says which sentence, the values stand in it."""

    #: ``cores``, ``node``, ``stream``, ``loader``, ``keras``, ``keras_dataset``, ``cache``, ``remote`` or ``far``.
    kind: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadingAdvice:
    """What was found."""

    #: ``busy``: it waits, and its GPUs have work all the same.
    verdict: Literal["unknown", "fine", "busy", "bound"]
    #: Of the next attempt; None where nothing is to be set.
    workers: int | None = None
    prefetch: int | None = None
    #: With them, from one batch to the next: likely between these two.
    low_us: int = 0
    high_us: int = 0
    hints: tuple[LoadingHint, ...] = ()


def advise_loading(asked: LoadingQuestion) -> LoadingAdvice:
    """Say what limits it, and what would help."""
    loading = asked.loading
    if loading is None:
        return LoadingAdvice(verdict="unknown")
    if loading.wait_us < LEAST_WAIT * loading.batch_us:
        return LoadingAdvice(verdict="fine")
    if asked.gpu_busy is not None and asked.gpu_busy >= BUSY:
        return LoadingAdvice(verdict="busy")
    return _bound(asked, loading)


def _bound(asked: LoadingQuestion, loading: Loading) -> LoadingAdvice:
    """What would help one that waits."""
    hints = tuple(_hints(asked, loading))
    if loading.made_by == "keras_dataset":
        return _in_its_script(_more_workers(asked, loading, loading.workers or 0, hints))
    if loading.stream or loading.workers is None:
        kind = loading.made_by or ("stream" if loading.stream else "loader")
        return LoadingAdvice(verdict="bound", hints=(LoadingHint(kind=kind), *hints))
    if loading.workers > 0 and loading.late_percent < _UNEVEN_PERCENT:
        return _ahead(asked, loading, loading.workers, hints)
    return _more_workers(asked, loading, loading.workers, hints)


def _in_its_script(found: LoadingAdvice) -> LoadingAdvice:
    """Workers of a ``PyDataset``: nothing outside the script can set them."""
    if found.workers is None:
        return found
    said = LoadingHint(kind="keras_dataset", values=(str(found.workers),))
    return LoadingAdvice(verdict=found.verdict, hints=(said, *found.hints))


def _more_workers(
    asked: LoadingQuestion, loading: Loading, now: int, hints: tuple[LoadingHint, ...]
) -> LoadingAdvice:
    compute_us = max(1, loading.batch_us - loading.wait_us)
    loading_us = loading.batch_us * now if now else loading.wait_us
    needed = max(1, math.ceil(loading_us / compute_us))
    cores = _cores_each(asked, loading)
    workers = min(needed, max(cores, 1))
    low_us = max(compute_us, loading_us // workers)
    more = () if needed <= cores else (_too_few(asked, loading, cores, needed),)
    if workers <= now or low_us > _LEAST_GAIN * loading.batch_us:
        return LoadingAdvice(verdict="bound", hints=(*more, *hints))
    # One core is the training's own, too.
    shared_us = loading_us // max(1, workers - 1) if workers >= cores else loading_us // workers
    high_us = min(loading.batch_us, round(_LOSS * max(compute_us, shared_us)))
    return LoadingAdvice(
        verdict="bound",
        workers=workers,
        prefetch=loading.prefetch or 2,
        low_us=low_us,
        high_us=max(low_us, high_us),
        hints=(*more, *hints),
    )


def _ahead(
    asked: LoadingQuestion, loading: Loading, workers: int, hints: tuple[LoadingHint, ...]
) -> LoadingAdvice:
    """Fast enough on the whole, and late now and then: more batches ahead even that out."""
    before = loading.prefetch or 2
    prefetch = min(_MOST_PREFETCH, 2 * before)
    batch_bytes = (loading.sample_bytes or 0) * (loading.batch_samples or 0)
    taken = batch_bytes * workers * loading.processes * (prefetch - before)
    if prefetch <= before or taken > _AHEAD * asked.memory_mib * _MIB:
        return LoadingAdvice(verdict="bound", hints=hints)
    return LoadingAdvice(
        verdict="bound",
        workers=workers,
        prefetch=prefetch,
        low_us=max(1, loading.batch_us - loading.wait_us),
        high_us=loading.batch_us,
        hints=hints,
    )


def _too_few(asked: LoadingQuestion, loading: Loading, cores: int, needed: int) -> LoadingHint:
    """Whether the job asks for too few, or its node gave it no more."""
    is_nodes = loading.cores is not None and 1000 * loading.cores < asked.cpu_milli
    return LoadingHint(kind="node" if is_nodes else "cores", values=(str(cores), str(needed)))


def _cores_each(asked: LoadingQuestion, loading: Loading) -> int:
    """What one training process has for its loader: what is asked for, and what is there."""
    cores = max(1, asked.cpu_milli // 1000)
    if loading.cores is not None:
        cores = min(cores, loading.cores)
    return max(1, cores // loading.processes)


def _hints(asked: LoadingQuestion, loading: Loading) -> list[LoadingHint]:
    found = []
    data_bytes = (loading.samples or 0) * (loading.sample_bytes or 0)
    if 0 < data_bytes <= _CACHED * asked.memory_mib * _MIB / loading.processes:
        values = (_gib(data_bytes / _MIB), _gib(asked.memory_mib))
        found.append(LoadingHint(kind="cache", values=values))
    name = loading.file_system
    if name in REMOTE or name.startswith("fuse."):
        found.append(LoadingHint(kind="remote", values=(name,)))
    if asked.far_from_data:
        found.append(LoadingHint(kind="far"))
    return found


def _gib(mib: float) -> str:
    return f"{mib / 1024:.1f}" if mib >= 103 else f"{max(0.01, mib / 1024):.2f}"  # noqa: PLR2004 - a tenth of a GiB
