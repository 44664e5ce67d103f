"""What the ticket page says in each state."""

from __future__ import annotations

from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.pages.present.ticket import (
    LikelyBar,
    Take,
    Viewer,
    choices,
    offer_for,
    ticket_state,
)

LAB = "/hub/user-redirect/lab"


def _state(
    cluster: Any, ticket: Any, leases: Any = (), offer: Any = None, me: str = "alice"
) -> Any:
    viewer = Viewer(name=me, follow_url=LAB)
    return ticket_state(ticket, leases, offer, now_ms=cluster.NOW, viewer=viewer)


def test_a_waiting_ticket_shows_place_reason_and_what_was_asked(cluster: Any) -> None:
    state = _state(cluster, cluster.lease())

    assert (state.place, state.place_suffix) == ("1", "st")
    assert state.headline == "No notebook GPU is free in vision"
    assert state.asked == "1 × A100-40"
    assert state.note == ("You may close this page: on your turn the notebook starts by itself.")
    assert state.reason == "vision holds all of its 2 fixed GPUs."
    assert state.follow is None


def test_a_ticket_says_when_it_is_likely_its_turn(cluster: Any) -> None:
    likely = models.ForecastView(
        made_ms=cluster.NOW,
        from_ms=600_000,
        to_ms=1_500_000,
        right_of_ten=8,
        text="Likely 10–25 min (past estimates right 8 of 10).",
    )
    state = _state(cluster, cluster.lease(forecast=likely))

    assert state.likely == "Likely 10–25 min (past estimates right 8 of 10)."
    # Asked 18 minutes ago; the line ends a quarter of the whole wait after the window.
    minute = 60_000
    assert state.likely_bar == LikelyBar(
        now=33,
        left=52,
        width=28,
        from_ms=cluster.NOW + 10 * minute,
        to_ms=cluster.NOW + 25 * minute,
    )


def test_a_window_of_no_length_is_still_drawn(cluster: Any) -> None:
    now = models.ForecastView(made_ms=cluster.NOW, from_ms=0, to_ms=0, text="Likely now.")

    drawn = _state(cluster, cluster.lease(forecast=now)).likely_bar

    assert drawn is not None
    assert (drawn.now, drawn.left, drawn.width) == (80, 80, 2)


def test_an_unknown_start_is_said_and_not_drawn(cluster: Any) -> None:
    unknown = models.ForecastView(
        made_ms=cluster.NOW, unknown="history", text="Likely start unknown: too little is known."
    )
    state = _state(cluster, cluster.lease(forecast=unknown))

    assert (state.likely, state.likely_bar) == ("Likely start unknown: too little is known.", None)
    granted = _state(cluster, cluster.lease(state="granted", forecast=unknown))
    assert (granted.likely, granted.likely_bar) == ("", None)


def test_holders_are_listed_idle_ones_first(cluster: Any) -> None:
    leases = [
        cluster.holder("user-c", 1000),
        cluster.holder("user-b", 500, idle_min=41),
        cluster.holder("", 500),
        cluster.holder("other-team", 500, team="nlp"),
        cluster.holder("other-pool", 500, pool="h100"),
    ]

    state = _state(cluster, cluster.lease(), leases, cluster.offers().offers[0])

    assert state.holders_title == "vision holds 2 of its 2 fixed GPUs:"
    assert [(holder.text, holder.frees) for holder in state.holders] == [
        ("user-b · ½ · idle about 41 min, returned after 60 min", "frees ½"),
        ("someone · ½ · started", ""),
        ("user-c · 1 · started", ""),
    ]


def test_a_kept_notebook_is_not_said_to_free_anything(cluster: Any) -> None:
    kept = cluster.holder("user-b", 500).model_copy(
        update={
            "idle": models.IdleView(
                idle_since_ms=cluster.NOW - 60_000, kept_until_ms=cluster.NOW + 20 * 60_000
            )
        }
    )

    state = _state(cluster, cluster.lease(), [kept])

    assert (
        state.holders[0].text == "user-b · ½ · idle about 1 min, its user keeps it for 20 min more"
    )
    assert state.holders[0].frees == ""


def test_a_known_return_is_told_as_time_left(cluster: Any) -> None:
    ending = cluster.holder("user-b", 500).model_copy(
        update={
            "idle": models.IdleView(
                idle_since_ms=cluster.NOW - 55 * 60_000, returns_ms=cluster.NOW + 5 * 60_000
            )
        }
    )

    state = _state(cluster, cluster.lease(), [ending])

    assert state.holders[0].text == "user-b · ½ · idle about 55 min, returned in 5 min"


def test_many_holders_are_cut_and_counted(cluster: Any) -> None:
    state = _state(cluster, cluster.lease(), [cluster.holder(f"u{i:02}", 250) for i in range(11)])

    assert len(state.holders) == 9
    assert state.holders[-1].text == "and 3 more"


def test_the_largest_smaller_free_size_is_offered(cluster: Any) -> None:
    state = _state(cluster, cluster.lease(), offer=cluster.offers().offers[0])

    assert state.take == Take(milli_gpu=500, label="Take ½")


def test_no_size_is_offered_where_none_smaller_is_free(cluster: Any) -> None:
    ticket = cluster.lease(milli_gpu=500)

    assert _state(cluster, ticket, offer=cluster.offers().offers[0]).take is None
    assert _state(cluster, cluster.lease()).take is None


def test_the_likely_start_is_never_left_out(cluster: Any) -> None:
    ticket = cluster.lease(forecast=None)

    assert _state(cluster, ticket).likely == "No likely start is known yet."
    assert _state(cluster, cluster.lease(state="granted", forecast=None)).likely == ""


def test_a_ticket_says_within_how_long_lent_gpus_are_won_back_before_its_forecast(
    cluster: Any,
) -> None:
    offer = cluster.offers().offers[0].model_copy(update={"win_back_s": 20})
    sizes = [size.model_copy(update={"lent": size.milli_gpu == 1000}) for size in offer.sizes]
    lent = offer.model_copy(update={"sizes": sizes})
    cleared = models.ReasonView(code="draining", text="One can be won back.")
    promised = "Likely within 20 s: training that borrows your team's GPUs makes room."

    def said(ticket_offer: models.OfferView, reason: models.ReasonView | None) -> str:
        ticket = cluster.lease(forecast=None, reason=reason)
        return _state(cluster, ticket, offer=ticket_offer).likely

    assert said(offer, cleared) == said(lent, None) == promised
    unknown = "No likely start is known yet."
    assert said(offer, None) == said(lent, models.ReasonView(code="limit", text="Full.")) == unknown


def test_a_reclaim_under_way_is_said(cluster: Any) -> None:
    reason = models.ReasonView(code="draining", text="digits-7 has 20 s left to save.")

    assert (
        _state(cluster, cluster.lease(reason=reason)).headline == "A GPU is being cleared for you"
    )


def test_a_granted_ticket_says_that_the_notebook_starts(cluster: Any) -> None:
    state = _state(cluster, cluster.lease(state="granted"))

    assert state.headline == "Your notebook is starting"
    assert (state.place, state.reason, state.follow) == ("", "", None)


def test_a_running_notebook_can_be_followed(cluster: Any) -> None:
    assert _state(cluster, cluster.lease(state="active")).follow == LAB
    assert _state(cluster, cluster.lease(state="warned")).follow == LAB


def test_an_ended_ticket_says_why(cluster: Any) -> None:
    state = _state(cluster, cluster.lease(state="ended", ended_text="Left the line"))

    assert (state.phase, state.headline) == ("over", "Left the line")


def test_a_ticket_not_looked_at_yet_has_no_place(cluster: Any) -> None:
    state = _state(cluster, cluster.lease(position=None, reason=None))

    assert (state.place, state.title, state.reason) == ("", "Waiting in line", "")


def test_the_offer_of_team_and_pool_is_found(cluster: Any) -> None:
    offers = cluster.offers().offers

    assert offer_for(offers, None, None) is offers[0]
    assert offer_for(offers, "vision", "a100") is offers[0]
    assert offer_for(offers, "nlp", None) is None


def test_sizes_that_can_never_be_had_are_not_shown(cluster: Any) -> None:
    offer = cluster.offers().offers[0]
    never = models.SizeView(milli_gpu=4000, memory_mib=1, availability="never", text="too large")

    shown = choices(offer.model_copy(update={"sizes": [never, *reversed(offer.sizes)]}))

    assert [(size.label, size.memory, size.text, size.free) for size in shown] == [
        ("½", "19.4 GiB", "free now", True),
        ("1", "38.8 GiB", "all are held", False),
    ]


def test_who_opens_another_ones_ticket_reads_whose_it_is(cluster: Any) -> None:
    holders = [cluster.holder("alice", 500), cluster.holder("lead", 500)]
    waits = _state(cluster, cluster.lease(), holders, me="lead")

    assert (waits.title, waits.who_asked) == ("alice: 1st in line", "alice")
    assert waits.note == "On alice's turn the notebook is started, also when nobody looks."
    assert [one.text.split(" · ")[0] for one in waits.holders] == ["alice", "you"]
    runs = _state(cluster, cluster.lease(state="active"), me="lead")
    assert (runs.headline, runs.follow) == ("alice's notebook was started", None)
    over = _state(cluster, cluster.lease(state="ended", ended_text=None), me="lead")
    assert (over.headline, over.note) == (
        "alice is no longer in line",
        "Nothing is held or started for alice.",
    )
