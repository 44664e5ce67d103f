"""Where browsers find the hub and its service: for the spawner's links, and for the hub's templates.

Below a base URL, or where services have hosts of their own, neither is where a path alone leads. What
else our templates must know of the hub is here, too.
"""

from __future__ import annotations

from typing import Any

from jinja2 import Environment
from jinja2.ext import Extension
from jupyterhub.app import JupyterHub

from gpucommons.scheduler.models.hub_scopes import SERVICE
from gpucommons.spawner.form.start_again import again_url
from gpucommons.spawner.hub_pages.home_page import notices
from gpucommons.spawner.hub_pages.stopped_page import stopped


def pages_address(user: Any) -> str:
    """Where the hub's proxy has ticket page and GPU admin, below its base URL or on a subdomain."""
    settings = getattr(user, "settings", None) or {}
    service = settings.get("services", {}).get(SERVICE)
    if service is not None:
        return f"{service.host}{service.prefix}"
    return f"{settings.get('base_url', '/')}services/{SERVICE}/"


def hub_host() -> str:
    """The host of the hub's own pages; empty where everything shares one.

    The proxy shows the hub's page for a service that is away below the service's host.
    """
    hub = JupyterHub.instance().hub if JupyterHub.initialized() else None
    return str(getattr(hub, "public_host", "") or "")


def plain_logo() -> bool:
    """Whether the hub's pages show JupyterHub's own logo, whose dark letters need a light ground."""
    if not JupyterHub.initialized():
        return False
    hub = JupyterHub.instance()
    return bool(hub.logo_file == hub.trait_defaults("logo_file"))


class Addresses(Extension):
    """All of them, for templates.

    Not in ``template_vars``: who configures an announcement there replaces what was in it.
    """

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.globals.update(
            gpucommons_pages=pages_address,
            gpucommons_host=hub_host,
            gpucommons_plain_logo=plain_logo,
            gpucommons_stopped=stopped,
            gpucommons_notices=notices,
            gpucommons_again=again_url,
        )
