"""The Jupyter Server extension: puts the parts together, starts and stops them with the server.

Outside a hub, without a scheduler or without a GPU it still loads; what is missing is said on the
panel, and nothing else of the server is touched.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from jupyter_server.extension.application import ExtensionApp

from gpucommons.labextension.activity.activity import collector_for
from gpucommons.labextension.activity.reporter import Reporter
from gpucommons.labextension.hibernation.hibernation import Hibernation
from gpucommons.labextension.hibernation.kept import KeptKernel
from gpucommons.labextension.hibernation.reporting import take_back, tell_kept
from gpucommons.labextension.live.fanout import Fanout
from gpucommons.labextension.live.feed import Feed
from gpucommons.labextension.live.sampler import Sampler
from gpucommons.labextension.place import Place
from gpucommons.labextension.results import Results
from gpucommons.labextension.routes.examples import ExamplesHandler
from gpucommons.labextension.routes.fetch_results import FetchResultsHandler
from gpucommons.labextension.routes.files import FilesHandler, SubmitFileHandler
from gpucommons.labextension.routes.handlers import SETTING, Parts
from gpucommons.labextension.routes.lost_kernels import LostKernelHandler
from gpucommons.labextension.routes.proxy import ProxyHandler
from gpucommons.labextension.routes.websocket import TabHandler
from gpucommons.labextension.terminals import shell_command
from gpucommons.scheduler.client import AsyncSchedulerClient


class GpuCommonsExtension(ExtensionApp):
    """GPU Commons in a notebook server: live usage, jobs, and what the idle culler needs to know."""

    name = "gpucommons.labextension"

    def initialize_settings(self) -> None:
        """Make the parts; nothing runs yet."""
        place, fanout = Place.from_environment(os.environ), Fanout()
        scheduler = AsyncSchedulerClient(place.url, token=place.token) if place.url else None
        results = Results(place, say=lambda text: fanout.send({"type": "error", "message": text}))
        self.parts = Parts(
            place=place,
            scheduler=scheduler,
            fanout=fanout,
            feed=Feed(scheduler, fanout, place, on_jobs=results.take),
            results=results,
            sampler=Sampler(place.slice_socket, fanout),
            hibernation=self._hibernation(place, fanout),
        )
        self.settings[SETTING] = self.parts
        if self.parts.hibernation is not None:
            self._wake(self.parts.hibernation)
        self._tasks: list[asyncio.Task[None]] = []
        self._put_programs_into_terminals()

    def _hibernation(self, place: Place, fanout: Fanout) -> Hibernation | None:
        """Kernels as ever where it cannot be had: nothing of the server depends on it."""
        try:
            found = Hibernation.begin(
                self.serverapp, environ=os.environ, server_name=place.server_name
            )
        except Exception:
            self.log.exception("kernels are not kept")
            return None
        if found is not None:
            losses = found.keeper.losses
            losses.changed = lambda: fanout.send(losses.message())
        return found

    def _wake(self, hibernation: Hibernation) -> None:
        """Before the first request can be answered; a loop that runs already does it at its start."""
        server: Any = self.serverapp
        loop = server.io_loop
        if not loop.asyncio_loop.is_running():
            loop.run_sync(hibernation.wake)

    def _put_programs_into_terminals(self) -> None:
        """Before Jupyter's own extension for terminals, which comes later by its name, is made."""
        server = self.serverapp
        # Jupyter opens login shells just where it was not started in a terminal itself.
        if server is None or sys.stdout.isatty() or "shell_command" in server.terminado_settings:
            return
        command = shell_command(os.environ, programs=Path(sys.executable).parent)
        if command is not None:
            server.terminado_settings = {**server.terminado_settings, "shell_command": command}

    def initialize_handlers(self) -> None:
        """All routes below ``gpucommons/``."""
        self.handlers.extend(
            [
                (r"/gpucommons/ws", TabHandler),
                (r"/gpucommons/api/(.+)", ProxyHandler),
                (r"/gpucommons/files", FilesHandler),
                (r"/gpucommons/submit-file", SubmitFileHandler),
                (r"/gpucommons/fetch-results", FetchResultsHandler),
                (r"/gpucommons/examples", ExamplesHandler),
                (r"/gpucommons/lost-kernels/([0-9A-Za-z_-]+)", LostKernelHandler),
            ]
        )

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        parts = self.parts
        self._start(parts.sampler.run())
        self._start(parts.feed.run())
        if parts.hibernation is not None:
            _stop_in_order_when_interrupted(serverapp)
            self._start(parts.hibernation.run(self._take_back))
        if parts.scheduler is not None and parts.place.lease_id:
            reporter = Reporter(
                scheduler=parts.scheduler,
                collector=collector_for(serverapp, os.environ),
                lease_id=parts.place.lease_id,
                take_lease=parts.feed.take_lease,
                take_activity=parts.feed.take_activity,
                last_activity_times=serverapp.web_app.settings["last_activity_times"],
            )
            self._start(reporter.run())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A part that breaks is a bug of ours: said loudly, and the server goes on."""
        if not task.cancelled() and task.exception() is not None:
            self.log.error("a part of GPU Commons ended", exc_info=task.exception())

    async def _take_back(self, kept: Sequence[KeptKernel]) -> None:
        parts = self.parts
        if parts.scheduler is not None and parts.hibernation is not None:
            await take_back(parts.scheduler, kept, parts.hibernation.keeper.folder)

    async def _tell_kept(self, kept: Sequence[KeptKernel]) -> None:
        parts = self.parts
        if parts.scheduler is not None and parts.hibernation is not None and parts.place.lease_id:
            folder = parts.hibernation.keeper.folder
            await tell_kept(parts.scheduler, parts.place.lease_id, kept, folder)

    async def stop_extension(self) -> None:
        """Stop with the server."""
        if self.parts.hibernation is not None:
            kept = await self.parts.hibernation.stop()
            await self._tell_kept(kept)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.parts.results.close()
        if self.parts.scheduler is not None:
            await self.parts.scheduler.close()


def _stop_in_order_when_interrupted(server: Any) -> None:
    """A hub interrupts its servers; without a terminal that would end them before anything is saved."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: server.stop(from_signal=True))
