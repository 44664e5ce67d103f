"""Kernels of the same user's other servers: they count towards the limit, and end on their date.

A server that is never started again would keep its kernels for ever; whichever server of this user
starts next removes what is over. One that runs sees to its own.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.hibernation.keeper import (
    Keeper,
    has_kernels,
    images_below,
    remove_over,
)

log = logging.getLogger("gpucommons.labextension")


def kept_elsewhere_bytes(keeper: Keeper) -> int:
    """What the images of this user's other servers take; a folder that cannot be read counts nothing."""
    sum_bytes = 0
    for folder in _others(keeper):
        # It may be removed meanwhile, and this server's kernels must not be lost for another's folder.
        with suppress(OSError):
            if has_kernels(folder):
                sum_bytes += sum(each.bytes for each in images_below(folder, keeper.make_tree))
    return sum_bytes


def remove_old(keeper: Keeper) -> None:
    """Remove kernels of other servers that were kept until now; those say so when they start again."""
    for folder in _others(keeper):
        try:
            if has_kernels(folder) and _old(keeper.at(folder)):
                _put_away_old(keeper, folder)
            remove_over(folder)
        except Exception:
            log.exception("what is over in %s stays", folder)


def _put_away_old(keeper: Keeper, folder: Path) -> None:
    other = Keeper.open(
        folder,
        limits=keeper.limits,
        make_tree=keeper.make_tree,
        hindrance=keeper.hindrance,
    )
    if other is None:
        return
    try:
        for kernel_id in _old(other):
            record = other.record(kernel_id)
            other.say_lost(kernel_id, record, other.limits_for(record).over)
            other.put_away(kernel_id)
        other.write_kept()
    finally:
        other.close()


def _others(keeper: Keeper) -> list[Path]:
    try:
        return [
            folder
            for folder in keeper.folder.parent.iterdir()
            if folder != keeper.folder and not folder.is_symlink() and folder.is_dir()
        ]
    except OSError:
        log.exception("folders of other servers are not looked at")
        return []


def _old(keeper: Keeper) -> list[str]:
    return [each for each in keeper.kernel_ids() if _is_old(keeper, each)]


def _is_old(keeper: Keeper, kernel_id: str) -> bool:
    record = keeper.record(kernel_id)
    if record is None:
        noted_ms = int(keeper.kernel_folder(kernel_id).stat().st_mtime * 1000)
        until_ms = keeper.limits.kept_until_ms(noted_ms)
    else:
        until_ms = keeper.kept_until_ms(record)
    return until_ms < wall_clock_ms() and not keeper.tree(kernel_id).lives()
