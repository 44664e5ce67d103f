"""The executed notebook of a job that is over, brought to where jupyter-scheduler copies from."""

from __future__ import annotations

import io
import secrets
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import quote

import nbconvert

from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.errors import NotFound, Unavailable
from gpucommons.scheduler.models import JobView
from gpucommons.scheduler.training.notebook import copy_name
from gpucommons.scheduler.working_folder.pieces import Pieces


class Staging:
    """Copies for the download: what was submitted, what came of it, and what was put away."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "gpucommons"

    def keep_input(self, of: str, content: bytes) -> None:
        """The notebook as it was submitted, of a job or definition."""
        path = self.input(of)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(content)

    def input(self, of: str) -> Path:
        """Where it is kept; what was submitted from another server is not there."""
        return self._folder / of / "input"

    def bring(self, scheduler: SchedulerClient, job: JobView) -> dict[str, str]:
        """Fetch and convert; paths by format.

        Raises
        ------
        SchedulerError
            When it is not over, or left none.
        """
        folder = self._folder / job.id
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = folder / "executed.ipynb"
        if not made.is_file():
            _fetch(scheduler, job, made)
        page = folder / "executed.html"
        text, _ = nbconvert.HTMLExporter().from_filename(str(made))  # type: ignore[no-untyped-call] # nbconvert
        page.write_text(text, encoding="utf-8")
        return {"ipynb": str(made), "html": str(page)}

    def remove(self, job_id: str) -> None:
        """Forget the copies; the job is not listed any more."""
        shutil.rmtree(self._folder / job_id, ignore_errors=True)
        mark = self._folder / "removed" / job_id
        mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        mark.touch()

    def hidden(self) -> frozenset[str]:
        """Jobs that were removed from the list."""
        try:
            return frozenset(path.name for path in (self._folder / "removed").iterdir())
        except OSError:
            return frozenset()


def _fetch(scheduler: SchedulerClient, job: JobView, to: Path) -> None:
    """Of all that the job wrote, this file alone; it appears whole."""
    name = copy_name(Path("notebook.ipynb"), job.name)
    with scheduler.stream(f"/v1/jobs/{quote(job.id, safe='')}/results") as chunks:
        try:
            with tarfile.open(fileobj=io.BufferedReader(Pieces(chunks)), mode="r|") as tar:
                for member in tar:
                    if PurePosixPath(member.name).name == name and (
                        file := tar.extractfile(member)
                    ):
                        _keep(file, to)
                        return
        except tarfile.TarError:
            message = f"What {job.name} wrote did not come whole; download it again."
            raise Unavailable(message) from None
    message = f"{job.name} left no executed notebook: it was stopped before its end. Its page has its log."
    raise NotFound(message)


def _keep(content: IO[bytes], to: Path) -> None:
    # A name of its own: two downloads of one notebook may come at the same moment.
    partial = to.with_suffix(f".{secrets.token_hex(4)}.partial")
    try:
        with partial.open("wb") as file:
            shutil.copyfileobj(content, file)
        partial.replace(to)
    finally:
        partial.unlink(missing_ok=True)
