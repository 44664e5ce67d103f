"""Results come back by themselves: what this server's owner's jobs made elsewhere, once each.

What a job of this machine wrote is copied beside its notebook when it is over. One that ran on the
cluster cannot reach that folder; the notebook server can, and fetches the files when it sees the end.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from gpucommons.labextension.server_context import ServerContext
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.results import fetch_results, mark_results
from gpucommons.scheduler.errors import Conflict, SchedulerError, Unavailable
from gpucommons.scheduler.files.confined_files import Refused, open_folder
from gpucommons.scheduler.models import JobView, ResultFileView, View
from gpucommons.scheduler.working_folder import words
from gpucommons.scheduler.working_folder.changes import changes
from gpucommons.scheduler.working_folder.giving_back import MARK, NAMED, read_mark

log = logging.getLogger("gpucommons.labextension")

#: Which jobs' results lie in their folders already.
_FETCHED = (".gpucommons", "fetched")
#: So many files that were left out are named.
_NAMED = 3
#: Between tries while the scheduler is away: twice as long after each.
_FIRST_PAUSE_S, _LAST_PAUSE_S = 2.0, 300.0


class Fetched(View):
    """Where results lie now."""

    job: str
    folder: str
    files: int


class Results:
    """Fetches, one job at a time."""

    def __init__(
        self,
        context: ServerContext,
        *,
        home: Callable[[], Path] = Path.home,
        connect: Callable[[], SchedulerClient] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """``say`` tells the owner what has to be done by hand."""
        self._context = context
        self._sleep = sleep
        self._say = say
        self._home = home
        self._connect = connect or (lambda: SchedulerClient(context.url, token=context.token))
        self._turn = asyncio.Lock()
        self._under_way: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, jobs: Sequence[JobView]) -> None:
        """Fetch what is new among these jobs, beside whoever calls."""
        for job in jobs:
            if self._is_due(job):
                self._under_way.add(job.id)
                task = asyncio.get_running_loop().create_task(self._fetch_once(job))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _is_due(self, job: JobView) -> bool:
        ours = job.owner == self._context.owner and job.results_away
        return ours and job.id not in self._under_way

    async def _fetch_once(self, job: JobView) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._fetch_new(job)
            except Unavailable as error:
                if pause_s == _FIRST_PAUSE_S:
                    log.warning("the results of %s are fetched later: %s", job.name, error)
            except SchedulerError as error:
                # Said once; the user can ask again, for this or another folder.
                self._say(f"The results of {job.name} were not fetched: {error}")
                log.warning("the results of %s were not fetched: %s", job.name, error)
                return
            except Exception:
                log.exception("the results of %s were not fetched", job.name)
                return
            else:
                return
            await self._sleep(pause_s)
            pause_s = min(_LAST_PAUSE_S, pause_s * 2)

    async def _fetch_new(self, job: JobView) -> None:
        if await asyncio.to_thread(self._is_marked, job.id):
            return
        # Lists do not say where its results are meant to come.
        job = await asyncio.to_thread(self._in_full, job.id)
        if job.results is None or job.results.state != "away":
            return
        found = await self.fetch(job, None)
        log.info("fetched %d files of %s to %s", found.files, job.name, found.folder)

    def _in_full(self, job_id: str) -> JobView:
        with self._connect() as scheduler:
            return scheduler.send(calls.job(job_id))

    async def fetch(self, job: JobView, folder: str | None) -> Fetched:
        """Fetch a job's results into the folder that it was submitted from, or another.

        Raises
        ------
        SchedulerError
            With what is wrong.
        """
        meant = None if job.results is None else job.results.folder
        below = folder or meant
        if below is None:
            raise Conflict(_why_none(job))
        async with self._turn:
            files = await asyncio.to_thread(self._bring, job, below)
            if below == meant and files:
                await asyncio.to_thread(mark_results, self._home(), below, job)
        return Fetched(job=job.name, folder=below, files=files)

    def _bring(self, job: JobView, below: str) -> int:
        home = self._home()
        with self._connect() as scheduler:
            files = fetch_results(scheduler, job, home, below)
        self._mark(home, job.id)
        return files

    def told(self, job: JobView) -> JobView:
        """The job, with where its files are once they have been fetched here."""
        found = job.results
        if found is None or found.state != "away" or not self._is_marked(job.id):
            return job
        files = _listed(self._home(), found.folder or "", job.id)
        if files is None:
            return job
        count, total = len(files), sum(size for _, size in files)
        here = {
            "state": "here",
            "text": f"{words.files(count)} ({words.size(total)}) came to {found.folder}/.",
            "count": count,
            "size_bytes": total,
            "files": [
                ResultFileView(path=words.shown(path), size_bytes=size)
                for path, size in files[:NAMED]
            ],
        }
        return job.model_copy(update={"results": found.model_copy(update=here)})

    def _is_marked(self, job_id: str) -> bool:
        return self._home().joinpath(*_FETCHED, job_id).exists()

    def _mark(self, home: Path, job_id: str) -> None:
        try:
            folder = open_folder(home, _FETCHED)
        except OSError as error:
            log.warning("cannot note what was fetched: %s", error.strerror)
            return
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            os.close(os.open(job_id, flags, 0o600, dir_fd=folder))
        except (OSError, Refused) as error:
            log.warning("cannot note what was fetched: %s", error)
        finally:
            os.close(folder)

    async def close(self) -> None:
        """Begin nothing more."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _why_none(job: JobView) -> str:
    """Why there is nothing to fetch, with what was left out."""
    found = job.results
    if found is None:
        return f"The files of {job.name} are its owner's."
    left_out = [f"{one.path} {one.reason}." for one in found.not_brought[:_NAMED]]
    return " ".join((found.text, *left_out))


def _listed(home: Path, folder: str, job_id: str) -> list[tuple[str, int]] | None:
    """The files of a folder of results; None where it is not this job's any more."""
    above, _, name = folder.rpartition("/")
    try:
        results = open_folder(home, tuple(part for part in above.split("/") if part))
    except OSError:
        return None
    try:
        mark = read_mark(name, results)
    finally:
        os.close(results)
    if mark is None or mark["job_id"] != job_id:
        return None
    found = changes(home / folder, {})
    return [(file.path, file.size_bytes) for file in found.files if file.path != MARK]
