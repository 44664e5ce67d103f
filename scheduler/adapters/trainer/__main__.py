"""``python -m gpucommons.scheduler.adapters.trainer``: hands TrainJobs in. See ``--help``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpucommons.gpu.extras import program_of
from gpucommons.gpu.said_once import log_to_stderr

with program_of("kubernetes"):
    from gpucommons.scheduler.adapters.trainer.cluster_view import WatchedTrainJobs
    from gpucommons.scheduler.adapters.trainer.intake import Intake, TrainJobs, made_of
    from gpucommons.scheduler.adapters.trainer.settings import read_settings
    from gpucommons.scheduler.client import AsyncSchedulerClient
    from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
    from gpucommons.scheduler.operator.following import Books, Follower, Pace
    from gpucommons.scheduler.operator.running import health, now_ms

#: After so many looks at what changed, all are looked at.
_ALL_EVERY = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """Command line and environment."""

    file: Path
    url: str
    token: str | None = field(repr=False)
    health_port: int


def read_arguments(arguments: Sequence[str], environ: Mapping[str, str]) -> Told:
    """The token comes from the environment, never from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m gpucommons.scheduler.adapters.trainer",
        description="Hands TrainJobs of Kubeflow Trainer in to the scheduler.",
    )
    parser.add_argument(
        "--settings", type=Path, required=True, help="the file of --executor trainjob"
    )
    parser.add_argument("--scheduler-url", default="", help="the API (default: GPUCOMMONS_URL)")
    parser.add_argument("--health-port", type=int, default=0, help="port of /healthz (0: none)")
    given = parser.parse_args(arguments)
    url = given.scheduler_url or environ.get("GPUCOMMONS_URL", "")
    if not url:
        parser.error("say where the scheduler is: --scheduler-url or GPUCOMMONS_URL")
    return Told(
        file=given.settings,
        url=url,
        token=environ.get("JUPYTERHUB_API_TOKEN") or None,
        health_port=given.health_port,
    )


async def serve(told: Told) -> None:
    """Run until cancelled."""
    settings, connection = read_settings(told.file), connect()
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(changed.set)

    watched = WatchedTrainJobs(connection, settings.namespaces, tell)
    try:
        await asyncio.to_thread(watched.wait)
        async with AsyncSchedulerClient(told.url, token=told.token) as scheduler:
            objects, books = TrainJobs(connection, settings.namespaces), Books(made_of=made_of)
            intake = Intake(scheduler, watched, objects, books, settings)
            await intake.look()
            follower = Follower(scheduler, objects, books, pace=Pace(), now_ms=now_ms)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(follower.run())
                tasks.create_task(_look(intake, changed))
    finally:
        await asyncio.to_thread(watched.close)


async def _look(intake: Intake, changed: asyncio.Event) -> None:
    number = 0
    while True:
        number += 1
        await intake.look(anew=not number % _ALL_EVERY)
        try:
            async with asyncio.timeout(1):
                await changed.wait()
        except TimeoutError:
            continue
        changed.clear()


async def _until_signalled(told: Told) -> None:
    with health(told.health_port):
        serving = asyncio.create_task(serve(told))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
        try:
            await serving
        except asyncio.CancelledError:
            return


def main() -> int:
    """Run one until it is told to end."""
    log_to_stderr("%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    told = read_arguments(sys.argv[1:], os.environ)
    asyncio.run(_until_signalled(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
