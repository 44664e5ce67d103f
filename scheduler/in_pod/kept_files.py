"""Which files of a pod's working folder the next attempt must be given: those that the job changed.

Copied into pods beside :mod:`.worker`; like that it runs in any image that has Python.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpucommons.scheduler.in_pod.worker import Api, files_below, send, upload

#: Beside this file: sizes of the snapshot's files, which have no times of their own.
BASELINE = "baseline.json"
#: Of all attempts together: more takes longer to hand over than any grace.
MAX_FILES, MAX_BYTES = 10_000, 50 << 30


def changed(paths: Iterable[str], work: Path, before: Mapping[str, int]) -> dict[str, int]:
    """Sizes of the files that are not as the snapshot brought them.

    Raises
    ------
    ValueError
        When they are more than are kept.
    """
    found: dict[str, int] = {}
    left = MAX_BYTES
    for path in paths:
        status = (work / path).lstat()
        if before.get(path) != status.st_size or int(status.st_mtime) != 0:
            found[path] = status.st_size
            left -= status.st_size
        if len(found) > MAX_FILES or left < 0:
            message = (
                f"the working folder holds more than {MAX_FILES:,} files or {MAX_BYTES >> 30} GiB"
                " that are new: it is not kept for the next attempt"
            )
            raise ValueError(message)
    return found


def has_folder(path: Path) -> bool:
    """Whether there is a folder.

    Raises
    ------
    ValueError
        When something else lies in its place: what a link leads to is not the job's.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        message = f"{path.name!r} is a link or a file, no folder"
        raise ValueError(message)
    return True


def keep(api: Api, root: Path, environ: Mapping[str, str]) -> None:
    """Store what the job wrote, however it ended: the next attempt, or its owner, finds it.

    Raises
    ------
    Refused, Unreachable, OSError, ValueError
        When not all of it is stored.
    """
    storage, work = environ.get("GPUCOMMONS_STORAGE"), Path(environ["GPUCOMMONS_WORK_DIR"])
    if storage not in ("links", "volume"):
        return
    if storage == "links" and has_folder(root / "results"):
        upload(api, root, "results")
    before = json.loads(Path(__file__).with_name(BASELINE).read_text())
    sizes = changed(files_below(work), work, before)
    if storage == "links":
        send(api, work, "work", sizes)
    api.post("/v1/attempt/kept", {"files": len(sizes), "size_bytes": sum(sizes.values())})
