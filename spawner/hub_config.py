"""What a ``jupyterhub_config.py`` says to a hub that shares its GPUs.

One call sets spawner, scopes, roles, groups, services and pages, for JupyterHub 5 and 6 alike::

    from gpucommons.spawner.hub_config import HubSettings, configure

    configure(c, HubSettings(...))

Everything stays ordinary hub configuration: what an admin sets afterwards wins, and lists that were
there before (services, roles) keep what is in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2.ext import Extension
from jupyterhub.app import JupyterHub
from jupyterhub.services.service import Service
from traitlets.config.loader import LazyConfigValue

from gpucommons.scheduler.models.hub_scopes import (
    ADMIN,
    CULLER_SERVICE,
    CUSTOM_SCOPES,
    OPERATOR_SERVICE,
    READ,
    SCOPES_OF_SERVICES,
    SERVER_SCOPES,
    SERVICE,
    SPAWNER_SERVICE,
    SUBMIT,
    USER_SCOPES,
)
from gpucommons.spawner.hub_pages.addresses import Addresses

ADMIN_GROUP = "gpucommons-admins"

_PAGES_TIMEOUT_S = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class HubSettings:
    """What differs from hub to hub."""

    #: The scheduler's API as hub and notebooks reach it.
    scheduler_url: str
    #: The server of ticket page and GPU admin, behind ``/services/gpucommons/``.
    pages_url: str
    #: Tokens of the three services.
    service_token: str = field(repr=False)
    culler_token: str = field(repr=False)
    spawner_token: str = field(repr=False)
    #: Hub groups that are teams, with their members.
    teams: Mapping[str, Iterable[str]] = field(default_factory=dict)
    #: Users who may set quotas.
    admins: Iterable[str] = ()
    agent_dir: str = ""
    spawner_class: str = "gpucommons.spawner.local.GpuLocalSpawner"
    #: Empty = there is none.
    operator_token: str = field(default="", repr=False)


def configure(c: Any, settings: HubSettings) -> None:
    """Write everything into the hub's configuration object."""
    c.JupyterHub.spawner_class = settings.spawner_class
    c.LeaseMixin.scheduler_url = settings.scheduler_url
    c.LeaseMixin.scheduler_token = settings.spawner_token
    c.LeaseMixin.agent_dir = settings.agent_dir
    _add(c.JupyterHub, "template_paths", [str(Path(__file__).parent / "templates" / "hub")])
    _add_extension(c.JupyterHub, Addresses)
    _add(c.JupyterHub, "custom_scopes", CUSTOM_SCOPES)
    _add(c.JupyterHub, "services", _services(settings))
    _add(c.JupyterHub, "load_groups", _groups(settings))
    _add(c.JupyterHub, "load_roles", _roles(settings))
    c.Spawner.server_token_scopes = SERVER_SCOPES
    if hasattr(JupyterHub, "extra_user_scopes"):
        c.JupyterHub.extra_user_scopes = set(USER_SCOPES)
    else:
        # JupyterHub 5 can only replace the role: "self" is what it holds by default.
        _add(c.JupyterHub, "load_roles", [{"name": "user", "scopes": ["self", *USER_SCOPES]}])


def leave_out(c: Any, *, spawner_class: str, why: str) -> None:
    """Let the hub start without our services; ``why`` is what its users read."""
    c.JupyterHub.spawner_class = spawner_class
    c.LeaseMixin.why_no_scheduler = why
    # Tokens of notebooks that run carry them: a hub that does not know a scope fails on such a token.
    _add(c.JupyterHub, "custom_scopes", CUSTOM_SCOPES)


def _add(section: Any, name: str, values: Any) -> None:
    """Behind what the hub's configuration has there already; a plain list or mapping either way."""
    there = section[name] if name in section else type(values)()
    if isinstance(there, LazyConfigValue):
        # Only said so far what to add to the default, which is empty for each of these.
        there = there.get_value(type(values)())
    if isinstance(values, dict):
        section[name] = {**there, **values}
    else:
        section[name] = [*there, *values]


def _add_extension(section: Any, extension: type[Extension]) -> None:
    """Behind other extensions of the hub's templates."""
    _add(section, "jinja_environment_options", {})
    there = section["jinja_environment_options"].get("extensions", ())
    section["jinja_environment_options"]["extensions"] = [*there, extension]


def _services(settings: HubSettings) -> list[dict[str, Any]]:
    # A hub that restarts while the scheduler is down should not wait half a minute for it.
    patience = {"timeout": _PAGES_TIMEOUT_S} if Service.class_traits().get("timeout") else {}
    return [
        {
            "name": SERVICE,
            "url": settings.pages_url,
            "api_token": settings.service_token,
            "oauth_no_confirm": True,
            "oauth_client_allowed_scopes": [READ, SUBMIT, ADMIN],
            # The navigation bar has a link of its own.
            "display": False,
            **patience,
        },
        {"name": CULLER_SERVICE, "api_token": settings.culler_token},
        {"name": SPAWNER_SERVICE, "api_token": settings.spawner_token},
        *_operator(settings),
    ]


def _operator(settings: HubSettings) -> list[dict[str, Any]]:
    if not settings.operator_token:
        return []
    return [{"name": OPERATOR_SERVICE, "api_token": settings.operator_token}]


def _groups(settings: HubSettings) -> dict[str, dict[str, list[str]]]:
    groups = {name: {"users": sorted(members)} for name, members in settings.teams.items()}
    admins = sorted(settings.admins)
    # None at all where an authenticator keeps the groups: then the hub refuses groups from here.
    return {**groups, ADMIN_GROUP: {"users": admins}} if groups or admins else {}


def _roles(settings: HubSettings) -> list[dict[str, Any]]:
    names = [CULLER_SERVICE, SPAWNER_SERVICE, *(one["name"] for one in _operator(settings))]
    roles = {"gpucommons-scheduler": SERVICE, **dict(zip(names, names, strict=True))}
    return [
        *(
            {"name": role, "services": [service], "scopes": SCOPES_OF_SERVICES[service]}
            for role, service in roles.items()
        ),
        {"name": "gpucommons-admin", "groups": [ADMIN_GROUP], "scopes": [ADMIN]},
    ]
