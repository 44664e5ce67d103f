"""Everything the pages are told from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import jinja2
from jupyterhub.services.auth import HubOAuth

from gpucommons.scheduler.client import AsyncSchedulerClient
from gpucommons.scheduler.languages.texts import gettext_noop

SERVICE_NAME = "gpucommons"
WRITES_OFF = gettext_noop(
    "Quotas and GPUs cannot be changed in the browser here: notebooks share this page's address,"
    " so a hostile notebook could act in your name. Set subdomain_host in JupyterHub, or"
    " allow_admin_writes where all users are trusted (scheduler.allowAdminWrites of the chart)."
    " The gpucommons command works meanwhile, on a cluster in the scheduler's pod."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PagesSettings:
    """Where the pages listen, whom they ask, and what browsers may change."""

    #: The scheduler's API: ``http://127.0.0.1:8900``.
    api_url: str
    #: The hub's internal API: ``http://127.0.0.1:8081/hub/api``.
    hub_api_url: str
    #: The service's own token: it only completes logins; all calls use the browser user's.
    hub_api_token: str
    #: Signs the login cookies; kept, so that a restart logs nobody out.
    cookie_secret: bytes
    #: 0 picks a free port.
    port: int = 0
    host: str = "127.0.0.1"
    #: A socket at which a scheduler that stands by passes on what reaches it; None = there is none.
    forwarded: Path | None = None
    prefix: str = "/services/gpucommons/"
    #: The hub's path as browsers see it.
    hub_prefix: str = "/hub/"
    #: Public address of the hub where ``subdomain_host`` is set; else empty.
    hub_host: str = ""
    oauth_client_id: str = "service-gpucommons"
    #: Notebook servers share the pages' origin unless ``subdomain_host`` is set, so a hostile
    #: notebook could act in an admin's name: writes need this statement or subdomains.
    allow_admin_writes: bool = False

    @property
    def admin_writes(self) -> bool:
        """Whether browsers may change quotas and reclaim GPUs."""
        return self.allow_admin_writes or bool(self.hub_host)

    @property
    def base_path(self) -> str:
        """The path of all that the hub's proxy leads to."""
        return self.hub_prefix.removesuffix("hub/")

    @property
    def hub_url(self) -> str:
        """The hub as links name it, with a slash at the end."""
        return self.hub_host + self.hub_prefix

    def lab_url(self, user: str, server_name: str) -> str:
        """Where a running notebook server is found; the hub knows the way."""
        if not server_name:
            return f"{self.hub_url}user-redirect/lab"
        return self.spawn_url(user, server_name)

    def spawn_url(self, user: str, server_name: str, query: str = "") -> str:
        """The hub's spawn page; a running server is only redirected to."""
        path = f"{self.hub_url}spawn"
        if server_name:
            path = f"{path}/{quote(user, safe='@~')}/{quote(server_name, safe='')}"
        return f"{path}?{query}" if query else path


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """What every handler is given."""

    settings: PagesSettings
    hub_auth: HubOAuth
    templates: jinja2.Environment
    #: Without a token: each request brings its own, not its own connections.
    scheduler: AsyncSchedulerClient
    #: UTC milliseconds.
    now_ms: Callable[[], int]


def new_hub_auth(settings: PagesSettings) -> HubOAuth:
    """The login of the pages: OAuth with the hub, answers cached for at most 30 s."""
    return HubOAuth(
        api_url=settings.hub_api_url,
        api_token=settings.hub_api_token,
        base_url=settings.prefix,
        hub_prefix=settings.hub_prefix,
        hub_host=settings.hub_host,
        oauth_client_id=settings.oauth_client_id,
        access_scopes={"access:services", f"access:services!service={SERVICE_NAME}"},
        cache_max_age=30,
    )
