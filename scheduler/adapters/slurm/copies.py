"""Copies of jobs' files where Slurm's nodes can read them; all users' lie on one shared disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.executors.base import Launch


class Copies:
    """Each is there once, and goes with the last attempt that needs it."""

    def __init__(self, folder: Path, path_of: Callable[[str], Path] | None) -> None:
        self._folder, self._path_of = folder, path_of
        #: Who needs which, by the name of the copy.
        self._needed: dict[AttemptId, str] = {}

    def make(self, launch: Launch) -> Path | None:
        """The copy of an attempt's files; none where it has none.

        Raises
        ------
        Misconfigured
            Where they lie in object storage.
        """
        wanted = launch.workload.spec.snapshot
        if wanted is None:
            return None
        if self._path_of is None:
            message = (
                "Files of jobs lie in object storage here, and Slurm's nodes cannot fetch them from"
                " there yet: submit a command without files, or to another pool."
            )
            raise Misconfigured(message)
        copy = self._folder / wanted
        if not copy.exists():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            part = copy.with_suffix(".part")
            part.write_bytes(self._path_of(wanted).read_bytes())
            part.rename(copy)
        return copy

    def note(self, attempt_id: AttemptId, plan: Mapping[str, Any] | None) -> None:
        """An attempt needs the copy that its plan names."""
        if snapshot := (plan or {}).get("snapshot"):
            self._needed[attempt_id] = Path(snapshot).name

    def forget(self, attempt_id: AttemptId) -> None:
        """An attempt is over."""
        if self._needed.pop(attempt_id, None) is not None:
            self.drop_unneeded()

    def drop_unneeded(self) -> None:
        """Remove what no attempt needs; a copy that is being made is needed, too."""
        needed = set(self._needed.values())
        for copy in self._folder.glob("*"):
            if copy.stem not in needed:
                copy.unlink(missing_ok=True)
