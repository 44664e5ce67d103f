"""``POST gpucommons/examples``: the shipped examples as files of the user's own.

Who opens Lab for the first time has nothing to train. The files are copied when asked for, through the
server's own contents, and none that is there already is touched: it may be the user's by now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from tornado import web

from gpucommons.labextension.routes.handlers import ApiHandler
from gpucommons.scheduler.errors import Conflict, SchedulerError
from gpucommons.scheduler.models import Model

FOLDER = "gpu-examples"
#: What is opened first: it needs nothing but Python.
FIRST = "first_job.py"
#: Beside the package in a wheel, and in a checkout beside the folder that the package is mapped from.
SHIPPED = Path(__file__).resolve().parents[2] / "examples"


class CopiedExamples(Model):
    """What there is now."""

    folder: str
    #: The file to begin with.
    first: str
    #: Names of files that were copied just now; the others were there.
    copied: list[str]


class Contents(Protocol):
    """As much of a contents manager as a copy needs; each may answer at once or later."""

    def dir_exists(self, path: str) -> Any:
        """Whether there is such a folder."""

    def file_exists(self, path: str) -> Any:
        """Whether there is such a file."""

    def save(self, model: dict[str, Any], path: str) -> Any:
        """Write a file or make a folder."""


async def copy_examples(contents: Contents, shipped: Path = SHIPPED) -> CopiedExamples:
    """Copy what is not there yet.

    Raises
    ------
    Conflict
        Where a file has the folder's name.
    """
    if await ensure_async(contents.file_exists(FOLDER)):
        message = f"There is a file called {FOLDER} where the examples' folder goes: rename it."
        raise Conflict(message)
    if not await ensure_async(contents.dir_exists(FOLDER)):
        await ensure_async(contents.save({"type": "directory"}, FOLDER))
    copied = []
    for name, text in _texts(shipped).items():
        path = f"{FOLDER}/{name}"
        if not await ensure_async(contents.file_exists(path)):
            model = {"type": "file", "format": "text", "content": text}
            await ensure_async(contents.save(model, path))
            copied.append(name)
    return CopiedExamples(folder=FOLDER, first=f"{FOLDER}/{FIRST}", copied=copied)


def _texts(folder: Path) -> dict[str, str]:
    files = sorted(each for each in folder.iterdir() if each.is_file())
    return {each.name: each.read_text(encoding="utf-8") for each in files}


class ExamplesHandler(ApiHandler):
    """The copy, for the server's owner only."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Copy them."""
        try:
            self.require_owner()
            self.answer(await copy_examples(self.contents_manager))
        except SchedulerError as error:
            self.refuse(error)
