"""Errors of the scheduler, and the HTTP status of each.

* SchedulerError (500)
  * BadRequest (422)
    * Misconfigured
  * NotAuthenticated (401)
  * Forbidden (403)
    * OwnerUnknown
  * NotFound (404)
    * UnknownTeam, UnknownPool, UnknownWorkload, UnknownNode
  * Conflict (409)
    * InvalidTransition, PolicyRefused, CannotLayOut, NoFreeSlice, SliceClearing, StaleAttempt, NotIdle,
      ChosenMeanwhile
      * TooManyWaiting, a PolicyRefused
  * TooLarge (413)
  * Unavailable (503)
    * HubRefusesToken, LeaderLost

A class's docstring is its default message. Every message says what was asked, what is possible
and what to do next. ``status`` is the only place that knows HTTP; one handler maps it.
"""

from __future__ import annotations

from typing import ClassVar


class SchedulerError(Exception):
    """The scheduler failed. Tell its admin: its log says why."""

    status: ClassVar[int] = 500

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())

    @property
    def code(self) -> str:
        """Stable name for programs, for example ``NoFreeSlice``."""
        return type(self).__name__


class BadRequest(SchedulerError):
    """The request cannot be understood."""

    status = 422


class Misconfigured(BadRequest):
    """This can never run as it is written."""


class NotAuthenticated(SchedulerError):
    """Send a JupyterHub token in the Authorization header."""

    status = 401


class Forbidden(SchedulerError):
    """You may not do this."""

    status = 403


class OwnerUnknown(Forbidden):
    """JupyterHub does not know whose this is: nothing of theirs is started."""


class NotFound(SchedulerError):
    """There is no such thing, or it is not yours to see."""

    status = 404


class UnknownTeam(NotFound):
    """There is no such team."""


class UnknownPool(NotFound):
    """There is no such pool."""


class UnknownWorkload(NotFound):
    """There is no such job or notebook, or it is not yours to see."""


class UnknownNode(NotFound):
    """There is no such node."""


class Conflict(SchedulerError):
    """This cannot be done in the present state."""

    status = 409


class InvalidTransition(Conflict):
    """The workload is in a state from which this cannot be done."""


class PolicyRefused(Conflict):
    """A policy of the team or pool forbids this."""


class TooManyWaiting(PolicyRefused):
    """So many of this user's jobs wait as may: what comes later may be allowed."""


class CannotLayOut(Conflict):
    """These quotas cannot be laid out on the devices there are."""


class NoFreeSlice(Conflict):
    """No slice of this size is free right now."""


class SliceClearing(Conflict):
    """The GPU of this server's last run is still being cleared; ask again in a moment."""


class StaleAttempt(Conflict):
    """This attempt is no longer the current one: nothing it says is recorded."""


class ChosenMeanwhile(Conflict):
    """Notifications were changed meanwhile, in another tab perhaps: look, and save again."""


class NotIdle(Conflict):
    """This notebook is not seen to be idle: only by force is its GPU taken back."""


class TooLarge(SchedulerError):
    """This is larger than allowed."""

    status = 413


class Unavailable(SchedulerError):
    """The scheduler cannot be reached; try again in a moment."""

    status = 503


class Unreachable(Unavailable):
    """The scheduler does not answer at all; the message says at which address, for who runs it."""


class TooManyRequests(Unavailable):
    """Too many of your requests wait for an answer already; try again in a moment."""

    status = 429


class HubRefusesToken(Unavailable):
    """JupyterHub refuses the scheduler's token: restart the hub, which reads tokens when it starts."""


class LeaderLost(Unavailable):
    """Another scheduler has taken over: this one stops writing."""


def error_classes() -> dict[str, type[SchedulerError]]:
    """Every class of the tree by its code, so that the client raises what the server raised."""
    found: dict[str, type[SchedulerError]] = {}
    pending: list[type[SchedulerError]] = [SchedulerError]
    while pending:
        cls = pending.pop()
        found[cls.__name__] = cls
        pending.extend(cls.__subclasses__())
    return found
