"""JupyterHub's home page says how a server ended, or where its user stands in line."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jupyterhub
import pytest
from bs4 import BeautifulSoup
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH

import gpucommons.spawner
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.models import OfferList
from gpucommons.spawner.hub_pages import home_page
from gpucommons.spawner.hub_pages.addresses import Addresses
from gpucommons.spawner.hub_pages.home_page import notices

WHY = "Stopped at 12:40: idle for 30 min."
HALF = {"team": "vision", "pool": "gpu", "milli_gpu": 500}
TICKET_ID = "0190aaaa-0000-7000-8000-000000000001"
TICKET = {
    "id": TICKET_ID,
    "user": "alice",
    "server_name": "",
    "team": "vision",
    "pool": "gpu",
    "state": "waiting",
    "milli_gpu": 500,
    "requested_ms": 0,
    "since_ms": 0,
    "position": 1,
    "forecast": {"made_ms": 0, "text": "Likely 10–25 min."},
}


def offers(*, availability: str = "free", **fields: Any) -> OfferList:
    size = {"milli_gpu": 500, "memory_mib": 9933, "availability": availability, "text": "a word"}
    offer = {
        "team": "vision",
        "pool": "gpu",
        "fixed_milli_gpu": 2000,
        "fixed_used_milli_gpu": 500,
        "sizes": [size],
        "isolation": "none",
        "simulated": True,
    }
    given = {"user": "alice", "offers": [offer], "now_ms": 0, "last_end": WHY}
    return OfferList.model_validate({**given, **fields})


class Spawner:
    """As much of a spawner as the page asks."""

    scheduler_url = "http://scheduler"
    ticket_url = "/services/gpucommons/ticket"
    log = logging.getLogger("test")
    _log_name = "alice"
    orm_spawner = SimpleNamespace(user_options=HALF)

    def __init__(
        self, answer: OfferList | Exception | None, *, name: str = "", active: bool = False
    ) -> None:
        self.answer, self.name, self.active = answer, name, active

    def keeps_files(self) -> bool:
        return True

    async def offers(self) -> OfferList:
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


def user(*spawners: Any) -> Any:
    by_name = {getattr(one, "name", ""): one for one in spawners}
    return SimpleNamespace(
        name="alice",
        escaped_name="alice",
        spawners=by_name,
        orm_user=SimpleNamespace(orm_spawners=by_name),
        spawner=SimpleNamespace(options_form=None),
    )


async def test_a_stopped_server_is_named_with_why_and_one_press_starts_it_again() -> None:
    (said,) = await notices(user(Spawner(offers())), "/hub/")

    assert said.text == WHY
    assert said.more == (
        "Kept: Saved files.",
        "Not kept: Its kernels and terminals ended with it: their variables are lost.",
        "½ GPU is free now.",
    )
    assert (said.label, said.link) == ("Start again on ½ GPU", "/hub/spawn/alice?opt-again=1")


async def test_what_is_kept_of_kernels_is_said_whoever_stopped_the_server() -> None:
    text = "Your 2 kernels (1.0 GiB) are kept until 3 December."
    kept = {"kernels": 2, "until_ms": 1, "text": text, "brief": "2 kernels, until 3 December."}
    (said,) = await notices(user(Spawner(offers(kept=kept))), "/hub/")
    assert "Kept: 2 kernels, until 3 December." in said.more
    (said,) = await notices(user(Spawner(offers(kept=kept, last_end=None))), "/hub/")
    assert said.more == (text, "½ GPU is free now.")


def never_started() -> Spawner:
    spawner = Spawner(offers(last_end=None))
    spawner.orm_spawner = SimpleNamespace(user_options={})
    return spawner


@pytest.mark.parametrize(
    ("last", "text", "label", "more"),
    [
        (HALF, "½ GPU", "½ GPU", ("½ GPU is free now.",)),
        ({"milli_gpu": 0}, "CPU", "CPU", ()),
    ],
)
async def test_what_its_own_user_stopped_starts_again_with_one_press(
    last: dict[str, Any], text: str, label: str, more: tuple[str, ...]
) -> None:
    spawner = Spawner(offers(last_end=None))
    spawner.orm_spawner = SimpleNamespace(user_options=last)
    (said,) = await notices(user(spawner), "/hub/")

    assert said.text == f"Not running. Last started on {text}."
    assert (said.more, said.label) == (more, f"Start again on {label}")
    assert said.link == "/hub/spawn/alice?opt-again=1"


async def test_a_named_server_is_named_and_what_is_not_free_is_not_said_to_be() -> None:
    lab2 = Spawner(offers(availability="wait"), name="lab2")
    (said,) = await notices(user(never_started(), lab2), "/hub/")

    assert (said.server_name, said.label) == ("lab2", "Start again on ½ GPU")
    assert said.link == "/hub/spawn/alice/lab2?opt-again=1"
    assert "½ GPU is free now." not in said.more


async def test_who_waits_reads_the_place_and_not_an_older_end() -> None:
    (said,) = await notices(user(Spawner(offers(ticket=TICKET))), "/hub/")

    assert said.text == "You are 1st in line for ½ GPU in vision."
    assert said.more == ("Likely 10–25 min.",)
    assert said.link == f"/services/gpucommons/ticket/{TICKET_ID}"
    (turn,) = await notices(user(Spawner(offers(ticket=TICKET | {"state": "granted"}))), "/hub/")
    assert turn.text == "It is your turn: ½ GPU in vision is kept for you."


async def test_nothing_is_said_of_what_runs_of_others_spawners_or_without_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(home_page, "_PATIENCE_S", 0.01)

    for one in (
        Spawner(offers(), active=True),
        SimpleNamespace(active=False),
        Spawner(Unavailable("away")),
        Spawner(None),
        never_started(),
    ):
        assert await notices(user(one), "/hub/") == ()


async def page(*spawners: Any) -> BeautifulSoup:
    ours = FileSystemLoader(Path(gpucommons.spawner.__path__[0]) / "templates" / "hub")
    theirs = FileSystemLoader(Path(DATA_FILES_PATH) / "templates")
    loader = ChoiceLoader([ours, PrefixLoader({"templates": theirs}, "/"), theirs])
    environment = Environment(
        loader=loader, autoescape=True, extensions=[Addresses], enable_async=True
    )
    html = await environment.get_template("home.html").render_async(
        user=user(*spawners),
        default_server=SimpleNamespace(active=False),
        url="/hub/spawn/alice",
        static_url=lambda path, **_: f"/static/{path}",
        version_hash=jupyterhub.__version__,
        base_url="/hub/",
        prefix="/",
        parsed_scopes={},
        xsrf_token="",
        logo_url="",
        login_url="",
        logout_url="",
    )
    return BeautifulSoup(html, "html.parser")


async def test_the_hubs_page_shows_it_above_its_own_buttons_and_escapes_it() -> None:
    found = await page(Spawner(offers(last_end="Stopped at 12:40: <b>x</b>.")))

    box = found.select_one("[data-gpucommons=notice]")
    assert box is not None
    assert "Stopped at 12:40: <b>x</b>." in box.get_text()
    link = box.select_one("a")
    assert link is not None
    assert link["href"] == "/hub/spawn/alice?opt-again=1"
    assert found.select_one("#start") is not None


async def test_where_there_is_nothing_to_say_the_page_is_the_hubs_own() -> None:
    found = await page(never_started())

    assert not found.select(".gc-narrow")
    # The page looks now and then: the script that does so comes with it.
    assert "NOW_AND_THEN_MS" in str(found)
    assert found.select_one("#start") is not None
