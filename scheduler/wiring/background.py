"""What a scheduler does beside deciding and answering requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpucommons.scheduler.background_tasks.budgets import Budgets
from gpucommons.scheduler.background_tasks.housekeeping import Housekeeping
from gpucommons.scheduler.background_tasks.notification_delivery import Delivery
from gpucommons.scheduler.background_tasks.notifications import Notifications
from gpucommons.scheduler.background_tasks.old_job_files import Retention
from gpucommons.scheduler.background_tasks.pipelines import Pipelines
from gpucommons.scheduler.background_tasks.plan_outcomes import Judging
from gpucommons.scheduler.background_tasks.scale_up import PeriodicScaleUp
from gpucommons.scheduler.background_tasks.schedules import Schedules
from gpucommons.scheduler.background_tasks.slow_nodes import SlowNodes
from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.curves.following import LogFollowing
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import Epoch

_HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True, slots=True)
class BackgroundTasks:
    """All of them: those with a time of their own, and those that take turns each second."""

    housekeeping: Housekeeping
    log_following: LogFollowing
    retention: Retention
    notification_delivery: Delivery
    #: One pass of each, by what the log calls it.
    each_second: Mapping[str, Callable[[], object]]


def background_tasks(  # noqa: PLR0913 - what they are made of, all named
    service: Service,
    *,
    epoch: Callable[[], Epoch],
    housekeeping: Housekeeping,
    log_following: LogFollowing,
    retention: Retention,
    scale_ups: PeriodicScaleUp,
    slow_hours: int,
) -> BackgroundTasks:
    """Make those that need nothing but the service, and put all together."""
    unread = log_following.unread
    delivery = Delivery(service, epoch=epoch)
    return BackgroundTasks(
        housekeeping=housekeeping,
        log_following=log_following,
        retention=retention,
        notification_delivery=delivery,
        each_second={
            "a look at the schedules": Schedules(service, epoch=epoch, unread=unread).step,
            "a look at the sweeps": Sweeps(service, epoch=epoch, unread=unread).step,
            "a look at the pipelines": Pipelines(service, epoch=epoch).step,
            "a look at the budgets": Budgets(service).step,
            "a look at which nodes are slow": SlowNodes(
                service, avoided_ms=slow_hours * _HOUR_MS
            ).step,
            "a look at which nodes are missing": scale_ups.step,
            "a look for whom to tell": Notifications(service, epoch=epoch).step,
            "a look at messages to send": delivery.step,
            "a look at what became of plans": Judging(service, epoch=epoch).step,
        },
    )
