"""Links of the hub lead to the service, below a base URL and on a subdomain too."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import DictLoader, Environment, PackageLoader, PrefixLoader
from jupyterhub.app import JupyterHub
from jupyterhub.services.service import Service

from gpucommons.scheduler.models.hub_scopes import SERVICE
from gpucommons.spawner.hub_pages import addresses
from gpucommons.spawner.hub_pages.addresses import Addresses

SUBDOMAIN = "https://gpucommons--service.hub.example:8123"


def settings(base_url: str, host: str = "") -> dict[str, Any]:
    service = Service(name=SERVICE, base_url=base_url, host=host)
    return {"base_url": base_url, "services": {SERVICE: service}}


def templates(hubs_own: DictLoader) -> Environment:
    ours = PackageLoader("gpucommons.spawner", "templates/hub")
    loader = PrefixLoader({"templates": hubs_own, "ours": ours})
    return Environment(loader=loader, autoescape=True, extensions=[Addresses])


@pytest.mark.parametrize(
    ("of_the_hub", "address"),
    [
        (settings("/"), "/services/gpucommons/"),
        (settings("/jupyter/"), "/jupyter/services/gpucommons/"),
        (settings("/", SUBDOMAIN), f"{SUBDOMAIN}/services/gpucommons/"),
        ({"base_url": "/jupyter/"}, "/jupyter/services/gpucommons/"),
        ({}, "/services/gpucommons/"),
    ],
)
def test_people_wait_in_line_where_the_hub_has_its_service(
    make_spawner: Callable[..., Any], of_the_hub: dict[str, Any], address: str
) -> None:
    spawner = make_spawner()
    spawner.user.settings = of_the_hub
    assert spawner.ticket_url == f"{address}ticket"


@pytest.mark.parametrize(
    ("user", "address"),
    [
        (SimpleNamespace(settings=settings("/jupyter/")), "/jupyter/services/gpucommons/"),
        (
            SimpleNamespace(settings=settings("/jupyter/", SUBDOMAIN)),
            f"{SUBDOMAIN}/jupyter/services/gpucommons/",
        ),
    ],
)
def test_the_navigation_bar_leads_to_the_pages(user: Any, address: str) -> None:
    hubs_own = DictLoader({"page.html": "{% block nav_bar_left_items %}{% endblock %}"})
    page = templates(hubs_own).get_template("ours/page.html")
    text = page.render(user=user, prefix="/jupyter/", base_url="/jupyter/hub/")
    assert f'href="{address}"' in text
    assert f'href="{address}docs"' in text


@pytest.mark.parametrize("own", [False, True])
def test_in_the_dark_jupyterhubs_logo_is_made_light_and_a_hubs_own_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    running = JupyterHub(logo_file="/own.png") if own else JupyterHub()
    hub = SimpleNamespace(initialized=lambda: True, instance=lambda: running)
    monkeypatch.setattr(addresses, "JupyterHub", hub)
    hubs_own = DictLoader({"page.html": "{% block logo %}<img>{% endblock %}"})
    text = templates(hubs_own).get_template("ours/page.html").render(user=None)
    assert "<img>" in text
    assert ("invert(1)" in text) is not own


@pytest.mark.parametrize("host", ["", "https://hub.example:8123"])
def test_from_a_page_on_the_services_host_the_way_home_leads_to_the_hub(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    running = SimpleNamespace(hub=SimpleNamespace(public_host=host))
    hub = SimpleNamespace(initialized=lambda: True, instance=lambda: running)
    monkeypatch.setattr(addresses, "JupyterHub", hub)
    hubs_own = DictLoader(
        {"error.html": "{% block error_detail %}{% endblock %}{% block script %}{% endblock %}"}
    )
    page = templates(hubs_own).get_template("ours/503.html")
    text = page.render(prefix="/jupyter/", base_url="/jupyter/hub/")
    assert f'href="{host}/jupyter/hub/home"' in text
