"""GPU admin: what each may see, and what admins may change."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpucommons.scheduler import models
from gpucommons.scheduler.pages.present.words import dated

RECLAIM = "admin/reclaim/0190aaaa-0000-7000-8000-000000000002"
ROW = {
    "team": "vision", "pool": "a100", "fixed": "3", "guaranteed": "4", "limit": "8", "weight": "2",
}  # fmt: skip
TOO_MUCH = ROW | {"fixed": "6"}


async def _post(visitor: Any, path: str, body: object) -> Any:
    return await visitor.post(path, json=body, headers={"X-XSRFToken": await visitor.xsrf()})


async def test_now_shows_figures_map_teams_and_who_waits(visit: Any) -> None:
    text = await (await visit("admin", allow_admin_writes=True)).page("admin")

    for words in (
        "28½ <span",
        "of held hours really used, last hour",
        "81 %",
        "waiting, longest 18 min",
        "A100-40 × 8",
        "height = share of the GPU",
        "isolation: none",
        "8 fixed + 22 guaranteed = 30 of 32 GPUs",
        "<b>fragmentation</b>: <span>3 free on gpu-02",
        "moving digits-7 frees the fourth",
        "simulated GPUs",
    ):
        assert words in text
    assert text.count('class="gpu"') == 32
    assert 'fill="url(#hatch)"' in text


async def test_what_was_found_after_a_restore_is_said_to_admins_while_it_is_news(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    receipts = cluster.receipts()
    text = "A backup was restored. Jobs found again: vision/digits-7."
    at = {"kind": "reconciled", "by": "scheduler", "text": text, "at_ms": cluster.NOW - 1}
    told = receipts.events[0].model_copy(update=at)
    scheduler.answers["GET /v1/events"] = models.EventList(events=[told], last=7)

    assert text in await (await visit("admin")).page("admin")
    assert text not in await (await visit("lead")).page("admin")
    assert text not in await (await visit("admin")).page("admin/waiting")

    old = told.model_copy(update={"at_ms": cluster.NOW - 86_400_001})
    scheduler.answers["GET /v1/events"] = models.EventList(events=[old], last=7)
    assert text not in await (await visit("admin")).page("admin")


async def test_a_slow_node_and_a_slow_pair_are_shown_with_their_reason_and_until_when(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    found = cluster.nodes()
    since = {"since_ms": cluster.NOW, "until_ms": cluster.NOW + 1}
    slow = models.SlowView(percent=30, runs=17, jobs=2, **since)
    slow_pairs = [
        models.SlowPairView(
            other="gpu-02", slow=models.SlowView(percent=40, runs=12, jobs=1, **since)
        )
    ]
    found.nodes[0] = found.nodes[0].model_copy(update={"slow": slow, "slow_pairs": slow_pairs})
    scheduler.answers["GET /v1/nodes"] = found

    text = await (await visit("admin")).page("admin")
    assert "Steps take 30 % longer here than the same steps elsewhere (17 runs of 2 jobs)" in text
    assert "With gpu-02 steps take 40 % longer" in text
    assert "(12 runs of 1 job)" in text
    assert "A job on several nodes first looks for others until" in text
    german = await (await visit("admin")).get("admin", headers={"Accept-Language": "de"})
    said = "Schritte dauern hier 30 % länger als dieselben Schritte anderswo (17 Läufe von 2 Jobs)"
    assert said in german.text
    assert "sucht bis" in german.text


async def test_a_configuration_that_is_not_in_force_is_said_to_admins_with_why(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    text = "pool train has no nodes"
    at = {"kind": "configuration-waits", "text": text, "at_ms": 1}
    told = cluster.receipts().events[0].model_copy(update=at)
    scheduler.answers["GET /v1/events"] = models.EventList(events=[told], last=7)
    shown = await (await visit("admin")).page("admin")
    assert "quotas is not in force yet" in shown
    assert text in shown
    assert "Mend its file and start the scheduler anew" in shown
    assert "whenever nodes come" not in shown
    assert text not in await (await visit("lead")).page("admin")

    early = told.model_copy(update={"data": {"nodes_may_help": True}})
    scheduler.answers["GET /v1/events"] = models.EventList(events=[early], last=7)
    shown = await (await visit("admin")).page("admin")
    assert "It is tried again whenever nodes come." in shown
    assert "Mend its file" not in shown

    over = told.model_copy(update={"kind": "configuration-in-force"})
    scheduler.answers["GET /v1/events"] = models.EventList(events=[over], last=8)
    assert "not in force yet" not in await (await visit("admin")).page("admin")


async def test_evictions_show_receipts(visit: Any) -> None:
    text = await (await visit("admin")).page("admin/evictions")

    for words in (
        *("vision/digits-7", "nlp/bert-3", "guarantee of nlp", "0.8", "step 5,430", "yes"),
        "GPU-min lost at most",
    ):
        assert words in text


async def test_what_node_agents_did_stands_beside_the_receipts(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    receipts = cluster.receipts()
    (evicted,) = receipts.events
    stopped = evicted.model_copy(
        update={
            "kind": "memory-kill",
            "by": "agent of gpu-03",
            "text": "23.0 of 19.4 GiB on <GPU-0>: process 7 killed.",
            "data": {},
        }
    )
    admin = await visit("admin")
    assert "Stopped by node agents" not in await admin.page("admin/evictions")
    scheduler.answers["GET /v1/events"] = receipts.model_copy(update={"events": [evicted, stopped]})

    text = await admin.page("admin/evictions")

    for words in ("agent of gpu-03", "23.0 of 19.4 GiB on &lt;GPU-0&gt;: process 7 killed."):
        assert words in text


async def test_the_csv_quotes_what_looks_like_a_formula(visit: Any) -> None:
    answer = await (await visit("admin")).get("admin/report.csv?month=2026-12")

    assert answer.headers["Content-Type"].startswith("text/csv")
    assert 'filename="gpucommons-2026-12.csv"' in answer.headers["Content-Disposition"]
    assert "vision,'=cmd,,10.000" in answer.text


@pytest.mark.parametrize("path", ["admin/report", "admin/report.csv"])
async def test_a_month_that_is_none_is_refused_and_not_taken_for_the_present_one(
    visit: Any, scheduler: Any, path: str
) -> None:
    answer = await (await visit("admin")).get(path, params={"month": "<b>"})

    assert answer.status_code == 422
    assert "&lt;b&gt;&#39; is not a month that can be reported" in answer.text
    assert "/v1/report" not in [asked for _, asked, _, _ in scheduler.asked]


async def test_the_last_hour_is_asked_for_once_a_minute(visit: Any, scheduler: Any) -> None:
    admin = await visit("admin")
    await admin.page("admin")
    await admin.page("admin")

    assert [path for _, path, _, _ in scheduler.asked].count("/v1/report") == 1


async def test_without_a_report_the_figure_is_left_open(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    scheduler.answers["GET /v1/report"] = cluster.errors.Forbidden()

    assert '<dd class="num">–' in await (await visit("admin")).page("admin")


async def test_all_pages_of_a_long_list_are_read(visit: Any, scheduler: Any, cluster: Any) -> None:
    pages = [cluster.jobs().model_copy(update={"cursor": "more"}), cluster.jobs()]
    scheduler.answers["GET /v1/jobs"] = lambda _: pages.pop(0)

    assert 'Waiting <span class="count">7</span>' in await (await visit("admin")).page(
        "admin/teams"
    )


async def test_a_reason_of_which_only_the_class_may_be_seen_is_words(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    (one, *_) = cluster.jobs().jobs
    hidden = one.model_copy(update={"reason": cluster.models.ReasonView(code="share", text="")})
    scheduler.answers["GET /v1/jobs"] = cluster.models.JobList(jobs=[hidden])

    text = await (await visit("alice")).page("admin/waiting")
    assert "<b>too few free</b></td>" in text.replace(
        "<b>too few free</b><br>", "<b>all in use</b></td>"
    )


async def test_a_researcher_sees_their_team_and_no_controls(visit: Any, scheduler: Any) -> None:
    alice = await visit("alice", allow_admin_writes=True)
    text = await alice.page("admin")

    assert "GPU use" in text
    assert 'data-team="vision"' in text
    assert 'data-team="nlp"' not in text
    assert "<input" not in text
    assert "Save" not in text
    assert "/v1/activities" not in {path for _, path, _, _ in scheduler.asked}
    assert (await alice.get("admin/idle")).status_code == 403


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("admin/quotas/check", {"rows": [ROW]}),
        ("admin/quotas", {"rows": [ROW]}),
        ("admin/quotas/replay", {"rows": [ROW]}),
        (RECLAIM, {"force": False, "reason": ""}),
    ],
)
async def test_a_researcher_changes_nothing(
    visit: Any, scheduler: Any, path: str, body: object
) -> None:
    answer = await _post(await visit("alice", allow_admin_writes=True), path, body)

    assert answer.status_code == 403
    assert answer.json()["error"] == "Forbidden"
    assert scheduler.writes() == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("admin/quotas/check", {"rows": [ROW]}),
        ("admin/quotas", {"rows": [ROW]}),
        ("admin/quotas/replay", {"rows": [ROW]}),
        (RECLAIM, {"force": True, "reason": "needed"}),
    ],
)
async def test_without_the_setting_admins_change_nothing_in_the_browser(
    visit: Any, scheduler: Any, path: str, body: object
) -> None:
    answer = await _post(await visit("admin"), path, body)

    assert answer.status_code == 403
    assert "subdomain_host" in answer.json()["message"]
    assert scheduler.writes() == []


async def test_without_the_setting_the_page_says_why_nothing_can_be_edited(visit: Any) -> None:
    text = await (await visit("admin")).page("admin/teams")

    assert "cannot be changed in the browser here" in text
    assert "<input" not in text
    assert "Reclaim" not in await (await visit("admin")).page("admin/idle")


async def test_subdomains_allow_writes_too(visit: Any) -> None:
    text = await (await visit("admin", hub_host="https://hub.example.org")).page("admin/teams")

    assert 'name="fixed"' in text
    assert "https://hub.example.org/hub/home" in text


async def test_edits_are_checked_before_they_are_saved(visit: Any, scheduler: Any) -> None:
    admin = await visit("admin", allow_admin_writes=True)

    verdict = (await _post(admin, "admin/quotas/check", {"rows": [ROW]})).json()

    assert verdict == {
        "ok": True,
        "text": "9 fixed + 22 guaranteed = 31 of 32 GPUs: they fit",
        "changes": ["vision · a100: fixed 2 → 3"],
    }
    assert scheduler.writes()[0][3]["dry_run"] is True


async def test_what_cannot_be_laid_out_is_said_with_the_difference(visit: Any) -> None:
    admin = await visit("admin", allow_admin_writes=True)

    verdict = (await _post(admin, "admin/quotas/check", {"rows": [TOO_MUCH]})).json()

    assert verdict["ok"] is False
    assert verdict["text"] == "fixed+guarantee 34 of 32 – over by 2, not saved"
    assert verdict["changes"] == ["vision · a100: fixed 2 → 6"]


async def test_a_wrong_edit_is_said_without_asking_the_scheduler(
    visit: Any, scheduler: Any
) -> None:
    admin = await visit("admin", allow_admin_writes=True)

    verdict = (await _post(admin, "admin/quotas/check", {"rows": [ROW | {"fixed": "lots"}]})).json()

    assert verdict["ok"] is False
    assert "fixed of vision in pool a100" in verdict["text"]
    assert verdict["cell"] == ["vision", "a100", "fixed"]
    assert scheduler.writes() == []


@pytest.mark.parametrize(
    "body", [{}, {"rows": []}, {"rows": [{}]}, {"rows": [ROW | {"extra": 1}]}, [], "x", None]
)
async def test_an_unreadable_body_is_refused(visit: Any, scheduler: Any, body: object) -> None:
    admin = await visit("admin", allow_admin_writes=True)

    for path in ("admin/quotas/check", "admin/quotas"):
        assert (await _post(admin, path, body)).status_code == 422
    assert scheduler.writes() == []


async def test_saving_saves(visit: Any, scheduler: Any) -> None:
    admin = await visit("admin", allow_admin_writes=True)

    answer = await _post(admin, "admin/quotas", {"rows": [ROW]})

    assert answer.json()["ok"] is True
    method, path, token, body = scheduler.writes()[0]
    assert (method, path, token) == ("PUT", "/v1/quotas", "token-admin")
    assert body["dry_run"] is False
    assert body["changes"][0]["quota"]["fixed_milli_gpu"] == 3000


async def test_saving_what_cannot_be_laid_out_is_refused(visit: Any) -> None:
    admin = await visit("admin", allow_admin_writes=True)

    answer = await _post(admin, "admin/quotas", {"rows": [TOO_MUCH]})

    assert answer.status_code == 409
    assert answer.json()["message"] == "fixed+guarantee 34 of 32 – over by 2, not saved"


async def test_idle_lists_holders_with_reclaim(visit: Any) -> None:
    text = await (await visit("admin", allow_admin_writes=True)).page("admin/idle")

    for words in ("user-b · vision", "idle about 41 min", "87 %", "not reported yet: counts"):
        assert words in text
    assert text.count("data-reclaim=") == 3
    assert "returned in 10 min unless they keep it" in text


async def test_an_idle_notebooks_user_is_asked_first(visit: Any, scheduler: Any) -> None:
    admin = await visit("admin", allow_admin_writes=True)

    answer = await _post(admin, RECLAIM, {"force": False, "reason": ""})

    assert "Announced at " in answer.json()["text"]
    assert scheduler.writes()[0][3] == {"force": False, "reason": ""}


@pytest.mark.parametrize("reason", ["", "   "])
async def test_force_needs_a_reason(visit: Any, scheduler: Any, reason: str) -> None:
    admin = await visit("admin", allow_admin_writes=True)

    answer = await _post(admin, RECLAIM, {"force": True, "reason": reason})

    assert answer.status_code == 422
    assert "why a busy notebook is stopped" in answer.json()["message"]
    assert scheduler.writes() == []


async def test_a_busy_notebook_is_refused_in_the_schedulers_words(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    busy = cluster.errors.Conflict("user-c's notebook is busy.")
    scheduler.answers["POST /v1/leases/.*/reclaim"] = busy
    admin = await visit("admin", allow_admin_writes=True)

    answer = await _post(admin, RECLAIM, {"force": False, "reason": ""})

    assert (answer.status_code, answer.json()["message"]) == (409, "user-c's notebook is busy.")


async def test_users_of_one_account_are_said_to_be_unprotected(
    visit: Any, monkeypatch: pytest.MonkeyPatch, cluster: Any
) -> None:
    shared = cluster.USERS["token-alice"].model_copy(update={"shared_account": True})
    monkeypatch.setitem(cluster.USERS, "token-alice", shared)
    alice = await visit("alice")

    for path in ("", "admin", "ticket?size=1"):
        (banner,) = re.findall(r"<aside[^>]* aria-label=.*?</aside>", await alice.page(path))
        assert "nothing isolates them from each other" in banner


async def test_the_start_page_says_what_one_has_and_may_have(visit: Any) -> None:
    text = await (await visit("alice")).page("")

    for words in (
        "0 of 2 notebook GPUs free",
        ">3½</span> of",
        "1st in line",
        "digits-7",
        "/hub/spawn",
    ):
        assert words in text


async def test_the_last_end_is_told_at_the_next_login(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    scheduler.answers["GET /v1/offers"] = cluster.offers().model_copy(
        update={"last_end": "Stopped at 14:02: idle 60 min."}
    )

    said = "Stopped at 14:02: idle 60 min."

    alice = await visit("alice")
    # She is in line for another one: the end of the last is no news.
    assert said not in await alice.page("")
    scheduler.answers["GET /v1/leases"] = cluster.models.LeaseList(leases=[])
    text = await alice.page("")
    assert said in text
    assert 'href="/hub/spawn?opt-again=1">Start again</a>' in text


async def test_what_the_last_stop_kept_is_said_also_while_in_line(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    said = "Your 2 kernels (1.0 GiB) are kept until 3 December."
    kept = cluster.models.KeptKernelsView(kernels=2, until_ms=1, text=said, brief="")
    scheduler.answers["GET /v1/offers"] = cluster.offers().model_copy(update={"kept": kept})
    alice = await visit("alice")
    text = await alice.page("")
    assert said in text
    assert "Start again" not in text
    scheduler.answers["GET /v1/leases"] = cluster.models.LeaseList(leases=[])
    text = await alice.page("")
    assert text.index(said) < text.index("Start again")


async def test_a_lead_sees_and_reclaims_in_their_team_but_sets_no_quota(
    visit: Any, scheduler: Any
) -> None:
    lead = await visit("lead", allow_admin_writes=True)

    teams, idle = await lead.page("admin/teams"), await lead.page("admin/idle")
    reclaimed = await _post(lead, RECLAIM, {"force": False, "reason": ""})
    refused = await _post(lead, "admin/quotas", {"rows": [ROW]})

    assert 'data-team="nlp"' not in teams
    assert "<input" not in teams
    assert idle.count("data-reclaim=") == 3
    assert (reclaimed.status_code, refused.status_code) == (200, 403)


async def test_a_lead_reads_that_only_their_own_team_is_told_of(visit: Any, scheduler: Any) -> None:
    for path in ("activities", "events", "jobs", "leases"):
        answers, key = scheduler.answers, f"GET /v1/{path}"
        answers[key] = answers[key].model_copy(update={path: []})
    said = {
        "admin": "of hours held by your team really used, last hour",
        "admin/waiting": "Nobody of your team waits.",
        "admin/idle": "No notebook of your team holds a GPU.",
        "admin/evictions": "No job of your team was stopped unasked yet",
    }
    lead, admin = await visit("lead"), await visit("admin")
    for path, words in said.items():
        assert words in await lead.page(path)
        assert "your team" not in await admin.page(path)
    assert "of your team waiting" in await lead.page("admin")


async def test_a_lead_reads_that_others_may_wait_too(visit: Any) -> None:
    lead, admin = await visit("lead"), await visit("admin")

    assert "Only who waits of your team stands here." in await lead.page("admin/waiting")
    assert "of your team waiting, longest" in await lead.page("admin")
    assert "your team" not in await admin.page("admin/waiting")


async def test_the_last_changes_of_quotas_are_shown_to_those_who_watch(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    receipts = cluster.receipts()
    (event,) = receipts.events
    text = "vision in pool a100: fixed 2 → 3."
    changed = event.model_copy(update={"kind": "quota-changed", "by": "root<b>", "text": text})
    scheduler.answers["GET /v1/events"] = receipts.model_copy(update={"events": [changed]})

    for who in ("admin", "lead"):
        page = await (await visit(who)).page("admin/teams")
        for words in ("Last changes", "root&lt;b&gt;", text, "data-dated", dated(event.at_ms)):
            assert words in page
    assert dated(0) == "1970-01-01 00:00 UTC"
    assert "Last changes" not in await (await visit("alice")).page("admin/teams")


async def test_last_week_is_replayed_under_the_edits_and_nothing_is_saved(
    visit: Any, scheduler: Any
) -> None:
    admin = await visit("admin", allow_admin_writes=True)

    answer = (await _post(admin, "admin/quotas/replay", {"rows": [ROW]})).json()

    assert answer["text"] == "4 jobs of the last 7 days."
    assert answer["rows"][0][1:] == [
        "Median wait", "Worst in ten", "Free GPU-h", "Evictions", "Lost GPU-h, at most",
    ]  # fmt: skip
    assert answer["rows"][1] == [
        "vision",
        "0 s → 40 s",
        "5 min → over 3.0 h",
        "",
        "2 → 0",
        "0.500 → 0.000",
    ]
    assert answer["rows"][2][:1] + answer["rows"][2][3:4] == ["All", "10.000 → 12.500"]
    paths = [path for method, path, _, _ in scheduler.asked if method in ("PUT", "POST")]
    assert paths == ["/v1/replay"]
    assert "Replay last week" in await admin.page("admin/teams")


async def test_leads_and_admins_are_told_of_a_budget_that_is_nearly_used_up(visit: Any) -> None:
    sentence = "vision has used 81 % of its January budget: 812.50 of 1,000.00 EUR."
    for name, path in (("lead", ""), ("admin", "admin/report")):
        text = await (await visit(name)).page(path)
        assert sentence in text
        assert "At 100 % its rule is <strong>no-borrow</strong>." in text
    assert sentence not in await (await visit("alice")).page("")


async def test_a_budget_is_set_in_the_browser_by_admins_alone(visit: Any, scheduler: Any) -> None:
    form = {"team": "vision", "amount": "1200.50", "unit": "money", "at_full": "no-new-jobs"}
    for name, settings in (("lead", {"allow_admin_writes": True}), ("admin", {})):
        visitor = await visit(name, **settings)
        answer = await visitor.post("admin/budgets", data=form | {"_xsrf": await visitor.xsrf()})
        assert answer.status_code == 403
    assert scheduler.writes() == []
    admin = await visit("admin", allow_admin_writes=True)
    assert "Budget of vision, empty for none" in await admin.page("admin/teams")

    answer = await admin.post("admin/budgets", data=form | {"_xsrf": await admin.xsrf()})
    assert answer.status_code == 303
    await admin.post("admin/budgets", data=form | {"_xsrf": await admin.xsrf(), "amount": ""})
    wrong = await admin.post(
        "admin/budgets", data=form | {"_xsrf": await admin.xsrf(), "amount": "much"}
    )

    assert [body for _, _, _, body in scheduler.writes()] == [
        {"budget": {"money": 1200.5, "at_full": "no-new-jobs"}},
        {"budget": None},
    ]
    assert wrong.status_code == 422
    assert "is no amount: write it as 1200" in wrong.text
