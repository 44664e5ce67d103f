"""Folders of one document, each packed once, and measured together before one more is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from gpucommons.scheduler.client.snapshot import Packed, Packing, files_of, pack, preview, size_of
from gpucommons.scheduler.errors import TooLarge
from gpucommons.scheduler.working_folder.ignored_files import way_out

_MIB = 1024 * 1024


def packed_once(packing: Packing = pack, *, most_bytes: int | None = None) -> Packing:
    """Pack each folder once: what runs in it runs from the same files, whatever happens meanwhile.

    All of them together hold at most ``most_bytes``, where that is given.
    """
    known: dict[tuple[Path, tuple[tuple[str, bytes], ...]], Packed] = {}

    def once(root: Path, *, max_bytes: int, extra: Mapping[str, bytes]) -> Packed:
        key = (root, tuple(sorted(extra.items())))
        if key not in known:
            if most_bytes is not None and known:
                _refuse_together(root, extra, known.values(), most_bytes)
            known[key] = packing(root, max_bytes=max_bytes, extra=extra)
        return known[key]

    return once


def _refuse_together(
    root: Path, added: Mapping[str, bytes], before: Iterable[Packed], most_bytes: int
) -> None:
    """Refuse one more folder before it is read."""
    size_bytes = size_of(files_of(preview(root), added))
    size_bytes += sum(size_of(packed.files) for packed in before)
    if size_bytes > most_bytes:
        message = (
            f"With {root} the folders that go along are {size_bytes / _MIB:.1f} MiB, together at most"
            f" {most_bytes / _MIB:g} MiB. {way_out(root)}"
        )
        raise TooLarge(message)
