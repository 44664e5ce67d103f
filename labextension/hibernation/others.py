"""Kernels of the same user's other servers: they count towards the limit, and end on their date.

A server that is never started again would keep its kernels for ever; whichever server of this user
starts next removes what is over. One that runs sees to its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpucommons.labextension.hibernation.keeper import Keeper, has_kernels, images_below, now_ms


def kept_elsewhere_bytes(keeper: Keeper) -> int:
    """What the images of this user's other servers take."""
    return sum(
        image.bytes
        for folder in _others(keeper)
        for image in images_below(folder, keeper.make_tree)
    )


def remove_old(keeper: Keeper) -> None:
    """Remove kernels of other servers that were kept until now; those say so when they start again."""
    for folder in _others(keeper):
        other = Keeper.open(
            folder,
            limits=keeper.limits,
            make_tree=keeper.make_tree,
            hindrance=keeper.hindrance,
        )
        if other is None:
            continue
        try:
            old = [each for each in other.kernel_ids() if _is_old(other, each)]
            for kernel_id in old:
                other.say_lost(kernel_id, other.record(kernel_id), other.limits.over)
                other.forget(kernel_id)
            if old:
                other.write_kept()
        finally:
            other.close()


def _others(keeper: Keeper) -> Iterator[Path]:
    for folder in keeper.folder.parent.iterdir():
        if folder != keeper.folder and not folder.is_symlink() and has_kernels(folder):
            yield folder


def _is_old(keeper: Keeper, kernel_id: str) -> bool:
    record = keeper.record(kernel_id)
    if record is None:
        noted_ms = int(keeper.kernel_folder(kernel_id).stat().st_mtime * 1000)
    else:
        noted_ms = record.noted_ms
    over = keeper.limits.kept_until_ms(noted_ms) < now_ms()
    return over and not keeper.tree(kernel_id).lives()
