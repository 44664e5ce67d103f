"""Where browsers find the hub and its service: for the spawner's links, and for the hub's templates.

Below a base URL, or where services have hosts of their own, neither is where a path alone leads. What
else our templates must know of the hub is here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from jinja2 import Environment, pass_context
from jinja2.ext import Extension
from jinja2.runtime import Context
from jupyterhub.app import JupyterHub
from markupsafe import Markup

from gpucommons.scheduler.languages.chosen import language_of
from gpucommons.scheduler.languages.texts import ENGLISH, answer_in, language, of_template
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


def text(message: str, **values: object) -> Markup:
    """A text of a template of ours. Of its values everything is escaped."""
    found = Markup(of_template(message))  # noqa: S704 - of the catalogue, or of the template itself
    return found % values if values else found


def _in_its_language(function: Callable[..., Any]) -> Any:
    """What a template of the hub asks for, in the language of its page.

    The hub tells templates nothing of the request, but that whose method they link static files by.
    """

    @pass_context
    @wraps(function)
    def asked(context: Context, *arguments: Any, **values: Any) -> Any:
        handler = getattr(context.get("static_url"), "__self__", None)
        answer_in(ENGLISH if handler is None else language_of(handler))
        return function(*arguments, **values)

    return asked


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
            gpucommons_stopped=_in_its_language(stopped),
            gpucommons_notices=_in_its_language(notices),
            gpucommons_again=again_url,
            gpucommons_text=_in_its_language(text),
            gpucommons_language=_in_its_language(language),
        )
