"""Calls about what was used: the report, utilisation over time; and what one is told by mail and webhook."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.client.call import Call, path_of


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
) -> Call[models.Utilisation]:
    """GPUs allocated beside GPUs used (admins; leads their teams)."""
    asked = {"days": str(days), "pool": pool, "team": team}
    return Call(
        method="GET",
        path=path_of("utilisation"),
        answer=models.Utilisation,
        query={name: value for name, value in asked.items() if value is not None}
        | _flags(sample=sample),
    )


def notifications() -> Call[models.NotificationsView]:
    """What the caller is told, and what became of the newest messages."""
    return Call(method="GET", path=path_of("notifications"), answer=models.NotificationsView)


def set_notifications(request: models.NotificationRequest) -> Call[models.NotificationsView]:
    """Choose anew what to be told, and how."""
    return Call(
        method="PUT", path=path_of("notifications"), answer=models.NotificationsView, body=request
    )


def test_notifications() -> Call[models.NotificationsView]:
    """Have a test sent by every way that is chosen."""
    return Call(
        method="POST", path=path_of("notifications", "test"), answer=models.NotificationsView
    )


def confirm_address(request: models.ConfirmRequest) -> Call[models.NotificationsView]:
    """Send back the code that came to the caller's address."""
    return Call(
        method="POST",
        path=path_of("notifications", "confirm"),
        answer=models.NotificationsView,
        body=request,
    )


def forget_user(user: str) -> Call[models.ForgottenView]:
    """Forget what a user chose to be told and was told (admins)."""
    return Call(method="POST", path=path_of("users", user, "forget"), answer=models.ForgottenView)


def notifications_week() -> Call[models.MessagePreview]:
    """The summary of the last week that is over."""
    return Call(method="GET", path=path_of("notifications", "week"), answer=models.MessagePreview)


def _flags(**given: bool) -> dict[str, str]:
    """Only what is set."""
    return {name: "true" for name, is_set in given.items() if is_set}
