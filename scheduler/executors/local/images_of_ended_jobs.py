"""Images of the processes of jobs that are over, which nothing will wake: they are removed.

Those of jobs in pods: :mod:`gpucommons.scheduler.file_storage.images_of_ended_jobs`.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from gpucommons.scheduler.executors.local import leftovers
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, read_json
from gpucommons.scheduler.working_folder.own_image import NAME as IMAGE

_LOG = logging.getLogger(__name__)


def remove_images(root: Path, *, is_over: Callable[[str], bool]) -> int:
    """Remove them from all attempts' folders; ``is_over`` is asked for a job's id.

    Returns
    -------
    How many were removed.
    """
    removed = 0
    for path in sorted(root.iterdir()):
        folder = AttemptFolder(path)
        # Whether the name is there: nothing below a user's folder is opened here.
        if not os.path.lexists(folder.run / IMAGE) or folder.supervised():
            continue
        document = read_json(folder.plan)
        if document is None or not is_over(str(document.get("job_id", ""))):
            continue
        try:
            leftovers.delete_as_user(folder, document, "drop-image")
        except (OSError, subprocess.SubprocessError) as error:
            _LOG.warning("the image in %s stays for now: %s", path, error)
        else:
            removed += 1
    return removed
