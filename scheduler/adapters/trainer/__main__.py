"""``python -m gpucommons.scheduler.adapters.trainer``: hands TrainJobs in. See ``--help``."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpucommons.gpu.extras import program_of
from gpucommons.gpu.said_once import log_to_stderr

with program_of("kubernetes"):
    from gpucommons.scheduler.adapters.settings_file import read_file
    from gpucommons.scheduler.adapters.trainer.cluster_view import WatchedTrainJobs
    from gpucommons.scheduler.adapters.trainer.intake import Intake, TrainJobs, made_of
    from gpucommons.scheduler.adapters.trainer.settings import TrainerSettings
    from gpucommons.scheduler.client import AsyncSchedulerClient
    from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
    from gpucommons.scheduler.operator.following import Follower, LiveObjects
    from gpucommons.scheduler.operator.options import OperatorSettings, parser_of, settings_of
    from gpucommons.scheduler.operator.running import health, now_ms

#: After so many looks at what changed, all are looked at.
_ALL_EVERY = 30


def read_arguments(
    arguments: Sequence[str], environ: Mapping[str, str]
) -> tuple[Path, OperatorSettings]:
    """The file, and where the scheduler is."""
    parser = parser_of(
        "python -m gpucommons.scheduler.adapters.trainer",
        "Hands TrainJobs of Kubeflow Trainer in to the scheduler.",
    )
    add = parser.add_argument
    add("--settings", type=Path, required=True, help="the file of --executor trainjob")
    given = parser.parse_args(arguments)
    return given.settings, settings_of(parser, given, environ)


async def serve(file: Path, told: OperatorSettings) -> None:
    """Run until cancelled."""
    settings = read_file(file, TrainerSettings, executor="trainjob")
    connection = connect()
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(changed.set)

    watched = WatchedTrainJobs(connection, settings.namespaces, tell)
    try:
        await asyncio.to_thread(watched.wait)
        async with AsyncSchedulerClient(told.scheduler_url, token=told.token) as scheduler:
            objects, live_objects = (
                TrainJobs(connection, settings.namespaces),
                LiveObjects(made_of=made_of),
            )
            intake = Intake(scheduler, watched, objects, live_objects, settings)
            await intake.look()
            follower = Follower(scheduler, objects, live_objects, pace=told.pace, now_ms=now_ms)
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


async def _until_signalled(file: Path, told: OperatorSettings) -> None:
    with health(told.health_port):
        serving = asyncio.create_task(serve(file, told))
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
    asyncio.run(_until_signalled(*read_arguments(sys.argv[1:], os.environ)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
