"""The options form and the hub's other pages of ours in their reader's language."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import DictLoader, Environment, PackageLoader, PrefixLoader

from gpucommons.scheduler.errors import Unreachable
from gpucommons.scheduler.languages.texts import language, spoken
from gpucommons.scheduler.models import OfferList
from gpucommons.spawner.form.form import FormContext, build_form, render_form
from gpucommons.spawner.form.form_mixin import options_form
from gpucommons.spawner.hub_pages.addresses import Addresses
from tests.scheduler.languages.left_in_english import left_in_english
from tests.spawner.form.test_form import CONTEXT, NOW_MS, OFFER
from tests.spawner.form.test_without_offers import Spawner

LENT = [{**size, "lent": size["availability"] == "wait"} for size in OFFER["sizes"]]
KEPT = {**OFFER, "on_idle": ["hibernate", "park", "release", "cull"], "kernels_kept_days": 7}
TICKET = {
    "id": "0190aaaa-0000-7000-8000-000000000001",
    "user": "alice",
    "server_name": "",
    "team": "vision",
    "pool": "gpu",
    "milli_gpu": 500,
    "requested_ms": 0,
    "since_ms": 0,
}
WAITING = {**TICKET, "state": "waiting", "position": 2}
ALL = FormContext(
    environments=["Python 3.12"],
    ticket_url="/services/gpucommons/ticket",
    shared_account=True,
    keeps_files=True,
)


def asked_in(accepted: str, cookie: str = "") -> Any:
    """The hub's handler of a request."""
    return SimpleNamespace(
        get_cookie=lambda _name, _default="": cookie,
        request=SimpleNamespace(headers={"Accept-Language": accepted}),
        static_url=None,
    )


@pytest.mark.parametrize(
    ("offers", "context", "more"),
    [
        ([OFFER], CONTEXT, {"usual_milli_gpu": 250, "ticket": WAITING}),
        ([KEPT, {**OFFER, "pool": "big", "on_idle": ["park"]}], ALL, {}),
        ([{**OFFER, "sizes": LENT, "win_back_s": 20, "on_idle": ["release"]}], ALL, {}),
        ([{**KEPT, "sizes": LENT[2:3], "win_back_s": 20}], ALL, {"ticket": {**TICKET, "state": "granted"}}),
        ([], ALL, {"teams": ["vision"]}),
        ([], ALL, {}),
    ],
    ids=["sizes", "two pools", "lent", "kept, granted", "no quota", "no team"],
)  # fmt: skip
def test_nothing_of_the_form_stays_english(
    offers: list[Any], context: FormContext, more: dict[str, Any]
) -> None:
    given = {"user": "alice", "offers": offers, "now_ms": NOW_MS - 3000, **more}
    with spoken("de"):
        page = render_form(build_form(OfferList.model_validate(given), context, now_ms=NOW_MS))

    assert 'class="gpucommons" lang="de"' in page
    assert left_in_english(page) == set()
    ours = re.sub(
        r'<(\w+)[^>]* lang="en"[^>]*>.*?</\1>|<style>.*?</style>', "", page, flags=re.DOTALL
    )
    ours = re.sub(r"<[^>]+>", " ", ours)
    assert not re.search(r"\b(the|free|within|notebook GPUs|line for|without)\b", ours), ours


async def test_the_form_is_in_the_language_that_the_browser_asks_for_or_that_was_chosen() -> None:
    spawner = Spawner(Unreachable(), scheduler_url="http://scheduler")
    for handler, said in (
        (asked_in("de-AT,en;q=0.8"), "antwortet nicht"),
        (asked_in("en", cookie="de"), "antwortet nicht"),
        (asked_in("de", cookie="en"), "does not answer"),
        (asked_in("fr"), "does not answer"),
    ):
        spawner.handler = handler
        assert said in await options_form(spawner)
    assert language() == "en", "the hub's task goes on as it was"


async def test_a_form_that_is_shown_again_after_a_refusal_stays_in_its_language() -> None:
    """The hub forgets its handler at the end of a start, also of one that was refused."""
    spawner = Spawner(Unreachable(), scheduler_url="http://scheduler", handler=asked_in("de"))
    await options_form(spawner)
    spawner.handler = None
    assert "antwortet nicht" in await options_form(spawner)


class Handler:
    """As the hub hands its way to static files to templates."""

    def __init__(self, accepted: str) -> None:
        self.request = SimpleNamespace(headers={"Accept-Language": accepted})

    def get_cookie(self, _name: str, default: str | None = None) -> str | None:
        return default

    def static_url(self, path: str) -> str:
        return path


@pytest.mark.parametrize(
    ("accepted", "said"),
    [("de", '<h1 class="h3" lang="de">Notebook starten</h1>'),
     ("en", '<h1 class="h3" lang="en">Start a notebook</h1>')],
)  # fmt: skip
async def test_templates_of_the_hub_speak_the_language_of_their_page(
    accepted: str, said: str
) -> None:
    theirs = "{% block heading %}{% endblock %}{% block script %}{% endblock %}"
    loader = PrefixLoader(
        {
            "templates": DictLoader({"spawn.html": theirs}),
            "ours": PackageLoader("gpucommons.spawner", "templates/hub"),
        }
    )
    hub = Environment(loader=loader, autoescape=True, extensions=[Addresses], enable_async=True)
    page = await hub.get_template("ours/spawn.html").render_async(
        static_url=Handler(accepted).static_url
    )
    assert said in page
