"""The hub's page for a stopped server says why, what is kept, and nothing that is not known."""

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
from gpucommons.spawner.hub_pages import stopped_page
from gpucommons.spawner.hub_pages.addresses import Addresses
from gpucommons.spawner.hub_pages.stopped_page import Stopped, stopped, stopped_words

WHY = "Stopped at 14:02: idle 60 min."
KEPT = {
    "kernels": 2,
    "kernel_bytes": 1 << 30,
    "until_ms": 1,
    "text": "Your 2 kernels (1.0 GiB) are kept until 3 December.",
    "brief": "2 kernels (1.0 GiB), until 3 December.",
}
HALF = {"team": "vision", "pool": "gpu", "milli_gpu": 500}


def offers(
    *,
    availability: str = "free",
    last_end: str | None = WHY,
    kept: dict[str, Any] | None = None,
) -> OfferList:
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
    given: dict[str, Any] = {"user": "alice", "offers": [offer], "now_ms": 0, "last_end": last_end}
    given["kept"] = kept
    return OfferList.model_validate(given)


def test_it_says_why_what_is_kept_and_that_the_size_is_free() -> None:
    said = stopped_words(offers(), HALF, keeps_files=True)

    assert said.why == WHY
    assert said.kept == ("Saved files.",)
    assert said.lost == ("Its kernels and terminals ended with it: their variables are lost.",)
    assert (said.again, said.start) == ("½ GPU is free now.", "Start again on ½ GPU")


def test_what_is_not_known_to_be_kept_or_free_is_not_said() -> None:
    said = stopped_words(offers(availability="never"), HALF, keeps_files=False)

    assert (said.kept, said.again) == ((), "")


def test_a_size_that_waits_is_said_to_and_what_its_start_does() -> None:
    said = stopped_words(offers(availability="wait"), HALF, keeps_files=False)

    assert said.again == (
        "½ GPU is not free now. Starting again leads into the line for it: on your turn the notebook"
        " starts by itself."
    )


@pytest.mark.parametrize(
    ("last", "size"),
    [
        (HALF | {"ticket": "0" * 36, "profile": "small"}, "½ GPU"),
        ({"gpu_memory": "12 GiB"}, "12 GiB of GPU memory"),
        ({"milli_gpu": "many"}, ""),
        ({}, ""),
        ({"milli_gpu": 0}, "CPU"),
    ],
)
def test_the_size_is_named_where_the_last_choice_is_known(last: dict[str, Any], size: str) -> None:
    assert stopped_words(offers(), last, keeps_files=True).size == size


@pytest.mark.parametrize(
    ("given", "last"),
    [
        (None, HALF),
        (offers(last_end=None), HALF),
        # The end of an older server with a GPU is none of one that had no GPU.
        (offers(), {"milli_gpu": 0}),
    ],
)
def test_no_reason_is_said_where_none_is_known(
    given: OfferList | None, last: dict[str, Any]
) -> None:
    said = stopped_words(given, last, keeps_files=True)

    assert said.why == ""


@pytest.mark.parametrize("last", [HALF, {"milli_gpu": 0}])
def test_of_a_server_that_was_killed_nothing_is_called_lost_that_may_be_kept(
    last: dict[str, Any],
) -> None:
    """It told nobody, and its kernels saved themselves."""
    said = stopped_words(offers(last_end=None), last, keeps_files=True)
    assert said.kept == ("Saved files.",)
    assert said.lost == (
        "Its terminals ended with it. No kernel was reported as kept; those of a server that was"
        " killed may have saved themselves: its next start shows it.",
    )


def test_kernels_are_kept_only_where_that_was_reported() -> None:
    said = stopped_words(offers(kept=KEPT), HALF, keeps_files=True)

    assert said.kept == ("Saved files.", "2 kernels (1.0 GiB), until 3 December.")
    # Whether there were others it does not tell: nothing is called lost that may never have been.
    assert said.lost == ("Its terminals and other kernels, if there were any.",)


def test_of_kernels_whose_variables_are_kept_the_rest_is_lost() -> None:
    said = stopped_words(offers(kept=KEPT | {"variables": 2}), HALF, keeps_files=True)

    assert said.lost == (
        "All else of the kernels that are not kept whole; its terminals, if there were any.",
    )
    some = KEPT | {"variables": 2, "variables_lost": 3}
    (lost,) = stopped_words(offers(kept=some), HALF, keeps_files=True).lost
    assert lost.startswith("3 variables that could not be stored. All else of the kernels ")


@pytest.mark.parametrize("last", [HALF, {"milli_gpu": 0}])
async def test_who_stopped_it_themselves_reads_what_is_kept(
    last: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Spawner, "orm_spawner", SimpleNamespace(user_options=last))
    found = await page(offers(last_end=None, kept=KEPT))

    (shown,) = found.select('[role="status"]')
    assert shown.get_text(strip=True) == "Your 2 kernels (1.0 GiB) are kept until 3 December."
    # Lab says "Kept: " and "Not kept: " before it.
    kept = [one.get_text(strip=True) for one in found.select('[data-gpucommons="kept"]')]
    assert kept == ["Saved files.", "2 kernels (1.0 GiB), until 3 December."]
    (lost,) = found.select('[data-gpucommons="lost"]')
    assert lost.get_text(strip=True) == "Its terminals and other kernels, if there were any."


def test_of_who_never_started_nothing_is_said() -> None:
    assert stopped_words(offers(last_end=None), {}, keeps_files=True) == Stopped()


class Spawner:
    """As much of a spawner as the page asks."""

    scheduler_url = "http://scheduler"
    log = logging.getLogger("test")
    _log_name = "alice"
    orm_spawner = SimpleNamespace(user_options=HALF)

    def __init__(self, answer: OfferList | Exception | None) -> None:
        self.answer = answer

    def keeps_files(self) -> bool:
        return True

    async def offers(self) -> OfferList:
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


def user(answer: OfferList | Exception | None) -> Any:
    none = SimpleNamespace(options_form=None)
    return SimpleNamespace(spawners={"": Spawner(answer)}, name="alice", spawner=none)


async def test_a_scheduler_that_is_away_or_hangs_costs_the_page_only_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stopped_page, "_PATIENCE_S", 0.01)

    assert await stopped(user(Unavailable("away")), "") == Stopped(size="½ GPU")
    assert await stopped(user(None), "") == Stopped(size="½ GPU")


async def test_a_spawner_that_is_not_ours_is_left_alone() -> None:
    theirs = SimpleNamespace(spawners={"": SimpleNamespace()})

    assert await stopped(theirs, "") == Stopped()


async def page(answer: OfferList | Exception | None, **more: Any) -> BeautifulSoup:
    ours = FileSystemLoader(Path(gpucommons.spawner.__path__[0]) / "templates" / "hub")
    theirs = FileSystemLoader(Path(DATA_FILES_PATH) / "templates")
    loader = ChoiceLoader([ours, PrefixLoader({"templates": theirs}, "/"), theirs])
    environment = Environment(
        loader=loader, autoescape=True, extensions=[Addresses], enable_async=True
    )
    html = await environment.get_template("not_running.html").render_async(
        user=user(answer),
        server_name="",
        spawn_url="/hub/spawn/alice?next=%2Fuser%2Falice%2Flab",
        static_url=lambda path, **_: f"/static/{path}",
        version_hash=jupyterhub.__version__,
        base_url="/hub/",
        prefix="/",
        parsed_scopes={},
        xsrf_token="",
        logo_url="",
        login_url="",
        logout_url="",
        **more,
    )
    return BeautifulSoup(html, "html.parser")


async def test_the_hubs_page_has_it_for_people_and_for_a_lab_that_is_still_open() -> None:
    found = await page(offers())

    assert found.h1 is not None
    assert found.h1.get_text(strip=True) == "Your notebook server was stopped"
    said = {
        part["data-gpucommons"]: part.get_text(strip=True)
        for part in found.select("[data-gpucommons]")
    }
    assert said == {
        "why": WHY,
        "kept": "Saved files.",
        "lost": "Its kernels and terminals ended with it: their variables are lost.",
        "again": "½ GPU is free now.",
        "start": "Start again on ½ GPU",
    }
    start = found.select_one("#start")
    assert start is not None
    assert start["href"] == "/hub/spawn/alice?next=%2Fuser%2Falice%2Flab&opt-again=1"


async def test_where_the_last_choice_is_not_known_the_form_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Spawner, "orm_spawner", None)
    start = (await page(offers())).select_one("#start")

    assert start is not None
    assert start.get_text(strip=True) == "Start again"
    assert start["href"] == "/hub/spawn/alice?next=%2Fuser%2Falice%2Flab"


@pytest.mark.parametrize("more", [{}, {"failed": True, "failed_message": "No node."}])
async def test_where_nothing_is_known_or_a_start_failed_the_page_is_the_hubs_own(
    more: dict[str, Any],
) -> None:
    found = await page(offers() if more else offers(last_end=None), **more)

    said = {part["data-gpucommons"] for part in found.select("[data-gpucommons]:not([hidden])")}
    assert said == (set() if more else {"start", "again"})
    assert found.h1 is not None
    assert found.h1.get_text(strip=True) in {"Server not running", "Spawn failed"}


async def test_what_its_own_user_stopped_starts_again_with_one_press() -> None:
    found = await page(offers(last_end=None))

    links = [
        link for link in found.select("a") if link.get_text(strip=True) == "Start again on ½ GPU"
    ]
    assert found.select('[data-gpucommons="start"]') == links  # For a Lab that is still open.
    assert [link["href"] for link in links] == [
        "/hub/spawn/alice?next=%2Fuser%2Falice%2Flab&opt-again=1"
    ]
    # Below the page's heading, beside the way to the form.
    (heading,) = found.select("h1")
    assert links[0] in heading.find_all_next("a")
    (form,) = found.select("#start")
    assert form.get_text(strip=True) == "Another size…"
    assert form["href"] == "/hub/spawn/alice?next=%2Fuser%2Falice%2Flab"
