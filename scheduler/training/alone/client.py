"""Reports a run's progress with the standard library alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpucommons.scheduler.errors import SchedulerError, Unavailable, error_classes
from gpucommons.scheduler.in_pod.worker import Api, Refused, Unreachable

if TYPE_CHECKING:
    from gpucommons.scheduler.training.alone import models

#: A scheduler that hangs must not hold up training for long.
_ANSWER_S = 10.0


@dataclass(frozen=True)
class Call:
    """One request."""

    path: str
    body: dict[str, Any] | None


class calls:  # noqa: N801 - it stands in for the module of this name
    """The calls of a running attempt."""

    @staticmethod
    def report_progress(report: models.ProgressReport) -> Call:
        """How far it is."""
        return Call("/v1/attempt/progress", report.values)

    @staticmethod
    def report_checkpoint(report: models.CheckpointReport) -> Call:
        """A receipt."""
        return Call("/v1/attempt/checkpoints", report.values)

    @staticmethod
    def report_finished() -> Call:
        """The work is done."""
        return Call("/v1/attempt/finished", None)


class SchedulerClient:
    """The scheduler, as an attempt sees it."""

    def __init__(self, url: str, *, token: str) -> None:
        self._api = Api(url, token, answer_s=_ANSWER_S)

    def send(self, call: Call) -> Any:
        """Send one call.

        Raises
        ------
        SchedulerError
            With the scheduler's words.
        """
        try:
            return self._api.once("POST", call.path, call.body)
        except Unreachable as error:
            raise Unavailable(str(error)) from None
        except Refused as error:
            raise error_classes().get(error.code, SchedulerError)(str(error)) from None
