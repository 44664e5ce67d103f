"""Whoever wrote a schedule or pipeline, as they are today: its jobs are submitted as theirs."""

from __future__ import annotations

from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.errors import OwnerUnknown
from gpucommons.scheduler.principal import (
    Identity,
    Principal,
    PrincipalKind,
    read_rights,
    resolve,
)
from gpucommons.scheduler.service.service import Service


def owner_of(
    service: Service, user: UserName, *, by_operator: bool, server: str | None
) -> Principal:
    """Somebody with the teams of today and the right to submit; the operator is an admin besides.

    Raises
    ------
    OwnerUnknown
        When the hub knows them no more.
    Unavailable
        While that cannot be asked.
    """
    if by_operator:
        kind, groups, scope = PrincipalKind.LOCAL, frozenset[str](), "custom:gpucommons:admin"
    else:
        if not service.directory.knows(user):
            message = f"JupyterHub knows no user {user} any more: nothing of theirs is started."
            raise OwnerUnknown(message)
        kind, groups = PrincipalKind.USER, service.directory.groups_of(user)
        scope = f"custom:gpucommons:submit!user={user}"
    identity = Identity(
        name=user, kind=kind, groups=groups, rights=read_rights([scope]), server_name=server
    )
    return resolve(identity, service.loop.cluster.teams)
