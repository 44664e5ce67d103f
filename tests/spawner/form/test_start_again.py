"""One press starts what was started last, and says so where it cannot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tornado.web import HTTPError

from gpucommons.scheduler.models import OfferList
from gpucommons.spawner.form.answers import BadOptions, NotebookOptions, parse_options
from gpucommons.spawner.form.form_mixin import read_start
from gpucommons.spawner.form.start_again import again_url, offered, options_of_last

LAST = {"milli_gpu": 500, "team": "vision", "pool": "gpu", "environment": "py", "profile": "small"}
TICKET = {"ticket": "0190aaaa-0000-7000-8000-000000000001"}


def spawner(last: dict[str, Any] | None) -> Any:
    stored = None if last is None else SimpleNamespace(user_options=last)
    return SimpleNamespace(
        orm_spawner=stored,
        read_form=lambda form: {"read": form},
        notebook_options=lambda raw: parse_options(raw, environments=["py"], others=["profile"]),
        scheduler_url="",
    )


async def read_again(one: Any, form: dict[str, Any]) -> dict[str, object]:
    found = read_start(one, form)
    assert isinstance(found, Awaitable)
    return await found


@pytest.mark.parametrize("name", ["again", "opt-again"])
async def test_the_last_options_are_taken_as_they_are_kept_but_for_the_place_in_line(
    name: str,
) -> None:
    found = await read_again(spawner({**LAST, **TICKET}), {name: ["1"], "_xsrf": ["token"]})

    assert found == LAST


def test_other_forms_are_read_as_ever() -> None:
    assert read_start(spawner(LAST), {"offer": ["cpu"]}) == {"read": {"offer": ["cpu"]}}


@pytest.mark.parametrize("last", [None, {}])
def test_who_never_started_anything_is_told_to_choose(last: dict[str, Any] | None) -> None:
    with pytest.raises(HTTPError) as caught:
        read_start(spawner(last), {"again": ["1"]})

    assert caught.value.status_code == 400
    assert "choose a size" in str(caught.value)


def test_something_else_besides_is_refused() -> None:
    with pytest.raises(BadOptions, match="leave out milli_gpu"):
        options_of_last({"again": ["1"], "opt-milli_gpu": ["1000"]}, LAST)


def test_the_link_keeps_where_its_reader_was_going() -> None:
    assert again_url("/hub/spawn/a?next=%2Flab") == "/hub/spawn/a?next=%2Flab&opt-again=1"
    assert again_url("/hub/spawn/a") == "/hub/spawn/a?opt-again=1"


OFFERS = "GET /v1/offers"
TAKE = "POST /v1/leases"
ID = TICKET["ticket"]
TICKET_VIEW = {
    "id": ID,
    "user": "alice",
    "server_name": "",
    "team": "vision",
    "pool": "gpu",
    "state": "waiting",
    "milli_gpu": 500,
    "requested_ms": 0,
    "since_ms": 0,
}
HALF = {"milli_gpu": 500, "team": "vision", "pool": "gpu", "on_idle": "cull"}


def lent(availability: str = "wait") -> dict[str, Any]:
    sizes = [
        {"milli_gpu": milli, "memory_mib": 40 * milli, "availability": availability, "text": "x"}
        for milli in (250, 500, 1000)
    ]
    offer = {
        "team": "vision",
        "pool": "gpu",
        "fixed_milli_gpu": 1000,
        "fixed_used_milli_gpu": 0,
        "sizes": sizes,
        "isolation": "none",
        "simulated": True,
    }
    return {"user": "alice", "offers": [offer], "now_ms": 0}


@pytest.fixture
def culled(make_spawner: Callable[..., Any], scheduler: Any) -> Any:
    """Alice's server no longer runs, and training borrowed its GPU; she presses on a page of the hub."""
    scheduler.answer(OFFERS, 200, lent())
    scheduler.answer(TAKE, 200, TICKET_VIEW)
    one = make_spawner()
    one.orm_spawner = SimpleNamespace(user_options=HALF, name="", server=None, state={})
    one.ticket_url = "/services/gpucommons/ticket"
    headers = {"Sec-Fetch-Site": "same-origin"}
    one.handler = SimpleNamespace(request=SimpleNamespace(headers=headers))
    return one


async def led(one: Any) -> str:
    with pytest.raises(HTTPError) as caught:
        await read_again(one, {"again": ["1"]})
    assert caught.value.status_code == 303
    return str(caught.value.headers["Location"])  # type: ignore[attr-defined]


async def test_what_is_lent_by_now_gets_a_ticket_and_its_page_is_shown(
    culled: Any, scheduler: Any
) -> None:
    assert await led(culled) == f"/services/gpucommons/ticket/{ID}"

    (asked,) = scheduler.bodies("/v1/leases")
    assert (asked["user"], asked["milli_gpu"], asked["on_idle"]) == ("alice", 500, "cull")


@pytest.mark.parametrize("said", ["cross-site", "same-site", None])
async def test_a_link_from_elsewhere_only_asks_and_puts_nobody_in_line(
    culled: Any, scheduler: Any, said: str | None
) -> None:
    culled.handler.request.headers = {} if said is None else {"Sec-Fetch-Site": said}

    assert await led(culled) == (
        "/services/gpucommons/ticket?team=vision&pool=gpu&milli_gpu=500&on_idle=cull"
    )
    assert TAKE not in scheduler.paths()


@pytest.mark.parametrize("availability", ["free", "never"])
async def test_no_line_is_where_the_start_itself_says_what_it_comes_to(
    culled: Any, scheduler: Any, availability: str
) -> None:
    scheduler.answer(OFFERS, 200, lent(availability))

    assert await read_again(culled, {"again": ["1"]}) == HALF


async def test_a_refused_ticket_is_told_with_its_sentence(culled: Any, scheduler: Any) -> None:
    scheduler.refuse(TAKE, 409, "PolicyRefused", "You hold a GPU already.")

    with pytest.raises(HTTPError) as caught:
        await read_again(culled, {"again": ["1"]})

    assert caught.value.status_code == 409
    # What JupyterHub shows; without it there would be "409 SpawnException(reason=…)" before it.
    assert caught.value.jupyterhub_message == "You hold a GPU already."  # type: ignore[attr-defined]


async def test_without_an_answer_of_the_scheduler_the_start_goes_on(
    culled: Any, scheduler: Any
) -> None:
    del scheduler.answers[OFFERS]

    assert await read_again(culled, {"again": ["1"]}) == HALF


def test_what_was_asked_by_memory_is_the_smallest_size_that_has_it() -> None:
    asked = NotebookOptions(gpu_memory_mib=12 << 10)
    found = offered(OfferList.model_validate(lent()), asked)
    assert found is not None
    assert found[1].milli_gpu == 500
    assert offered(OfferList.model_validate(lent()), NotebookOptions(milli_gpu=2000)) is None
