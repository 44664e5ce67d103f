"""One operator from start to end: the framework's loop and the task that follows the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

import kopf

from gpucommons.gpu.connections.listening import listen_tcp
from gpucommons.gpu.connections.text_page import serve_page
from gpucommons.scheduler.client import AsyncSchedulerClient
from gpucommons.scheduler.operator.cluster import KubernetesObjects, Objects, api_client
from gpucommons.scheduler.operator.following import Follower, LiveObjects
from gpucommons.scheduler.operator.handlers import FINALIZER, Surroundings, registered
from gpucommons.scheduler.operator.objects import GROUP
from gpucommons.scheduler.operator.options import OperatorSettings

#: The kubelet asks the pod at its address.
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - see above

log = logging.getLogger("gpucommons.operator")


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


async def operate(settings: OperatorSettings, stop: asyncio.Event) -> None:
    """Run until ``stop`` is set."""
    objects = KubernetesObjects(api_client())
    if settings.release:
        held = await asyncio.to_thread(objects.release, FINALIZER)
        log.info("%d objects can be deleted without an operator now", held)
        return
    async with AsyncSchedulerClient(settings.scheduler_url, token=settings.token) as scheduler:
        await _serve(settings, scheduler, objects, stop)


async def _serve(
    settings: OperatorSettings,
    scheduler: AsyncSchedulerClient,
    objects: Objects,
    stop: asyncio.Event,
) -> None:
    live_objects = LiveObjects()
    around = Surroundings(
        scheduler=scheduler,
        objects=objects,
        live_objects=live_objects,
        pace=settings.pace,
        now_ms=now_ms,
    )
    follower = Follower(scheduler, objects, live_objects, pace=settings.pace, now_ms=now_ms)
    following = asyncio.create_task(follower.run())
    following.add_done_callback(lambda _: stop.set())
    try:
        with health(settings.health_port):
            await kopf.operator(
                registry=registered(around),
                settings=framework_settings(),
                clusterwide=True,
                standalone=True,
                stop_flag=stop,
            )
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


def health(port: int) -> contextlib.AbstractContextManager[None]:
    """Answer the probe, as long as the loop turns; the framework's own server has no bounds."""
    if not port:
        return contextlib.nullcontext()
    return serve_page(
        listen_tcp(port, _EVERYWHERE),
        lambda: b'{"ok":true}\n',
        path="/healthz",
        content_type="application/json",
    )


def framework_settings() -> kopf.OperatorSettings:
    """Our names on what the framework writes, and no rights that we do not need."""
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = FINALIZER
    prefix: dict[str, Any] = {"prefix": f"operator.{GROUP}"}
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(**prefix)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(**prefix)
    settings.posting.reporting_component = "gpucommons-operator"
    settings.scanning.disabled = True
    return settings
