"""What the callbacks have in common: a framework's own save becomes the run's checkpoint, and back."""

from __future__ import annotations

import filecmp
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpucommons.scheduler.training.run import Run


def numbers(logs: Mapping[str, Any] | None) -> dict[str, float]:
    """Metrics that are numbers, by names that a report takes."""
    found: dict[str, float] = {}
    for name, value in (logs or {}).items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError):
            continue
    return found


def hand_in(run: Run, *, step: int, source: Path) -> None:
    """Make a file or folder that the framework has saved whole this step's checkpoint, on rank 0."""
    if run.place.rank != 0:
        return
    with run.checkpoint(step=step) as folder:
        copy(source, folder / source.name)


def put_back(run: Run, target: Path) -> None:
    """Put what was handed in under this name where the framework looks for it; nothing on a first start.

    Ranks may share the folder: what is the same there already is not touched while others read it.
    """
    kept = None if run.resume_dir is None else run.resume_dir / target.name
    if kept is None or not kept.exists() or is_same(kept, target):
        return
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    copy(kept, aside)
    shutil.rmtree(target, ignore_errors=True)
    try:
        aside.replace(target)
    except OSError:
        # Another rank was faster, with the same content.
        shutil.rmtree(aside, ignore_errors=True)


def is_same(one: Path, other: Path) -> bool:
    """Whether two files, or folders of files, have the same content."""
    if not one.is_dir():
        return other.is_file() and filecmp.cmp(one, other, shallow=False)
    files = [path.relative_to(one) for path in one.rglob("*") if path.is_file()]
    return all(is_same(one / path, other / path) for path in files)


def copy(source: Path, target: Path) -> None:
    """A file, or a folder with all below it. No links: frameworks write into what they saved before."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def agreed(told: bool) -> bool:
    """Whether any process was told to leave: where torch joins them, all leave at the same step."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return told
    distributed = torch.distributed
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return told
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    flag = torch.tensor([int(told)], device=device)
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return bool(flag.item())
