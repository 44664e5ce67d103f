"""Calls about what was used: the report, utilisation over time; and what one is told by mail and webhook."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call, path_of
from gpucommons.scheduler.models.notifications import (
    ConfirmRequest,
    ForgottenView,
    MessagePreview,
    NotificationRequest,
    NotificationsView,
)
from gpucommons.scheduler.models.reports import Utilisation


def report(
    *, from_ms: int, to_ms: int, drawn: bool = False, sample: bool = False
) -> Call[models.Report]:
    """Usage by team, user and project in a span (admins all, others their own teams)."""
    return Call(
        method="GET",
        path=path_of("report"),
        answer=models.Report,
        query={"from_ms": str(from_ms), "to_ms": str(to_ms)} | _flags(drawn=drawn, sample=sample),
    )


def utilisation(
    *, days: int = 90, pool: str | None = None, team: str | None = None, sample: bool = False
) -> Call[Utilisation]:
    """GPUs allocated beside GPUs used (admins; leads their teams)."""
    asked = {"days": str(days), "pool": pool, "team": team}
    return Call(
        method="GET",
        path=path_of("utilisation"),
        answer=Utilisation,
        query={name: value for name, value in asked.items() if value is not None}
        | _flags(sample=sample),
    )


def notifications() -> Call[NotificationsView]:
    """What the caller is told, and what became of the newest messages."""
    return Call(method="GET", path=path_of("notifications"), answer=NotificationsView)


def set_notifications(request: NotificationRequest) -> Call[NotificationsView]:
    """Choose anew what to be told, and how."""
    return Call(method="PUT", path=path_of("notifications"), answer=NotificationsView, body=request)


def test_notifications() -> Call[NotificationsView]:
    """Have a test sent by every way that is chosen."""
    return Call(method="POST", path=path_of("notifications", "test"), answer=NotificationsView)


def confirm_address(request: ConfirmRequest) -> Call[NotificationsView]:
    """Send back the code that came to the caller's address."""
    return Call(
        method="POST",
        path=path_of("notifications", "confirm"),
        answer=NotificationsView,
        body=request,
    )


def forget_user(user: str) -> Call[ForgottenView]:
    """Forget what a user chose to be told and was told (admins)."""
    return Call(method="POST", path=path_of("users", user, "forget"), answer=ForgottenView)


def notifications_week() -> Call[MessagePreview]:
    """The summary of the last week that is over."""
    return Call(method="GET", path=path_of("notifications", "week"), answer=MessagePreview)


def _flags(**given: bool) -> dict[str, str]:
    """Only what is set."""
    return {name: "true" for name, is_set in given.items() if is_set}
