"""The Jupyter Server extension: puts the parts together, starts and stops them with the server.

Outside a hub, without a scheduler or without a GPU it still loads; what is missing is said on the
panel, and nothing else of the server is touched.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Float, Integer

from gpucommons.gpu.linux.state_home import state_home
from gpucommons.labextension.activity.collector import Collector, collector_for
from gpucommons.labextension.activity.reporter import Reporter
from gpucommons.labextension.activity.session_starts import begin_one_by_one
from gpucommons.labextension.activity.told_state import tell_true_state
from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.editors import ssh, vscode
from gpucommons.labextension.editors.traffic import Traffic
from gpucommons.labextension.hibernation.hibernation import Hibernation
from gpucommons.labextension.hibernation.keeper import server_folder
from gpucommons.labextension.hibernation.keeping_limits import limits_of
from gpucommons.labextension.hibernation.kept_kernels_file import KeptKernel, kernels_folder
from gpucommons.labextension.hibernation.reporting import (
    kernels_report,
    take_back,
    tell_kept,
    telling_seconds,
)
from gpucommons.labextension.hibernation.saving import saving_seconds
from gpucommons.labextension.job_offers.offering import Offering
from gpucommons.labextension.live.fanout import Fanout
from gpucommons.labextension.live.feed import Feed
from gpucommons.labextension.live.sampler import Sampler
from gpucommons.labextension.on_idle import keeps_nothing
from gpucommons.labextension.outputs.listening import Outputs
from gpucommons.labextension.parking.ability import ability, driver_when_tested
from gpucommons.labextension.parking.holding import Holding
from gpucommons.labextension.parking.kernels import Kernels
from gpucommons.labextension.parking.parking import Parking
from gpucommons.labextension.results import Results
from gpucommons.labextension.routes.advice import AdviceHandler
from gpucommons.labextension.routes.cell_runs import CellRunsHandler
from gpucommons.labextension.routes.examples import ExamplesHandler
from gpucommons.labextension.routes.fetch_results import FetchResultsHandler
from gpucommons.labextension.routes.files import FilesHandler, SubmitFileHandler
from gpucommons.labextension.routes.handlers import SETTING, Parts
from gpucommons.labextension.routes.job_offer import NoJobOfferHandler
from gpucommons.labextension.routes.lost_kernels import LostKernelHandler
from gpucommons.labextension.routes.pipelines import PipelineHandler
from gpucommons.labextension.routes.proxy import ProxyHandler
from gpucommons.labextension.routes.schedules import ScheduleHandler
from gpucommons.labextension.routes.stored_variables import StoredVariablesHandler
from gpucommons.labextension.routes.sweeps import SweepHandler
from gpucommons.labextension.routes.websocket import TabHandler
from gpucommons.labextension.server_context import ServerContext
from gpucommons.labextension.stopping_server import answer_no_more, end_after_main
from gpucommons.labextension.terminal_path import shell_command
from gpucommons.labextension.variables.folders import Folders
from gpucommons.labextension.variables.keeper import (
    REST_S,
    Bounds,
    VariableKeeper,
    notebooks_of,
    seconds_left,
    variables_report,
)
from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.models import Keeps, LeaseView
from gpucommons.scheduler.threads.repeating import repeat_task

#: Of the server's last seconds, for telling the scheduler.
REPORT_SECONDS = 1.0
#: Between two looks at what kernels hold.
_LOOK_S = 5.0


class GpuCommonsExtension(ExtensionApp):
    """GPU Commons in a notebook server: live usage, jobs, and what the idle culler needs to know."""

    name = "gpucommons.labextension"

    keep_variables = Bool(
        True, help="Store the variables of idle Python kernels when the server is stopped."
    ).tag(config=True)
    keep_variables_mib = Integer(
        1024, min=1, help="Most MiB of variables that are stored at one stop."
    ).tag(config=True)
    keep_variables_mib_in_all = Integer(
        4096, min=1, help="Most MiB of variables that are stored of one user."
    ).tag(config=True)
    keep_variables_s = Float(
        5.0,
        min=0.0,
        help="Longest time for it; less where the hub kills a stopping server earlier.",
    ).tag(config=True)
    keep_variables_days = Integer(
        9, min=1, help="Stored variables are removed after so many days."
    ).tag(config=True)

    def initialize_settings(self) -> None:
        """Make the parts; nothing runs yet."""
        context, fanout = ServerContext.from_environment(os.environ), Fanout()
        scheduler = AsyncSchedulerClient(context.url, token=context.token) if context.url else None
        stored = Folders(state_home(os.environ), owner=context.owner)
        self._bounds = self._bounds_of(context)
        results = Results(context, say=lambda text: fanout.send({"type": "error", "message": text}))
        feed = Feed(scheduler, fanout, context, on_jobs=results.take, keeps=self._keeps())
        sampler, outputs = Sampler(context.slice_socket, fanout), self._outputs(context)
        self.parts = Parts(
            context=context,
            scheduler=scheduler,
            fanout=fanout,
            feed=feed,
            results=results,
            stored=stored,
            sampler=sampler,
            hibernation=self._hibernation(context, fanout, stored),
            outputs=outputs,
            offering=Offering.of(
                self.serverapp, scheduler, outputs, sampler=sampler, feed=feed, fanout=fanout
            ),
        )
        self.settings[SETTING] = self.parts
        self._holding = Holding()
        self._parking: Parking | None = None
        _, self._limits = limits_of(os.environ)
        self.parts.feed.when_lease = self._heard
        self._can_hold = self._holding.begin(self.serverapp, self.settings)
        server: Any = self.serverapp
        tell_true_state(server, self.settings)
        begin_one_by_one(server.session_manager)
        self._traffic = Traffic()
        self._traffic.listen()
        # VS Code asks nobody who they are: at a socket of its user's, not at a port that all can reach.
        os.environ.setdefault("JUPYTER_VSCODE_PROXY_USE_SOCKET", "true")
        ssh.offer(server)
        vscode.offer(server)
        self._wake(server.io_loop)
        self._tasks: list[asyncio.Task[None]] = []
        self._put_programs_into_terminals()

    def _hibernation(
        self, context: ServerContext, fanout: Fanout, stored: Folders
    ) -> Hibernation | None:
        """Kernels as ever where it cannot be had: nothing of the server depends on it."""
        try:
            found = Hibernation.begin(
                self.serverapp, environ=os.environ, server_name=context.server_name
            )
        except Exception:
            self.log.exception("kernels are not kept")
            return None
        if found is not None:
            keeper = found.keeper
            keeper.count_stored = stored.count
            keeper.changed = keeper.losses.changed = lambda: fanout.send(keeper.message())
        return found

    def _outputs(self, context: ServerContext) -> Outputs | None:
        folder = state_home(os.environ) / "gpucommons" / "outputs"
        server: Any = self.serverapp
        outputs = Outputs(server, server_folder(folder, context.server_name, server.root_dir))
        return outputs if outputs.begin(self.settings) else None

    def _wake(self, loop: Any) -> None:
        """Before the first request can be answered; a loop that runs already does it at its start."""
        hibernation, outputs = self.parts.hibernation, self.parts.outputs
        if hibernation is None:
            if outputs is not None:
                outputs.go_on()
            return
        if outputs is not None:
            hibernation.when_started = outputs.go_on
            hibernation.keeper.listener = outputs
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
                (r"/gpucommons/schedule", ScheduleHandler),
                (r"/gpucommons/sweep", SweepHandler),
                (r"/gpucommons/pipeline", PipelineHandler),
                (r"/gpucommons/advise", AdviceHandler),
                (r"/gpucommons/fetch-results", FetchResultsHandler),
                (r"/gpucommons/examples", ExamplesHandler),
                (r"/gpucommons/lost-kernels/([0-9A-Za-z_-]+)", LostKernelHandler),
                (r"/gpucommons/cell-runs", CellRunsHandler),
                (r"/gpucommons/no-job-offer", NoJobOfferHandler),
                (r"/gpucommons/stored-variables", StoredVariablesHandler),
            ]
        )

    def _bounds_of(self, context: ServerContext) -> Bounds:
        wanted = self.keep_variables_s if self.keep_variables else 0.0
        return Bounds(
            most_bytes=self.keep_variables_mib << 20,
            most_bytes_in_all=self.keep_variables_mib_in_all << 20,
            seconds=seconds_left(wanted, context.stop_seconds),
            days=self.keep_variables_days,
        )

    def _keeps(self) -> Keeps:
        """What a stop keeps of kernels that are not saved whole, for the words on notices and dialogs."""
        return "variables" if self._bounds.seconds else "nothing"

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        parts = self.parts
        now_ms = wall_clock_ms()
        await asyncio.to_thread(parts.stored.remove_old, now_ms)
        self._start(parts.sampler.run())
        self._start(parts.feed.run())
        _stop_in_order_when_interrupted(serverapp, on_hub=bool(parts.context.owner))
        if parts.outputs is not None:
            self._start(parts.outputs.run())
        if parts.offering is not None:
            self._start(parts.offering.run())
        if parts.hibernation is not None:
            self._start(parts.hibernation.run(self._take_back))
            self._start(self._say_that_kernels_are_kept(parts.hibernation))
        if parts.scheduler is not None and parts.context.lease_id:
            collector = collector_for(serverapp, os.environ, lambda: self._traffic.last_ms)
            self._start(self._park_when_asked(parts.scheduler, collector))
            reporter = Reporter(
                scheduler=parts.scheduler,
                collector=collector,
                lease_id=parts.context.lease_id,
                take_lease=parts.feed.take_lease,
                take_activity=parts.feed.take_activity,
                keeps=lambda: parts.feed.keeps,
                parks=lambda: self._parking is not None,
                last_activity_times=serverapp.web_app.settings["last_activity_times"],
            )
            self._start(reporter.run())

    async def _park_when_asked(self, scheduler: AsyncSchedulerClient, collector: Collector) -> None:
        """Once it is known that it works with this driver, as the self-test may take a while."""
        if not self._can_hold:
            return
        driver = await driver_when_tested(
            partial(ability, os.environ, kernels_folder(os.environ)),
            say=lambda why: self.log.info("this notebook's GPU memory cannot be parked: %s", why),
        )
        if driver is None:
            return
        feed = self.parts.feed
        self._parking = Parking(
            scheduler=scheduler,
            lease_id=self.parts.context.lease_id,
            driver=driver,
            kernels=Kernels(server=self.serverapp),
            holding=self._holding,
            is_busy=lambda: collector.busy_ms() is not None,
            take_lease=feed.take_lease,
        )
        await self._parking.run()

    def _heard(self, lease: LeaseView | None) -> None:
        """What the scheduler says of this server; how long kernels stay may change while it runs."""
        idle = None if lease is None else lease.idle
        if idle is not None:
            days, gib = idle.kernels_kept_days, idle.kernels_kept_gib
            _, self._limits = limits_of(os.environ, pool_days=days, pool_gib=gib)
            if self.parts.hibernation is not None:
                self.parts.hibernation.keeper.limits = self._limits
        if self._parking is not None:
            self._parking.heard(lease)

    async def _say_that_kernels_are_kept(self, hibernation: Hibernation) -> None:
        """Once it is known, as the self-test may take a while; not while one holds a GPU for good."""
        if await hibernation.keeper.why_not() is not None:
            return

        async def say() -> None:
            keeps: Keeps = "kernels" if await hibernation.keeps_all() else self._keeps()
            if keeps != self.parts.feed.keeps:
                self.parts.feed.say_keeps(keeps)

        await repeat_task(
            say, what="a look at what kernels hold", pause=lambda: asyncio.sleep(_LOOK_S)
        )

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

    async def _tell_kept(self, kept: Sequence[KeptKernel], begun_s: float) -> None:
        parts, server = self.parts, self.serverapp
        if parts.scheduler is not None and parts.hibernation is not None and parts.context.lease_id:
            folder = parts.hibernation.keeper.folder
            # Variables of those that were not saved are stored after it, and need their time.
            is_last = server is None or not list(server.kernel_manager.list_kernel_ids())
            since_s = time.monotonic() - begun_s if is_last else None
            within_s = telling_seconds(parts.context.stop_seconds, since_s)
            await tell_kept(parts.scheduler, parts.context.lease_id, kept, folder, within_s)

    async def _keep_variables(self, whole: Sequence[KeptKernel]) -> None:
        """Of the kernels that are there still, beside those that were saved whole."""
        server, parts = self.serverapp, self.parts
        if server is None or not self._bounds.seconds:
            return
        keeper = VariableKeeper(
            kernels=server.kernel_manager,
            notebooks=lambda: notebooks_of(server.session_manager),
            folders=parts.stored,
            bounds=replace(self._bounds, days=min(self._bounds.days, max(1, self._limits.days))),
            owner=parts.context.owner,
            server_name=parts.context.server_name,
        )
        report = variables_report(await keeper.keep())
        if report is None or parts.scheduler is None or not parts.context.lease_id:
            return
        if whole:
            saved = kernels_report(whole)
            ends = [ms for ms in (saved.until_ms, report.until_ms) if ms is not None]
            numbers = {"kernels": saved.kernels, "kernel_bytes": saved.kernel_bytes}
            report = report.model_copy(update={**numbers, "until_ms": min(ends)})
        try:
            call = calls.report_kept_kernels(parts.context.lease_id, report)
            await asyncio.wait_for(parts.scheduler.send(call), REPORT_SECONDS)
        except (SchedulerError, TimeoutError) as error:
            self.log.warning("That variables are kept is not known to the scheduler: %s", error)

    async def stop_extension(self) -> None:
        """Stop with the server."""
        begun_s = time.monotonic()
        end_after_main()
        if self.serverapp is not None:
            answer_no_more(self.serverapp.web_app)
        kept: Sequence[KeptKernel] = ()
        nothing = keeps_nothing(self.parts.feed.lease, wall_clock_ms())
        if self.parts.hibernation is not None:
            others_s = self._bounds.seconds + REST_S
            within_s = saving_seconds(self.parts.context.kernels_killed_s, others_s)
            kept = await self.parts.hibernation.stop(keeps_nothing=nothing, within_s=within_s)
        if self.parts.outputs is not None:
            self.parts.outputs.stop({one.id for one in kept})
        await self._tell_kept(kept, begun_s)
        try:
            if not nothing:
                await self._keep_variables(kept)
        except Exception:
            # Whatever it is, the rest stops all the same.
            self.log.exception("variables are not kept")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.parts.results.close()
        if self.parts.scheduler is not None:
            await self.parts.scheduler.close()


def _stop_in_order_when_interrupted(server: Any, *, on_hub: bool) -> None:
    """A hub interrupts its servers; without a terminal that would end them before anything is saved.

    Whatever a shell starts in the background ignores interrupts, and so do its children: a hub that was
    started so would wait in vain for its servers. Of a server without a hub its shell's wish stands.
    """
    ended = {signal.default_int_handler, *((signal.SIG_IGN,) if on_hub else ())}
    if signal.getsignal(signal.SIGINT) in ended:
        signal.signal(signal.SIGINT, lambda *_: server.stop(from_signal=True))
