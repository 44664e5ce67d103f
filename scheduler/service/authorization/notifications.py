"""Rules about what somebody is told: everybody for themselves alone, admins too."""

from __future__ import annotations

from gpucommons.scheduler.errors import Forbidden
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service.authorization.sight import is_person, may_submit, read


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


def notifications_week(principal: Principal) -> None:
    """As what was chosen."""
    notifications(principal)
