"""Routes of one's own notifications."""

from __future__ import annotations

from gpucommons.scheduler.api.caller import AnyCaller
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.models.notifications import (
    ConfirmRequest,
    ForgottenView,
    MessagePreview,
    NotificationRequest,
    NotificationsView,
)
from gpucommons.scheduler.service.notifications import preferences

router = a_router("notifications")


@router.get("/notifications")
async def notifications(caller: AnyCaller) -> NotificationsView:
    """What the caller is told by mail and webhook, and what became of the newest messages."""
    return await caller.run(preferences.notifications)


@router.put("/notifications")
async def set_notifications(request: NotificationRequest, caller: AnyCaller) -> NotificationsView:
    """Choose anew what to be told, and how; a new signing key is in this answer alone."""
    return await caller.run(preferences.set_notifications, request)


@router.post("/notifications/test")
async def test_notifications(caller: AnyCaller) -> NotificationsView:
    """Have a test sent by every way that is chosen."""
    return await caller.run(preferences.test_notifications)


@router.post("/notifications/confirm")
async def confirm_address(request: ConfirmRequest, caller: AnyCaller) -> NotificationsView:
    """Take the code that was sent to the caller's address: mail goes there from now on."""
    return await caller.run(preferences.confirm_address, request)


@router.post("/users/{user}/forget")
async def forget_user(user: str, caller: AnyCaller) -> ForgottenView:
    """Forget what a user chose to be told and was told, when the user is removed."""
    return await caller.run(preferences.forget_user, UserName(user))


@router.get("/notifications/week")
async def notifications_week(caller: AnyCaller) -> MessagePreview:
    """The summary of the caller's last week that is over, as it would be sent."""
    return await caller.run_dear(preferences.notifications_week)
