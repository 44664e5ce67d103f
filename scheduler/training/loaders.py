"""What a torch data loader says of itself: numbers that its page can be told, read without importing torch.

Libraries make loaders of their own. Transformers hides the batch in a sampler of its own; Keras wraps what
it was given, and loads with workers that are no workers of torch's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_MOST_PARTS, _DEEPEST = 10_000, 16
#: As many as can be chosen; more are not told.
_MOST_CHOSEN = 1024
#: Of what is told: the library that made the loader from what it was given.
MADE_BY = "made_by"


def is_stream(loader: Any) -> bool:
    """By its name: torch need not be imported for it."""
    return any(one.__name__ == "IterableDataset" for one in type(loader.dataset).__mro__)


def is_of_keras(loader: Any) -> bool:
    """Keras made it of what ``fit`` was given. A torch loader that it was given stays the script's own."""
    return type(loader.dataset).__module__.partition(".")[0] == "keras"


def about(loader: Any) -> dict[str, Any]:
    """What a loader says of itself: numbers of any kind, numpy's too."""
    found: dict[str, Any] = {
        "workers": _counted(loader.num_workers),
        "stream": is_stream(loader),
    }
    size = _batch_samples(loader)
    if size:
        found["batch_samples"] = size
    if loader.num_workers > 0 and loader.prefetch_factor:
        found["prefetch"] = _counted(loader.prefetch_factor)
    with suppress(TypeError):  # a stream may have no end
        found["samples"] = len(loader.dataset)
    system = re.sub(r"[^\w.-]", "_", file_system_of(_folder_of(loader.dataset)))
    found |= {"file_system": system} if system else {}
    return found | _of_keras(loader) if is_of_keras(loader) else found


def _batch_samples(loader: Any) -> int:
    """Of one process; 0 where batches differ. Transformers' trainer says it in the sampler of batches alone."""
    if loader.batch_size:
        return int(loader.batch_size)
    sampler = getattr(loader, "batch_sampler", None)
    size = getattr(sampler, "batch_size", None)
    if not isinstance(size, int):
        return 0
    shares = getattr(sampler, "num_processes", 1) if getattr(sampler, "split_batches", False) else 1
    return size // max(1, shares)


def _of_keras(loader: Any) -> dict[str, Any]:
    """Its workers are not torch's: threads or processes of a ``PyDataset``, else none."""
    frame = getattr(getattr(loader.dataset, "iterable", None), "gi_frame", None)
    adapter = None if frame is None else frame.f_locals.get("self")
    data = getattr(adapter, "py_dataset", None)
    if data is None:
        return {MADE_BY: "keras", "workers": None}
    # With one thread alone Keras loads between the batches, as without any.
    works_ahead = getattr(adapter, "enqueuer", None) is not None
    workers = _counted(data.workers) if works_ahead else 0
    return {MADE_BY: "keras_dataset", "workers": workers, "stream": False}


def _counted(number: Any) -> int:
    return min(int(number), _MOST_CHOSEN)


def known_of(iterator: Any) -> dict[str, Any]:
    """Of one that was begun before anybody looked."""
    workers = getattr(iterator, "_num_workers", None)
    return {"workers": _counted(workers)} if isinstance(workers, int) else {}


def _folder_of(dataset: Any) -> Path | None:
    """Where its files lie, if it says so as torchvision's and Hugging Face's data sets do."""
    for _ in range(_DEEPEST):
        dataset = getattr(dataset, "dataset", dataset)  # a part of another one
    root = getattr(dataset, "root", None)
    cached = getattr(dataset, "cache_files", None)
    if not isinstance(root, (str, Path)) and isinstance(cached, list) and cached:
        root = cached[0].get("filename") if isinstance(cached[0], dict) else None
    return Path(root).absolute() if isinstance(root, (str, Path)) else None


def file_system_of(folder: Path | None, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of file system below which it lies: ``ext4``, ``nfs4``; empty where that is not known."""
    if folder is None:
        return ""
    try:
        lines = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        return ""
    found = [(one[1], one[2]) for one in lines if len(one) > 2 and folder.is_relative_to(one[1])]  # noqa: PLR2004 - what, where, kind
    return max(found, key=lambda one: len(one[0]), default=("", ""))[1][:32]


def sample_bytes(batch: Any, size: int | None) -> dict[str, int]:
    """How much memory one sample takes once it is loaded; nothing where that cannot be told."""
    left, total, parts = [batch], 0, 0
    while left and parts < _MOST_PARTS:
        one = left.pop()
        parts += 1
        if isinstance(one, Mapping):
            left += one.values()
        elif isinstance(one, (list, tuple)):
            left += one
        else:
            total += int(getattr(one, "nbytes", 0))
    return {"sample_bytes": -(-total // size)} if size and total and not left else {}
