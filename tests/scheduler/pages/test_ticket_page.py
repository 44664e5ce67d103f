"""Waiting in line in a browser: ask first, wait, change one's mind."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup

from gpucommons.scheduler import models

TICKET = "ticket/0190aaaa-0000-7000-8000-000000000001"
NEXT = "0190aaaa-0000-7000-8000-00000000000f"


async def test_a_link_asks_before_it_puts_anybody_in_line(visit: Any, scheduler: Any) -> None:
    text = await (await visit("alice")).page("ticket?milli_gpu=1000&team=vision&pool=a100")

    assert "Wait for a notebook GPU in vision?" in text
    assert 'value="1000" required checked' in text
    assert text.count("free now") == 1
    assert scheduler.writes() == []


async def test_the_size_may_be_written_as_people_do(visit: Any) -> None:
    assert 'value="500" required checked' in await (await visit("alice")).page("ticket?size=½")


async def test_taking_a_ticket_leads_to_its_page(visit: Any, scheduler: Any) -> None:
    alice = await visit("alice")
    form = {
        "_xsrf": await alice.xsrf(),
        "milli_gpu": "1000",
        "team": "vision",
        "pool": "a100",
        "server_name": "",
        "environment": "python-3.12",
    }

    answer = await alice.post("ticket", data=form)

    assert answer.status_code == 303
    assert answer.headers["Location"] == f"/services/gpucommons/{TICKET}"
    assert scheduler.writes() == [
        (
            "POST",
            "/v1/leases",
            "token-alice",
            {
                "milli_gpu": 1000,
                "team": "vision",
                "pool": "a100",
                "server_name": "",
                "environment": "python-3.12",
            },
        )
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("milli_gpu", "0"),
        ("milli_gpu", "-5"),
        ("milli_gpu", "1e3"),
        ("milli_gpu", "9" * 30),
        ("team", "../admin"),
        ("pool", "<b>"),
        ("server_name", "a/b"),
        ("environment", "a\nb"),
        ("kernels_kept_days", "0"),
        ("kernels_kept_days", "366"),
        ("kernels_kept_days", "1.5"),
        ("kernels_kept_days", "9" * 5000),
    ],
)
async def test_a_wrong_field_is_refused_and_nothing_asked(
    visit: Any, scheduler: Any, field: str, value: str
) -> None:
    alice = await visit("alice")
    form = {"_xsrf": await alice.xsrf(), "milli_gpu": "1000", field: value}

    answer = await alice.post("ticket", data=form)

    assert answer.status_code == 422
    assert scheduler.writes() == []


async def test_what_else_was_chosen_in_the_hubs_form_goes_with_the_ticket(
    visit: Any, scheduler: Any
) -> None:
    alice = await visit("alice")
    chosen = {"profile": "big", "profile-option-big--image": "new & <b>"}
    chosen |= {"on_idle": "cull", "kernels_kept_days": "3"}
    link = {"wait": "vision/a100/1000/lab", "offer": "cpu", "environment": "torch"} | chosen

    form = link | {"_xsrf": "the hub's", "password": "hunter2", "display_name": "x"}
    answer = await alice.post("ticket/chosen", data=form)
    assert answer.status_code == 303
    assert "hunter2" not in answer.headers["Location"]
    page = await alice.get(answer.headers["Location"].removeprefix("/services/gpucommons/"))
    sent = {
        str(one["name"]): str(one["value"])
        for one in BeautifulSoup(page.text, "html.parser").select("form input")
        if one["type"] == "hidden" or one.has_attr("checked")
    }
    await alice.post("ticket", data=sent)

    [(_, _, _, body)] = scheduler.writes()
    assert body == {
        "milli_gpu": 1000,
        "team": "vision",
        "pool": "a100",
        "server_name": "lab",
        "environment": "torch",
        "on_idle": "cull",
        "kernels_kept_days": 3,
        "other_options": {"profile": ["big"], "profile-option-big--image": ["new & <b>"]},
    }
    assert "profile=big&amp;profile-option-big--image=new+%26+%3Cb%3E" in page.text


async def test_who_comes_from_the_hubs_form_logs_in_on_the_way(visit: Any, scheduler: Any) -> None:
    form = {"wait": "vision/a100/1000", "profile": "big", "password": "hunter2"}
    stranger = await visit(None)
    answer = await stranger.post("ticket/chosen", data=form)
    where = "ticket?wait=vision%2Fa100%2F1000&profile=big"
    assert answer.headers["Location"] == f"/services/gpucommons/{where}"
    login = (await stranger.get(where)).headers["Location"]
    assert "/hub/api/oauth2/authorize" in login
    assert scheduler.writes() == []


async def test_what_is_too_long_for_an_address_is_refused_in_words(visit: Any) -> None:
    form = {"wait": "vision/a100/1000", "profile": "x" * 9000}
    answer = await (await visit("alice")).post("ticket/chosen", data=form)
    assert answer.status_code == 422
    assert answer.text == (
        "What was chosen is too long to wait in line with: choose shorter values."
    )


async def press(visitor: Any, form: dict[str, str], origin: str) -> str:
    """*Wait in line* of the hub's form; where it leads, below the service."""
    answer = await visitor.post("ticket/chosen", data=form, headers={"Origin": origin})
    return str(answer.headers["Location"]).removeprefix("/services/gpucommons/")


async def test_who_pressed_the_button_of_the_hubs_form_is_not_asked_again(
    visit: Any, scheduler: Any
) -> None:
    alice = await visit("alice")
    where = await press(alice, {"wait": "vision/a100/1000/lab"}, alice.origin)

    answer = await alice.get(where)

    assert answer.headers["Location"] == f"/services/gpucommons/{TICKET}"
    [(_, _, _, body)] = scheduler.writes()
    assert (body["milli_gpu"], body["server_name"]) == (1000, "lab")
    # Once: to go back and load that address anew is a link again.
    assert "Wait for a notebook GPU in vision?" in await alice.page(where)
    assert len(scheduler.writes()) == 1


@pytest.mark.parametrize("origin", ["http://[", "http://a]b", "null", "https://elsewhere.example"])
async def test_a_press_from_nowhere_is_a_link(visit: Any, origin: str) -> None:
    stranger = await visit(None)
    form = {"wait": "vision/a100/1000"}
    answer = await stranger.post("ticket/chosen", data=form, headers={"Origin": origin})
    assert answer.status_code == 303
    assert "Set-Cookie" not in answer.headers


async def test_a_press_counts_for_its_own_address_alone(visit: Any, scheduler: Any) -> None:
    alice = await visit("alice")
    await press(alice, {"wait": "vision/a100/500"}, alice.origin)

    text = await alice.page("ticket?wait=vision/a100/1000")

    assert "Wait for a notebook GPU in vision?" in text
    assert scheduler.writes() == []


HUB = "https://hub.example"


async def test_a_notebook_below_the_hubs_host_cannot_press_for_its_visitors(
    visit: Any, scheduler: Any
) -> None:
    eve, alice = await visit("lead", hub_host=HUB), await visit("alice", hub_host=HUB)
    form = {"wait": "vision/a100/1000"}
    answer = await eve.post("ticket/chosen", data=form, headers={"Origin": HUB})
    [cookie] = answer.headers.get_list("Set-Cookie")
    # What a browser takes of nobody but the host itself.
    assert cookie.startswith("__Host-gpucommons-pressed=")
    assert {"Secure", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie

    name, value = cookie.split("; ")[0].split("=", 1)
    for known_as in (name.removeprefix("__Host-"), name.lower()):
        alice.cookies.set(known_as, value)
    where = answer.headers["Location"].removeprefix("/services/gpucommons/")
    assert "Wait for a notebook GPU in vision?" in await alice.page(where)
    alice.cookies.set(name, value)
    assert (await alice.get(where)).status_code == 303
    assert len(scheduler.writes()) == 1


async def test_where_a_browser_cannot_tell_hosts_apart_everybody_is_asked(visit: Any) -> None:
    alice = await visit("alice", hub_host="http://hub.example")
    form = {"wait": "vision/a100/1000"}
    answer = await alice.post("ticket/chosen", data=form, headers={"Origin": "http://hub.example"})
    assert answer.status_code == 303
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null", ""])
async def test_a_form_of_somebody_elses_page_only_leads_to_the_question(
    visit: Any, scheduler: Any, origin: str
) -> None:
    alice = await visit("alice")
    where = await press(alice, {"wait": "vision/a100/1000"}, origin)

    assert "Wait for a notebook GPU in vision?" in await alice.page(where)
    assert scheduler.writes() == []


async def test_who_waits_already_is_told_before_another_place_is_taken(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    scheduler.answers["GET /v1/offers"] = cluster.offers(ticket=cluster.lease())
    alice = await visit("alice")
    where = await press(alice, {"wait": "vision/a100/500"}, alice.origin)

    assert "You are in line already, for 1 GPU in vision" in await alice.page(where)
    assert scheduler.writes() == []


async def test_an_old_link_puts_no_secret_of_a_form_into_a_ticket(visit: Any) -> None:
    alice = await visit("alice")
    page = await alice.page("ticket?wait=vision/a100/1000&password=hunter2&display_name=x")
    assert "hunter2" not in page
    assert "display_name" not in page


@pytest.mark.parametrize("path", ["take", "cpu"])
async def test_a_change_of_mind_keeps_what_else_was_chosen(
    visit: Any, scheduler: Any, cluster: Any, path: str
) -> None:
    chosen = cluster.lease(other_options={"profile": ["big"]})
    scheduler.answers["GET /v1/leases/.*"] = chosen
    scheduler.answers["POST /v1/leases/.*/end"] = chosen.model_copy(update={"state": "ended"})
    alice = await visit("alice")
    form = {"_xsrf": await alice.xsrf(), "milli_gpu": "500"}

    answer = await alice.post(f"{TICKET}/{path}", data=form)

    [(_, _, _, body)] = scheduler.writes()
    asked = body.get("other_options", {})
    assert ("profile=big" in answer.headers["Location"]) or asked == {"profile": ["big"]}


@pytest.mark.parametrize("wait", ["vision", "a/b/c/d/e", "vision/a100/half"])
async def test_a_card_that_is_none_is_refused(visit: Any, wait: str) -> None:
    assert (await (await visit("alice")).get("ticket", params={"wait": wait})).status_code == 422


async def test_no_size_is_refused(visit: Any, scheduler: Any) -> None:
    alice = await visit("alice")

    answer = await alice.post("ticket", data={"_xsrf": await alice.xsrf()})

    assert answer.status_code == 422
    assert "Choose a size first." in answer.text


async def test_who_waits_already_is_led_to_their_ticket(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    scheduler.answers["GET /v1/offers"] = cluster.offers(ticket=cluster.lease())
    alice = await visit("alice")

    plain = await alice.get("ticket")
    other = await alice.page("ticket?size=½")

    assert plain.headers["Location"] == f"/services/gpucommons/{TICKET}"
    assert "You are in line already, for 1 GPU in vision" in other


async def test_who_has_no_team_is_told(visit: Any, scheduler: Any, cluster: Any) -> None:
    scheduler.answers["GET /v1/offers"] = cluster.offers().model_copy(update={"offers": []})

    text = await (await visit("alice")).page("ticket?size=1")

    assert "No notebook GPU to wait for" in text
    assert "for a GPU, ask your admin for fixed quota." in text
    assert "/hub/spawn?milli_gpu=0" in text


async def test_an_admin_in_no_team_is_not_sent_to_an_admin(
    visit: Any, scheduler: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = cluster.USERS["token-admin"].model_copy(update={"teams": []})
    monkeypatch.setitem(cluster.USERS, "token-admin", nobody)
    scheduler.answers["GET /v1/offers"] = cluster.offers().model_copy(update={"offers": []})
    none_of_mine = [one.model_copy(update={"mine": False}) for one in cluster.teams().teams]
    scheduler.answers["GET /v1/teams"] = cluster.models.TeamList(teams=none_of_mine)
    admin = await visit("admin")

    for path in ("", "ticket?size=1"):
        text = await admin.page(path)
        assert "add yourself" in text.lower()
        assert "ask your admin" not in text.lower()


async def test_the_page_says_what_the_sketch_says(visit: Any, scheduler: Any, cluster: Any) -> None:
    likely = models.ForecastView(
        made_ms=cluster.NOW,
        from_ms=600_000,
        to_ms=1_500_000,
        right_of_ten=8,
        text="Likely 10–25 min (past estimates right 8 of 10).",
    )
    scheduler.answers["GET /v1/leases/.*"] = cluster.lease(forecast=likely)
    text = await (await visit("alice")).page(TICKET)

    for words in (
        "Not enough of a notebook GPU is free in vision",
        "You asked for 1 × A100-40 at",
        "You may close this page: on your turn the notebook starts by itself.",
        "Likely 10–25 min (past estimates right 8 of 10).",
        'x="52%" width="28%"',
        "vision holds 2 of its 2 fixed GPUs:",
        "user-b · ½ · idle about 41 min, returned after 60 min",
        "Keep waiting",
        "Take ½",
        "CPU now: moving to a GPU later restarts the notebook.",
        "Leave the line",
        "simulated GPUs",
    ):
        assert words in text


async def test_who_has_just_come_into_line_reads_the_likely_start_at_the_first_load(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    likely = models.ForecastView(
        made_ms=cluster.NOW, from_ms=600_000, to_ms=1_500_000, text="Likely 10–25 min."
    )
    answers = iter([cluster.lease(forecast=None)])
    worked_out = cluster.lease(forecast=likely)
    scheduler.answers["GET /v1/leases/.*"] = lambda _: next(answers, worked_out)

    text = await (await visit("alice")).page(TICKET)

    assert "Likely 10–25 min." in text
    assert "No likely start is known yet." not in text


async def test_a_ticket_without_a_forecast_draws_none(visit: Any) -> None:
    text = await (await visit("alice")).page(TICKET)

    assert "Likely" not in text
    assert "data-likely hidden" in text


async def test_an_admin_sees_the_ticket_but_does_not_act_in_its_owners_place(visit: Any) -> None:
    text = await (await visit("admin")).page(TICKET)

    assert "Not enough of a notebook GPU is free in vision" in text
    assert "Leave the line" not in text


async def test_the_state_for_scripts_is_what_the_page_shows(visit: Any) -> None:
    state = (await (await visit("alice")).get(f"{TICKET}/state")).json()

    assert (state["phase"], state["place"], state["place_suffix"]) == ("waiting", "1", "st")
    assert state["take"] == {"milli_gpu": 500, "label": "Take ½"}
    assert state["holders"][0]["frees"] == "frees ½"


@pytest.mark.parametrize(
    ("server_name", "url"),
    [("", "/hub/user-redirect/lab"), ("lab2", "/hub/spawn/alice/lab2")],
)
async def test_a_running_notebook_is_followed(
    visit: Any, scheduler: Any, cluster: Any, server_name: str, url: str
) -> None:
    scheduler.answers["GET /v1/leases/.*"] = cluster.lease(state="active", server_name=server_name)

    state = (await (await visit("alice")).get(f"{TICKET}/state")).json()

    assert (state["phase"], state["follow"]) == ("running", url)


async def test_taking_a_smaller_size_asks_again_with_the_same_options(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    scheduler.answers["GET /v1/leases/.*"] = cluster.lease(environment="torch")
    scheduler.answers["POST /v1/leases"] = cluster.lease(id=NEXT, milli_gpu=500)
    alice = await visit("alice")

    answer = await alice.post(
        f"{TICKET}/take", data={"_xsrf": await alice.xsrf(), "milli_gpu": "500"}
    )

    assert answer.headers["Location"] == f"/services/gpucommons/ticket/{NEXT}"
    assert scheduler.writes()[0][3] == {
        "milli_gpu": 500,
        "team": "vision",
        "pool": "a100",
        "server_name": "",
        "environment": "torch",
    }


@pytest.mark.parametrize("size", ["1000", "0", "-1", "½", "x", "²", "9" * 5000])
async def test_only_a_smaller_size_keeps_the_place(visit: Any, scheduler: Any, size: str) -> None:
    alice = await visit("alice")

    answer = await alice.post(
        f"{TICKET}/take", data={"_xsrf": await alice.xsrf(), "milli_gpu": size}
    )

    assert answer.status_code == 422
    assert scheduler.writes() == []


async def test_a_team_mate_reads_whose_ticket_it_is_and_has_no_buttons_of_it(visit: Any) -> None:
    text = await (await visit("lead")).page(TICKET)

    assert "alice asked for 1 × A100-40" in text
    assert "You asked" not in text
    assert "Wait in line again" not in text


@pytest.mark.parametrize("path", ["take", "cpu"])
@pytest.mark.parametrize("who", ["lead", "admin"])
async def test_nobody_goes_on_with_what_somebody_else_chose(
    visit: Any, scheduler: Any, who: str, path: str
) -> None:
    other = await visit(who)

    answer = await other.post(
        f"{TICKET}/{path}", data={"_xsrf": await other.xsrf(), "milli_gpu": "500"}
    )

    assert answer.status_code == 403
    assert "This is a ticket of alice&#39;s: take one of your own." in answer.text
    assert scheduler.writes() == []


async def test_a_ticket_that_no_longer_waits_is_not_changed(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    scheduler.answers["GET /v1/leases/.*"] = cluster.lease(state="granted")
    alice = await visit("alice")

    answer = await alice.post(
        f"{TICKET}/take", data={"_xsrf": await alice.xsrf(), "milli_gpu": "500"}
    )

    assert answer.status_code == 409
    assert scheduler.writes() == []


def blocked(cluster: Any, action: str | None = "release", holder: str = NEXT) -> Any:
    blocker = models.BlockerView(
        kind="idle-notebook",
        text="Your own notebook “plots”, idle when last checked, holds 1 GPU: without that this would start now.",
        action=action,
        id=holder,
    )
    reason = models.ReasonView(code="share", text="All are held.", blocker=blocker)
    return cluster.lease(reason=reason)


async def test_what_alone_is_in_the_way_is_named_with_its_button(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    scheduler.answers["GET /v1/leases/.*"] = blocked(cluster)
    scheduler.answers["POST /v1/leases/.*/drop"] = cluster.lease(id=NEXT, state="active")
    alice = await visit("alice")
    text = await alice.page(TICKET)
    assert (
        "Your own notebook “plots”, idle when last checked, holds 1 GPU: without that this would start now."
        in text
    )
    assert "Release it</button>" in text

    form = {"_xsrf": await alice.xsrf(), "holder": NEXT}
    answer = await alice.post(f"{TICKET}/unblock", data=form)

    assert answer.status_code == 303
    assert scheduler.writes()[0][1] == f"/v1/leases/{NEXT}/drop"


@pytest.mark.parametrize(
    ("offered", "status"), [(("release", TICKET[-36:]), 409), ((None, NEXT), 403)]
)
async def test_what_is_not_offered_is_not_given_up(
    visit: Any, scheduler: Any, cluster: Any, offered: tuple[str | None, str], status: int
) -> None:
    scheduler.answers["GET /v1/leases/.*"] = blocked(cluster, *offered)
    alice = await visit("alice")

    form = {"_xsrf": await alice.xsrf(), "holder": NEXT}
    answer = await alice.post(f"{TICKET}/unblock", data=form)

    assert answer.status_code == status
    assert scheduler.writes() == []


async def test_nobody_gives_up_what_is_in_anothers_way(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    scheduler.answers["GET /v1/leases/.*"] = blocked(cluster)
    lead = await visit("lead")
    form = {"_xsrf": await lead.xsrf(), "holder": NEXT}
    assert (await lead.post(f"{TICKET}/unblock", data=form)).status_code == 403
    assert scheduler.writes() == []


async def test_leaving_the_line_ends_the_ticket_and_says_so(visit: Any, scheduler: Any) -> None:
    alice = await visit("alice")

    answer = await alice.post(f"{TICKET}/leave", data={"_xsrf": await alice.xsrf()})

    assert scheduler.writes()[0][1].endswith("/end")
    assert scheduler.writes()[0][3]["why"] == "left"
    assert "You left the line." in await alice.page(answer.headers["Location"])


async def test_cpu_now_ends_the_ticket_and_starts_without_gpu(visit: Any, scheduler: Any) -> None:
    alice = await visit("alice")

    answer = await alice.post(f"{TICKET}/cpu", data={"_xsrf": await alice.xsrf()})

    assert answer.headers["Location"] == "/hub/spawn?milli_gpu=0"
    assert scheduler.writes()[0][3]["why"] == "left"


async def test_a_refused_end_keeps_the_user_here(visit: Any, scheduler: Any, cluster: Any) -> None:
    scheduler.answers["POST /v1/leases/.*/end"] = cluster.errors.InvalidTransition("It ended.")
    alice = await visit("alice")

    answer = await alice.post(f"{TICKET}/cpu", data={"_xsrf": await alice.xsrf()})

    assert answer.status_code == 409
    assert "It ended." in answer.text
