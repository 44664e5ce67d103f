"""Images of the processes of jobs that are over, which nothing will wake: they are removed from the volume.

Those of jobs on this machine: :mod:`gpucommons.scheduler.executors.local.images_of_ended_jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from gpucommons.scheduler.file_storage.volume_files import VolumeFiles
from gpucommons.scheduler.files.confined_files import remove
from gpucommons.scheduler.working_folder.own_image import NAME as IMAGE


def remove_images(files: VolumeFiles, live: Callable[[], Container[str]]) -> int:
    """Remove those of attempts that are not ``live``, which are those of jobs that are not over.

    Returns
    -------
    How many were removed.
    """
    try:
        found = [path.parent for path in (files.root / "attempts").glob(f"*/{IMAGE}")]
    except FileNotFoundError:
        return 0
    # Asked afterwards: what has a folder was known before.
    known = live() if found else ()
    over = [folder for folder in found if folder.name not in known]
    for folder in over:
        remove(folder / IMAGE)
    return len(over)
