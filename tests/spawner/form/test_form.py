"""The form says what can be started now, in words, and can be sent without a script."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag

from gpucommons.scheduler.models import OfferList
from gpucommons.spawner.form.form import FormContext, build_form, render_form

NOW_MS = 1_800_000_003_000
OFFER: dict[str, Any] = {
    "team": "vision",
    "pool": "gpu",
    "gpu_kind": "A100-40",
    "fixed_milli_gpu": 2000,
    "fixed_used_milli_gpu": 1500,
    "isolation": "none",
    "simulated": True,
    "idle_after_min": 60,
    "sizes": [
        {"milli_gpu": 250, "memory_mib": 9933, "availability": "free", "text": "free now"},
        {"milli_gpu": 500, "memory_mib": 19866, "availability": "free", "text": "free now"},
        {
            "milli_gpu": 1000,
            "memory_mib": 39732,
            "availability": "wait",
            "text": "needs 1, vision has 0.5: wait in line, or ask your admin",
        },
        {
            "milli_gpu": 2000,
            "memory_mib": 79464,
            "availability": "never",
            "text": "needs 2; the largest notebook of vision is 1",
        },
    ],
}
CONTEXT = FormContext(
    environments=["Python 3.12", "PyTorch 2.15"],
    cpu_text="4 cores, 16 GiB",
    ticket_url="/services/gpucommons/ticket",
)


def page(
    offers: dict[str, Any] | None = None, context: FormContext = CONTEXT, **more: Any
) -> BeautifulSoup:
    model = None
    if offers is not None:
        model = OfferList.model_validate(
            {"user": "alice", "offers": [offers], "now_ms": NOW_MS - 3000, **more}
        )
    return BeautifulSoup(render_form(build_form(model, context, now_ms=NOW_MS)), "html.parser")


def card(soup: BeautifulSoup, value: str) -> Tag:
    found = soup.find("input", value=value)
    assert isinstance(found, Tag)
    return found


def words(soup: BeautifulSoup | Tag) -> str:
    return " ".join(soup.get_text(" ").split())


def test_the_quota_line_says_what_is_free_and_how_old_the_number_is() -> None:
    text = words(page(OFFER))
    assert "vision: ½ of 2 notebook GPUs free · updated 3 s ago" in text


def test_what_is_free_and_lent_to_training_is_said_to_be_both() -> None:
    size = {"milli_gpu": 1000, "memory_mib": 39732, "availability": "wait", "text": "lent"}
    lent = {**OFFER, "win_back_s": 20, "sizes": [{**size, "lent": True}]}
    said = "½ of 2 notebook GPUs free within 20 s: training borrows them until then · updated"
    assert said in words(page(lent))
    assert "training borrows" not in words(page({**lent, "sizes": [size]}))
    one_is_free = {**lent, "sizes": [*lent["sizes"], OFFER["sizes"][0]]}
    partly = "GPUs free, up to ¼ at once; training borrows the rest and gives it back within 20 s · updated"
    assert partly in words(page(one_is_free))


def test_free_sizes_can_be_chosen_and_others_say_why_not() -> None:
    soup = page(OFFER)
    half, whole = card(soup, "vision/gpu/500"), card(soup, "vision/gpu/1000")
    assert not half.has_attr("disabled")
    assert "½ A100-40 · 19.4 GiB free now" in words(half.find_next("label"))
    assert whole.has_attr("disabled")
    assert "needs 1, vision has 0.5: wait in line, or ask your admin" in words(
        whole.find_next("label")
    )


def test_a_size_that_would_wait_leads_to_the_line_and_one_that_never_fits_does_not() -> None:
    (button,) = page(OFFER).find_all("button", {"name": "wait"})
    assert (words(button), button["aria-label"]) == ("Wait in line", "Wait in line for 1 GPU")
    assert button["value"] == "vision/gpu/1000"
    # With all that is chosen in the form, a profile too.
    assert button["formaction"] == "/services/gpucommons/ticket/chosen"
    assert button["formmethod"] == "post", "an address with all fields would hold passwords, too"


def test_what_is_seconds_away_stands_out_where_nothing_starts_at_once() -> None:
    lent = [
        {"milli_gpu": size, "memory_mib": 9, "availability": "wait", "text": "lent", "lent": True}
        for size in (1000, 500)
    ]
    soon = {**OFFER, "win_back_s": 20, "sizes": lent}
    assert filled(page(soon)) == ["vision/gpu/500"]
    # That of the last start, else the usual one.
    whole = replace(CONTEXT, last={"milli_gpu": 1000})
    assert filled(page(soon, whole, usual_milli_gpu=500)) == ["vision/gpu/1000"]
    assert filled(page(soon, usual_milli_gpu=1000)) == ["vision/gpu/1000"]
    assert filled(page({**soon, "sizes": [*lent, OFFER["sizes"][0]]})) == []
    assert filled(page(OFFER)) == []


def test_what_is_lent_is_taken_back_by_its_own_button() -> None:
    lent = [{**size, "lent": size["availability"] == "wait"} for size in OFFER["sizes"]]
    (button,) = page({**OFFER, "sizes": lent}).find_all("button", {"name": "wait"})
    assert (words(button), button["aria-label"]) == ("Take it back", "Take it back for 1 GPU")


@pytest.mark.parametrize(
    ("last", "usual", "value"),
    [
        ({}, 500, "vision/gpu/500"),
        ({}, None, "vision/gpu/250"),
        # What cannot start now is not chosen for anybody.
        ({}, 1000, "vision/gpu/250"),
        # What was chosen for this server last says more than what is usual.
        ({"milli_gpu": 250}, 500, "vision/gpu/250"),
        ({"milli_gpu": 0}, 500, "cpu"),
    ],
)
def test_the_usual_size_is_chosen_and_named(
    last: dict[str, object], usual: int | None, value: str
) -> None:
    soup = page(OFFER, replace(CONTEXT, last=last), usual_milli_gpu=usual)
    (checked,) = soup.select("input[name=offer][checked]")
    assert checked["value"] == value
    assert words(soup).count("your usual size") == (usual is not None)


def filled(soup: BeautifulSoup) -> list[str]:
    return [str(button["value"]) for button in soup.select("button.gc-line.btn-primary")]


def test_the_line_of_a_named_server_is_that_servers() -> None:
    soup = page(OFFER, replace(CONTEXT, server_name="lab"))
    assert soup.find("button", value="vision/gpu/1000/lab")


def test_the_enter_key_starts_a_notebook_and_puts_nobody_in_line() -> None:
    first = page(OFFER).find("button")
    assert isinstance(first, Tag)
    assert not first.has_attr("formaction")


def checked(offer: dict[str, Any], last: dict[str, object] | None) -> list[str]:
    soup = page(offer, FormContext(last=last))
    return [str(one["value"]) for one in soup.find_all("input") if one.has_attr("checked")]


def test_what_was_started_last_is_chosen_again() -> None:
    half = {"milli_gpu": 500, "team": "vision", "pool": "gpu"}
    assert checked(OFFER, half) == ["vision/gpu/500"]
    assert checked(OFFER, {"milli_gpu": 0}) == ["cpu"]


def test_else_the_smallest_gpu_that_starts_now_is_chosen() -> None:
    assert checked(OFFER, None) == ["vision/gpu/250"]
    assert checked(OFFER, {}) == ["vision/gpu/250"]
    taken_meanwhile = {"milli_gpu": 1000, "team": "vision"}
    assert checked(OFFER, taken_meanwhile) == ["vision/gpu/250"]
    assert checked(OFFER | {"sizes": OFFER["sizes"][::-1]}, None) == ["vision/gpu/250"]


def test_else_cpu_is_chosen() -> None:
    assert checked(OFFER | {"sizes": OFFER["sizes"][2:]}, None) == ["cpu"]


def test_isolation_idle_rule_and_simulation_are_said() -> None:
    text = words(page(OFFER))
    assert "simulated" in text
    stops = "The notebook stops after 60 min without GPU use and without a running cell"
    assert f"{stops}." in text, "whether files stay is not known here"
    assert f"{stops}; saved files stay." in words(page(OFFER, FormContext(keeps_files=True)))
    assert "nothing isolates" not in text
    shared = FormContext(shared_account=True)
    assert "share one operating-system account: nothing isolates" in words(page(OFFER, shared))


def idle_words(soup: BeautifulSoup) -> dict[str, str]:
    """What may be chosen for an idle notebook, and what each says."""
    return {
        one["value"]: one.find_next("label").get_text()
        for one in soup.find_all("input", attrs={"name": "on_idle"})
    }


def test_what_becomes_of_it_when_idle_is_chosen_among_what_the_pool_allows() -> None:
    offer = OFFER | {"on_idle": ["release", "cull"]}
    soup = page(offer, FormContext(last={"on_idle": "cull"}))
    options = {one["value"]: one for one in soup.find_all("input", attrs={"name": "on_idle"})}
    assert list(options) == ["", "cull"], "the pool's rule is no second choice"
    assert [value for value, one in options.items() if one.has_attr("checked")] == ["cull"]
    assert idle_words(soup)[""] == "As the pool says: restart it without its GPU"


def test_who_chose_nothing_for_an_idle_notebook_leaves_it_to_the_pool() -> None:
    soup = page(OFFER | {"on_idle": ["release", "cull"]}, FormContext(last={"on_idle": "park"}))
    options = soup.find_all("input", attrs={"name": "on_idle"})
    assert [one["value"] for one in options if one.has_attr("checked")] == [""]


@pytest.mark.parametrize(
    ("keeps", "says"),
    [
        (True, "that can be saved go on"),
        (False, "cannot be saved here"),
        (None, "where kernels can be saved they go on at the next start, elsewhere at most"),
    ],
)
def test_kernels_are_promised_only_where_they_can_be_saved(keeps: bool | None, says: str) -> None:
    offer = OFFER | {"on_idle": ["hibernate", "cull"]}
    soup = page(offer, FormContext(may_keep_kernels=keeps))
    texts = idle_words(soup)
    assert says in texts[""]
    assert list(texts) == ["", "cull"]


def test_how_long_saved_kernels_stay_is_chosen_below_what_the_pool_allows() -> None:
    offer = OFFER | {"on_idle": ["hibernate", "cull"], "kernels_kept_days": 7}
    soup = page(offer, FormContext(last={"kernels_kept_days": 3}))

    field = soup.find("input", id="gpucommons-kept-days")
    assert field is not None
    assert (field["name"], field["value"]) == ("kernels_kept_days", "3")
    assert (
        "Remove saved kernels after days. Left empty, nothing changes: they stay as you chose before, or as long as is allowed (gpu: 7 days)."
    ) in words(soup)


@pytest.mark.parametrize(
    ("on_idle", "keeps"), [(["release", "cull"], True), (["hibernate", "cull"], False)]
)
def test_where_no_kernel_is_saved_no_time_is_asked_for(on_idle: list[str], keeps: bool) -> None:
    soup = page(OFFER | {"on_idle": on_idle}, FormContext(may_keep_kernels=keeps))
    assert soup.find("input", id="gpucommons-kept-days") is None


def test_an_idle_time_of_seconds_is_said_in_seconds() -> None:
    assert "stops after 90 s without" in words(page(OFFER | {"idle_after_s": 90}))
    assert "stops after 10 min 30 s without" in words(page(OFFER | {"idle_after_s": 630}))


@pytest.mark.parametrize(
    ("allowed", "says"),
    [
        (["hibernate"], ". The notebook stops after 60 min"),
        (["release"], ". The notebook restarts without its GPU after 60 min"),
        (["hibernate", "release"], ". Unless chosen otherwise, the notebook stops after 60 min"),
        (
            ["release", "cull"],
            ". Unless chosen otherwise, the notebook restarts without its GPU after 60 min",
        ),
    ],
)
def test_the_idle_rule_is_true_whatever_is_chosen(allowed: list[str], says: str) -> None:
    context = FormContext(last={"on_idle": "release"})
    assert says in words(page(OFFER | {"on_idle": allowed}, context))


@pytest.mark.parametrize("allowed", [[], ["cull"]])
def test_where_the_pool_leaves_no_choice_none_is_offered(allowed: list[str]) -> None:
    soup = page(OFFER | {"on_idle": allowed}, FormContext())
    assert soup.find("input", attrs={"name": "on_idle"}) is None


def test_a_stopped_notebook_says_when_and_why() -> None:
    text = words(page(OFFER, last_end="Stopped at 14:02: idle 60 min."))
    assert "Stopped at 14:02: idle 60 min." in text


def test_what_the_last_stop_kept_is_said() -> None:
    text = "Your 2 kernels (1.0 GiB) are kept until 3 December."
    kept = {"kernels": 2, "until_ms": 1, "text": text, "brief": ""}
    assert text in words(page(OFFER, kept=kept))


def test_without_a_scheduler_only_cpu_is_offered_and_it_says_so() -> None:
    soup = page(context=FormContext(problem="The GPU scheduler does not answer."))
    assert [one["value"] for one in soup.find_all("input")] == ["cpu"]
    assert "The GPU scheduler does not answer." in words(soup)


def test_without_quota_only_cpu_is_offered_and_it_says_so() -> None:
    none = OfferList.model_validate(
        {"user": "zoe", "offers": [], "teams": ["vision"], "now_ms": NOW_MS}
    )
    soup = BeautifulSoup(render_form(build_form(none, CONTEXT, now_ms=NOW_MS)), "html.parser")
    assert [one["value"] for one in soup.find_all("input")] == ["cpu"]
    assert "None of your teams has notebook GPUs" in words(soup)
    assert "Ask your admin for fixed quota." in words(soup)


def test_an_admin_without_quota_is_told_where_to_give_it() -> None:
    none = OfferList.model_validate(
        {"user": "root", "offers": [], "teams": ["ops"], "now_ms": NOW_MS}
    )
    form = build_form(none, FormContext(gives_quota=True), now_ms=NOW_MS)
    soup = BeautifulSoup(render_form(form), "html.parser")
    assert "Give a team of yours fixed quota under GPU Commons, above." in words(soup)


@pytest.mark.parametrize(
    ("gives_quota", "advice"),
    [
        (True, "Add yourself to one: to its members in the configuration"),
        (False, "Ask your admin to add you to one."),
    ],
)
def test_who_is_in_no_team_is_not_told_of_a_team_of_theirs(gives_quota: bool, advice: str) -> None:
    none = OfferList.model_validate({"user": "root", "offers": [], "now_ms": NOW_MS})
    form = build_form(none, FormContext(gives_quota=gives_quota), now_ms=NOW_MS)
    text = words(BeautifulSoup(render_form(form), "html.parser"))
    assert f"You are in no team, so only CPU can be started. {advice}" in text
    assert "team of yours" not in text


def test_a_waiting_ticket_is_shown_with_its_place() -> None:
    ticket = {
        "id": "0190aaaa-0000-7000-8000-000000000001",
        "user": "alice",
        "server_name": "",
        "team": "vision",
        "pool": "gpu",
        "state": "waiting",
        "milli_gpu": 1000,
        "position": 2,
        "requested_ms": 0,
        "since_ms": 0,
    }
    assert "You are 2nd in line for 1 GPU in vision." in words(page(OFFER, ticket=ticket))
    granted = ticket | {"state": "granted"}
    assert "It is your turn: 1 GPU in vision is kept" in words(page(OFFER, ticket=granted))


def test_nothing_that_others_wrote_becomes_markup() -> None:
    evil = '"><script>alert(1)</script>'
    offer = OFFER | {"team": evil, "gpu_kind": evil}
    offer["sizes"] = [OFFER["sizes"][2] | {"text": evil}]
    soup = page(
        offer, FormContext(environments=[evil], cpu_text=evil, server_name=evil), last_end=evil
    )
    assert soup.find("script") is None


def test_the_form_needs_no_script_and_every_choice_has_a_label() -> None:
    soup = page(OFFER)
    assert soup.find("script") is None
    assert not any(name.startswith("on") for tag in soup.find_all() for name in tag.attrs)
    for one in soup.find_all("input"):
        assert soup.find("label", attrs={"for": one["id"]}) is not None


def test_two_teams_have_a_section_each_and_one_choice_of_cpu() -> None:
    other = OFFER | {"team": "nlp"}
    model = OfferList.model_validate({"user": "alice", "offers": [OFFER, other], "now_ms": NOW_MS})
    soup = BeautifulSoup(render_form(build_form(model, CONTEXT, now_ms=NOW_MS)), "html.parser")
    assert [words(one) for one in soup.find_all("legend")] == [
        "GPU: vision in pool gpu simulated",
        "GPU: nlp in pool gpu simulated",
    ]
    assert len(soup.find_all("input", value="cpu")) == 1
