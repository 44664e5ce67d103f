"""Rules about what somebody is told: everybody for themselves alone, admins too."""

from __future__ import annotations

from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.authorization.sight import (
    is_person,
    may_submit,
    must_be_admin,
    read,
)


def notifications(principal: Principal) -> None:
    """People; of nobody but themselves."""
    read(principal)
    if not is_person(principal):
        message = f"{principal.name} is a {principal.kind}: only people are told anything."
        raise Forbidden(message)


def set_notifications(principal: Principal) -> None:
    """People who may submit: a token that only reads changes nothing."""
    notifications(principal)
    may_submit(principal)


def test_notifications(principal: Principal) -> None:
    """As a change: something is sent."""
    set_notifications(principal)


def confirm_address(principal: Principal) -> None:
    """As a change: mail goes there from then on."""
    set_notifications(principal)


def forget_user(principal: Principal) -> None:
    """Admins, who remove users."""
    must_be_admin(principal, "forget what a user has chosen")
    may_submit(principal)


def notifications_week(principal: Principal) -> None:
    """As what was chosen."""
    notifications(principal)
