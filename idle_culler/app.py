"""The idle culler as a program: a service of the hub, configured by flags, file or environment."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from typing import Any, ClassVar

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from traitlets import Bool, Dict, Integer, TraitError, Unicode, default
from traitlets.config import Application
from traitlets.config.application import catch_config_error

from gpucommons.gpu.connections.listening import listen_tcp
from gpucommons.gpu.connections.text_page import serve_page
from gpucommons.gpu.said_once import log_to_stderr
from gpucommons.idle_culler.hub import PAGE_SIZE, Hub
from gpucommons.idle_culler.idle_limits import Limits, Rules, changed
from gpucommons.idle_culler.leases import Leases
from gpucommons.idle_culler.loop import Loop, Pace, Source, WallTime
from gpucommons.idle_culler.metrics import Metrics
from gpucommons.idle_culler.servers_without_lease import HubList, PlainRules
from gpucommons.scheduler.client import AsyncSchedulerClient


class CullerApp(Application):
    """Give back the GPUs of idle notebooks: warn, then stop the server or restart it without one.

    Tokens come from the environment only: JUPYTERHUB_API_TOKEN for the hub and, unless
    GPUCOMMONS_TOKEN is set, for the scheduler.
    """

    name = "gpucommons-culler"
    description = __doc__

    scheduler_url = Unicode(help="Address of the scheduler. Default: $GPUCOMMONS_URL.").tag(
        config=True
    )
    hub_api_url = Unicode(help="Address of the hub's API. Default: $JUPYTERHUB_API_URL.").tag(
        config=True
    )
    config_file = Unicode(help="A Python or JSON file with further settings.").tag(config=True)
    idle_after_s = Integer(
        3600,
        min=1,
        help="Seconds without GPU use, busy kernel, terminal or process, and input after which the"
        " GPU goes back. An open tab is not activity; a silent cell is.",
    ).tag(config=True)
    warn_after_s = Integer(
        3000, min=1, help="Idle seconds after which the user is warned in JupyterLab."
    ).tag(config=True)
    stale_after_s = Integer(
        180,
        min=1,
        help="A report or GPU reading older than this is missing. Missing is never idle.",
    ).tag(config=True)
    unverified_after_s = Integer(
        86400,
        min=0,
        help="Longest time a notebook may hold a GPU without report or reading, after a warning."
        " 0 = for ever.",
    ).tag(config=True)
    on_idle = Unicode(
        help="Not here any more: what becomes of idle notebooks is a setting of pools (on_idle)."
    ).tag(config=True)
    per_pool: Dict[str, Any] = Dict(
        Dict(),
        help="Other limits for a pool: --per-pool=\"train={'idle_after_s': 1200,"
        " 'warn_after_s': 900}\", once per pool.",
    ).tag(config=True)
    per_team: Dict[str, Any] = Dict(
        Dict(), help="Other limits for a team; they win over its pool's."
    ).tag(config=True)
    every_s = Integer(60, min=1, help="Seconds between two regular cycles.").tag(config=True)
    concurrency = Integer(10, min=1, help="Servers that are stopped at the same time.").tag(
        config=True
    )
    metrics_port = Integer(
        0, min=0, max=65535, help="Port for Prometheus, without a token. 0 = none."
    ).tag(config=True)
    metrics_address = Unicode(
        "127.0.0.1", help="Address of that port; in a pod 0.0.0.0, where a policy guards it."
    ).tag(config=True)
    plain_idle_after_s = Integer(
        0,
        min=0,
        help="Also stop servers without a GPU lease after so many seconds without activity in the"
        " hub's own count. 0 = never.",
    ).tag(config=True)
    plain_max_age_s = Integer(
        0, min=0, help="Stop servers without a GPU lease at this age, however active. 0 = never."
    ).tag(config=True)
    api_page_size = Integer(
        PAGE_SIZE, min=1, max=PAGE_SIZE, help="Users per page of the hub's list."
    ).tag(config=True)
    dry_run = Bool(False, help="Only log what would be done.").tag(config=True)
    once = Bool(False, help="One cycle, then end.").tag(config=True)

    aliases: ClassVar[dict[str, str]] = {  # type: ignore[misc] # traitlets types it per instance
        "scheduler-url": "CullerApp.scheduler_url",
        "hub-api-url": "CullerApp.hub_api_url",
        "url": "CullerApp.hub_api_url",
        "config": "CullerApp.config_file",
        "idle-after-s": "CullerApp.idle_after_s",
        "warn-after-s": "CullerApp.warn_after_s",
        "stale-after-s": "CullerApp.stale_after_s",
        "unverified-after-s": "CullerApp.unverified_after_s",
        "on-idle": "CullerApp.on_idle",
        "every-s": "CullerApp.every_s",
        "concurrency": "CullerApp.concurrency",
        "per-pool": "CullerApp.per_pool",
        "per-team": "CullerApp.per_team",
        "metrics-port": "CullerApp.metrics_port",
        "metrics-address": "CullerApp.metrics_address",
        "plain-idle-after-s": "CullerApp.plain_idle_after_s",
        "plain-max-age-s": "CullerApp.plain_max_age_s",
        "log-level": "Application.log_level",
    }
    flags: ClassVar[dict[str, Any]] = {  # type: ignore[misc] # as above
        "dry-run": ({"CullerApp": {"dry_run": True}}, "Only log what would be done."),
        "once": ({"CullerApp": {"once": True}}, "One cycle, then end."),
    }

    @default("scheduler_url")
    def _scheduler_url_default(self) -> str:
        return os.environ.get("GPUCOMMONS_URL", "")

    @default("hub_api_url")
    def _hub_api_url_default(self) -> str:
        return os.environ.get("JUPYTERHUB_API_URL", "")

    @default("log_level")
    def _log_level_default(self) -> int:
        return logging.INFO

    @catch_config_error
    def initialize(self, argv: list[str] | None = None) -> None:
        """Read command line and file; the command line wins. Mistakes end the program here."""
        self.parse_command_line(argv)
        if self.config_file:
            command_line = self.cli_config
            self.load_config_file(self.config_file)
            self.update_config(command_line)
        self._rules()
        self._token()

    def start(self) -> None:
        """Run until told to stop."""
        level = self.log_level if isinstance(self.log_level, int) else str(self.log_level)
        log_to_stderr("%(asctime)s %(levelname)s culler: %(message)s", level=level)
        # Every request at INFO would bury the few lines that matter.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._run(self._rules(), self._token()))

    def _rules(self) -> Rules:
        settings = {
            "idle_after_s": self.idle_after_s,
            "warn_after_s": self.warn_after_s,
            "stale_after_s": self.stale_after_s,
            "unverified_after_s": self.unverified_after_s,
            **({"on_idle": self.on_idle} if self.on_idle else {}),
        }
        try:
            limits = changed(Limits(), settings)
            return Rules(default=limits, per_pool=self.per_pool, per_team=self.per_team)
        except (ValueError, AttributeError) as error:
            raise TraitError(str(error)) from None

    def _token(self) -> str:
        token = os.environ.get("JUPYTERHUB_API_TOKEN", "")
        if not token or not self.hub_api_url or not (self.scheduler_url or self._stops_plain):
            message = (
                "The culler needs JUPYTERHUB_API_TOKEN, JUPYTERHUB_API_URL and GPUCOMMONS_URL (or"
                " --hub-api-url and --scheduler-url). A service of the hub, our chart and"
                " `gpucommons up` each give them."
            )
            raise TraitError(message)
        return token

    async def _run(self, rules: Rules, token: str) -> None:
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM,
            asyncio.current_task().cancel,  # type: ignore[union-attr] # runs in a task
        )
        metrics, clock = Metrics(), WallTime()
        async with contextlib.AsyncExitStack() as stack:
            if self.metrics_port:
                listener = listen_tcp(self.metrics_port, self.metrics_address)
                stack.enter_context(
                    serve_page(
                        listener,
                        lambda: generate_latest(metrics.registry),
                        path="/metrics",
                        content_type=CONTENT_TYPE_LATEST,
                    )
                )
            hub = await stack.enter_async_context(Hub(self.hub_api_url, token=token))
            sources: list[Source] = []
            leases = None
            if self.scheduler_url:
                scheduler = AsyncSchedulerClient(
                    self.scheduler_url, token=os.environ.get("GPUCOMMONS_TOKEN") or token
                )
                await stack.enter_async_context(scheduler)
                leases = Leases(
                    scheduler=scheduler,
                    hub=hub,
                    rules=rules,
                    metrics=metrics,
                    clock=clock,
                    dry_run=self.dry_run,
                )
                sources.append(leases)
            if self._stops_plain:
                sources.append(self._plain(hub, leases))
            pace = Pace(every_s=self.every_s, concurrency=self.concurrency)
            loop = Loop(sources, pace=pace, metrics=metrics, clock=clock)
            await (loop.cycle() if self.once else loop.run())

    @property
    def _stops_plain(self) -> bool:
        return bool(self.plain_idle_after_s or self.plain_max_age_s)

    def _plain(self, hub: Hub, leases: Leases | None) -> HubList:
        rules = PlainRules(
            inactive_after_ms=self.plain_idle_after_s * 1000 or None,
            max_age_ms=self.plain_max_age_s * 1000,
        )
        return HubList(
            hub=hub,
            rules=rules,
            held=lambda: leases.held if leases is not None else frozenset(),
            page_size=self.api_page_size,
            dry_run=self.dry_run,
        )


def main(argv: list[str] | None = None) -> None:
    """Command line entry point."""
    CullerApp.launch_instance(argv)
