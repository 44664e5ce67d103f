"""One scheduler from start to end: sockets, threads, tasks, and what a signal does to them."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import signal
import socket
from collections.abc import Callable, Container, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from gpucommons.gpu.connections import unix_sockets
from gpucommons.gpu.connections.listening import BACKLOG, close_all, listen_tcp
from gpucommons.scheduler.background_tasks.housekeeping import OPERATOR
from gpucommons.scheduler.hub import attempt_tokens
from gpucommons.scheduler.hub.missing_servers import MissingServers
from gpucommons.scheduler.threads.repeating import repeat_task
from gpucommons.scheduler.wiring import forwarding, standby
from gpucommons.scheduler.wiring.app import Scheduler, build
from gpucommons.scheduler.wiring.options import SchedulerSettings

if TYPE_CHECKING:
    from gpucommons.scheduler.api.server import Server

log = logging.getLogger("gpucommons.scheduler")

#: Between two passes of housekeeping; while the first configuration waits for the agent, shorter.
_HOUSEKEEPING_S = 2.0
_CONFIGURING_S = 0.2
_MISSING_S = 20.0
#: Between two looks at what schedules, sweeps and pipelines have due.
_SCHEDULES_S = 1.0
#: Between two looks at what jobs print, for the curves in it.
_FOLLOW_LOGS_S = 0.5
#: Until files of a job that is over are looked for.
_RESULTS_S = 1.0
#: Memory of a job that is over lies on disk for so long at most.
_IMAGES_S = 20.0
#: Between two looks for old files. They are days old, and each look goes through all stored jobs.
_PRUNE_S = 6 * 3600.0
#: A turn that lasts longer than this at our end keeps the lead until its lease runs out.
_AT_REST_S = 3.0


async def serve(settings: SchedulerSettings, stop: asyncio.Event) -> int:
    """Run until ``stop`` is set or the lead is lost; returns the exit status.

    Raises
    ------
    Unavailable, BadRequest, OSError
        When something that it needs cannot be had.
    """
    tcp = listen_tcp(settings.api_port, settings.api_host)
    api_url = f"http://127.0.0.1:{tcp.getsockname()[1]}"
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(close_all, [tcp])
        if settings.stand_by and not await standby.until_led_no_more(
            settings, tcp, stop, at_end=stack
        ):
            return 0
        scheduler = await _started(stack, settings, settings.api_url or api_url)
        unix = unix_sockets.listen(settings.state / "api.sock", backlog=BACKLOG)
        forwarded = _forwarded(settings) if settings.stand_by else []
        listening = [tcp, unix, *forwarded]
        stack.callback(close_all, listening)
        server = await asyncio.to_thread(_server, scheduler, forwarded)
        for work in (
            *_in_background(scheduler),
            _watch(scheduler, server, stop),
            _pages(settings, api_url),
        ):
            task = asyncio.create_task(work)
            task.add_done_callback(lambda done: _end_if_failed(done, stop))
            stack.push_async_callback(_cancelled, task)
        where = "{}:{}".format(*tcp.getsockname()[:2])
        log.info("the API answers at http://%s and %s", where, settings.state / "api.sock")
        await server.serve(sockets=listening)
        return 0 if scheduler.loop.lost is None else 1


def _forwarded(settings: SchedulerSettings) -> list[socket.socket]:
    """Where one that stands by for this one passes its callers on to, once it says so."""
    listening = unix_sockets.listen(forwarding.api_socket(settings.state), backlog=BACKLOG)
    forwarding.publish(settings.state, settings.own_url, pages_port=settings.pages_port)
    return [listening]


def _server(scheduler: Scheduler, for_others: Container[socket.socket]) -> Server:
    """The HTTP server; imported in a thread, while the loop decides already."""
    from gpucommons.scheduler.api.server import make_server  # noqa: PLC0415 - see above
    from gpucommons.scheduler.wiring.rest_api import web_app  # noqa: PLC0415 - see above

    return make_server(web_app(scheduler), for_others=for_others)


async def _started(
    stack: contextlib.AsyncExitStack, settings: SchedulerSettings, api_url: str
) -> Scheduler:
    scheduler = build(settings, api_url=api_url)
    if scheduler.tracing is not None:
        # Last of all: it may take seconds, and whoever comes next waits for the store.
        stack.push_async_callback(asyncio.to_thread, scheduler.tracing.close)
    stack.callback(scheduler.foundation.store.close)
    if scheduler.foundation.hub is not None:
        stack.push_async_callback(scheduler.foundation.hub.close)
    if scheduler.foundation.replica is not None:
        scheduler.foundation.replica.start()
        # After the loop has ended: the lead is given up by one that does nothing more in its name.
        stack.push_async_callback(asyncio.to_thread, scheduler.foundation.replica.stop)
    await asyncio.to_thread(scheduler.loop.start)
    stack.push_async_callback(asyncio.to_thread, scheduler.loop.stop)
    scheduler.where.start()
    stack.push_async_callback(asyncio.to_thread, scheduler.where.close)
    scheduler.forecaster.start()
    stack.push_async_callback(asyncio.to_thread, scheduler.forecaster.stop)
    if scheduler.servers is not None:
        stack.push_async_callback(scheduler.servers.close)
    return scheduler


async def _pages(settings: SchedulerSettings, api_url: str) -> None:
    """The pages behind the hub's proxy, until cancelled; none without a hub."""
    hub = settings.hub
    if hub is None:
        return
    # Imports jupyterhub, which takes a second: the API is up by then.
    pages = await asyncio.to_thread(importlib.import_module, "gpucommons.scheduler.pages.server")
    server = await pages.start(
        pages.PagesSettings(
            port=settings.pages_port,
            host=settings.api_host,
            api_url=api_url,
            hub_api_url=hub.api_url,
            hub_api_token=hub.token,
            cookie_secret=attempt_tokens.load_key(settings.cookie_secret),
            prefix=hub.prefix,
            hub_prefix=f"{hub.base_url}hub/",
            hub_host=hub.host,
            oauth_client_id=hub.client_id,
            allow_admin_writes=settings.allow_admin_writes,
            forwarded=forwarding.pages_socket(settings.state) if settings.stand_by else None,
        )
    )
    log.info("the pages answer at %s", server.url)
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop()


def _in_background(scheduler: Scheduler) -> list[Coroutine[Any, Any, None]]:
    where, retention = scheduler.where, scheduler.background.retention
    found = [
        _run_housekeeping(scheduler),
        _follow_logs(scheduler),
        _while_leading(scheduler, retention.step, "a pass of the retention", _PRUNE_S, first=False),
        _while_leading(
            scheduler,
            where.remove_images_of_ended_jobs,
            "a look for images of jobs that are over",
            _IMAGES_S,
        ),
        _look_for_missing_servers(scheduler),
    ]
    if where.results is not None:
        step = where.results.step
        found.append(_while_leading(scheduler, step, "a look for results", _RESULTS_S))
    looks = scheduler.background.each_second.items()
    return found + [_look_at(scheduler, step, what) for what, step in looks]


async def _run_housekeeping(scheduler: Scheduler) -> None:
    housekeeping = scheduler.background.housekeeping

    async def step() -> None:
        if scheduler.loop.leading:
            await asyncio.to_thread(housekeeping.step)
        else:
            housekeeping.pause()

    async def pause() -> None:
        hurries = scheduler.loop.leading and not housekeeping.configured
        await asyncio.sleep(_CONFIGURING_S if hurries else _HOUSEKEEPING_S)

    await repeat_task(step, what="a pass of housekeeping", pause=pause)


async def _look_at(scheduler: Scheduler, step: Callable[[], object], what: str) -> None:
    """One pass after the other while this scheduler leads."""

    async def look() -> None:
        if scheduler.loop.leading and scheduler.background.housekeeping.configured:
            await asyncio.to_thread(step)

    await repeat_task(look, what=what, pause=partial(asyncio.sleep, _SCHEDULES_S))


async def _follow_logs(scheduler: Scheduler) -> None:
    following = scheduler.background.log_following

    async def step() -> None:
        if scheduler.loop.leading:
            await asyncio.to_thread(following.step)
        else:
            following.pause()

    pause = partial(asyncio.sleep, _FOLLOW_LOGS_S)
    await repeat_task(step, what="a look at the logs", pause=pause)


async def _while_leading(
    scheduler: Scheduler,
    step: Callable[[], object],
    what: str,
    pause_s: float,
    *,
    first: bool = True,
) -> None:
    """One pass after the other while this scheduler leads; the ``first`` at once, or after a pause."""

    async def act() -> None:
        if scheduler.loop.leading:
            await asyncio.to_thread(step)

    if not first:
        await asyncio.sleep(pause_s)
    await repeat_task(act, what=what, pause=partial(asyncio.sleep, pause_s))


async def _look_for_missing_servers(scheduler: Scheduler) -> None:
    if scheduler.foundation.hub is None:
        return
    service = scheduler.service
    missing = MissingServers(
        scheduler.foundation.hub,
        workloads=lambda: tuple(service.loop.cluster.workloads.values()),
        is_empty=service.slices.is_empty,
        end=lambda action: service.ask(OPERATOR, action),
        now_ms=service.now_ms,
    )

    async def step() -> None:
        if service.loop.leading:
            await missing.step()

    await repeat_task(
        step, what="a look for missing servers", pause=lambda: asyncio.sleep(_MISSING_S)
    )


async def _watch(scheduler: Scheduler, server: Server, stop: asyncio.Event) -> None:
    """End the server when asked to, or when another scheduler has taken over."""
    while scheduler.loop.lost is None and not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
    if scheduler.foundation.replica is not None:
        # At once: whoever leads next need not wait until our last callers are served.
        at_rest = partial(scheduler.loop.at_rest, _AT_REST_S)
        await asyncio.to_thread(scheduler.foundation.replica.resign, at_rest=at_rest)
    server.should_exit = True
    if scheduler.settings.stand_by:
        # As above: what is read for them from now on opens the store's file anew.
        await asyncio.to_thread(scheduler.loop.stop)
        await asyncio.to_thread(scheduler.foundation.store.close)


def _end_if_failed(task: asyncio.Task[None], stop: asyncio.Event) -> None:
    """A part that fails ends the scheduler, which then raises what it failed with."""
    if not task.cancelled() and task.exception() is not None:
        stop.set()


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def until_signalled(settings: SchedulerSettings) -> int:
    """Serve until SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return await serve(settings, stop)
