"""Pages that look back: the report with its files, utilisation, and the demo's sample data."""

from __future__ import annotations

import io
import re
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.models import WaitDrawn
from gpucommons.scheduler.models.notifications import (
    ChannelView,
    MessagePreview,
    NotificationsView,
    NotificationView,
)
from gpucommons.scheduler.models.reports import FinishedWeek, ReportDay, UsePoint
from gpucommons.scheduler.models.text import report_parquet
from gpucommons.scheduler.pages.present import calibration
from gpucommons.scheduler.pages.reports import drawing


async def test_utilisation_shows_lines_tables_and_changes_to_admins_and_leads(visit: Any) -> None:
    for name in ("admin", "lead"):
        text = await (await visit(name)).page("admin/utilisation")
        for words in (
            "Allocated beside used, GPUs by day",
            "team vision: allocated",
            "admin: guarantee of &lt;vision&gt; 2 → 4 in a100",
            "kept for 400 days",
            "Week 01, from 8 January: 154 finished, 5.9 per 100 GPU hours",
            'data-drawn="{&#34;step&#34;: 86400',
        ):
            assert words in text
        assert "<script>" not in text
    refused = await (await visit("alice")).get("admin/utilisation")
    assert refused.status_code == 403
    assert "Only admins and leads of teams see how GPUs were used over time." in refused.text
    assert "Utilisation" not in await (await visit("alice")).page("admin")


async def test_what_was_chosen_of_utilisation_is_asked_for_and_a_span_that_is_none_is_refused(
    visit: Any, scheduler: Any
) -> None:
    admin = await visit("admin")
    answer = await admin.get("admin/utilisation.csv?days=14&pool=a100&team=")
    assert answer.headers["Content-Type"].startswith("text/csv")
    lines = answer.text.splitlines()
    assert lines[0] == '"From, UTC",Of,Name,Allocated GPUs,Used GPUs,There'
    assert len(lines) == 1 + 4 * 90
    assert lines[1].endswith(",all,,,,")
    assert ",team,nlp,13.000,11.000,16.000" in answer.text
    for path in ("admin/utilisation", "admin/utilisation.csv"):
        refused = await admin.get(path, params={"days": "<b>"})
        assert refused.status_code == 422
        assert "&lt;b&gt;&#39; days are not shown: 2, 14, 90, 365 are." in refused.text


async def test_the_report_draws_days_and_says_what_its_columns_mean(visit: Any) -> None:
    text = await (await visit("admin")).page("admin/report")
    for words in (
        "GPU hours by day",
        "held 600.0 of 768.0, no data of use, borrowed 150.0, idle 30.0, lost at most 4.0",
        "By project",
        "<dt>Borrowed</dt>",
        "The team may borrow from itself",
        "Experiments finished per week",
    ):
        assert words in text


async def test_what_notebooks_had_parked_stands_in_each_table_and_is_no_part_of_what_was_held(
    visit: Any, scheduler: Any
) -> None:
    own = scheduler.answers["GET /v1/report"]
    row = own.rows[0].model_copy(update={"parked_milli_gpu_h": 2500})
    scheduler.answers["GET /v1/report"] = own.model_copy(update={"rows": [row]})
    text = await (await visit("admin")).page("admin/report")
    # By team, user and project, and once more in each total.
    assert text.count('<td data-label="Parked" class="num">2.500</td>') == 6
    assert text.count('<td data-label="Held" class="num">10.000</td>') == 6
    assert "<dt>Parked</dt><dd>What parked notebooks would have held" in text


async def test_sample_data_are_offered_and_marked_on_each_page_and_file(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    admin, note = await visit("admin"), "Sample data of the demo: made up, and nowhere stored."
    pages = {
        "admin/report": "report",
        "admin/utilisation": "utilisation",
        "calibration": "calibration",
    }
    for path, route in pages.items():
        own = scheduler.answers[f"GET /v1/{route}"]
        assert "sample data" not in (await admin.page(path)).lower()
        scheduler.answers[f"GET /v1/{route}"] = own.model_copy(update={"has_sample": True})
        assert f'{path}?sample=1">Show this page with sample data' in await admin.page(path)
        told = own.model_copy(update={"has_sample": True, "is_sample": True})
        scheduler.answers[f"GET /v1/{route}"] = told
        text = await admin.page(f"{path}?sample=1")
        for words in (
            note,
            '<span class="pill warn">sample data</span>',
            'name="sample" value="1"',
        ):
            assert words in text
    for name in ("report", "utilisation"):
        answer = await admin.get(f"admin/{name}.csv?sample=1")
        assert "gpucommons-sample-" in answer.headers["Content-Disposition"]
        assert answer.text.rstrip().endswith(f'"{note}"')


async def test_use_of_simulated_gpus_is_said_to_be_so_on_both_pages(
    visit: Any, scheduler: Any
) -> None:
    admin = await visit("admin")
    said = "Simulated: the GPUs of a100, &lt;b&gt; have no hardware"
    for route in ("report", "utilisation"):
        own = scheduler.answers[f"GET /v1/{route}"]
        assert "Simulated:" not in await admin.page(f"admin/{route}")
        pools = {"simulated_pools": ["a100", "<b>"]}
        scheduler.answers[f"GET /v1/{route}"] = own.model_copy(update=pools)
        assert said in await admin.page(f"admin/{route}")


async def test_parquet_is_offered_where_its_library_is(
    visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = await visit("admin")
    assert "Download Parquet" in await admin.page("admin/report")
    answer = await admin.get("admin/report.parquet?month=2026-12")
    assert 'filename="gpucommons-2026-12.parquet"' in answer.headers["Content-Disposition"]
    rows = pq.read_table(io.BytesIO(answer.content)).to_pylist()
    assert [(row["user"], row["held_gpu_hours"]) for row in rows] == [
        ("=cmd", 10.0),
        ("(team)", 0.0),
    ]
    monkeypatch.setattr(report_parquet, "find_spec", lambda _name: None)
    assert "Download Parquet" not in await admin.page("admin/report")
    refused = await admin.get("admin/report.parquet")
    assert (refused.status_code, "gpucommons[reports]" in refused.text) == (422, True)


async def test_what_one_is_told_is_chosen_on_a_page_and_a_key_is_shown_once(
    visit: Any, scheduler: Any
) -> None:
    off = ChannelView(about=[], to="", why_not="This installation posts to no webhook.")
    mail = ChannelView(about=["finish"], to="alice@example.org")
    sent = NotificationView(
        id="1",
        channel="mail",
        about="finish",
        subject="<b>digits</b> failed",
        made_ms=1,
        fate="failed",
        tries=2,
        said="550 no such user",
    )
    view = NotificationsView(
        mail=mail,
        default_address="alice@example.org",
        domains=["example.org"],
        webhook=off,
        newest=[sent],
    )
    scheduler.answers |= {
        "GET /v1/notifications": view,
        "GET /v1/notifications/week": MessagePreview(subject="s", text="You held no GPU."),
        "PUT /v1/notifications": view.model_copy(update={"key": "the-new-key"}),
        "POST /v1/notifications/test": view,
    }
    alice = await visit("alice")
    text = await alice.page("notifications")
    for words in (
        "Of your own notebooks and jobs alone. Nobody but you sees this choice.",
        'name="mail-finish" aria-label="Mail: A job, sweep or pipeline of mine is over, and how it ended" checked>',
        "&lt;b&gt;digits&lt;/b&gt; failed",
        "550 no such user",
        '<p class="muted" id="why-not-webhook" lang="en">This installation posts to no webhook.</p>',
        'and how it ended" disabled aria-describedby="why-not-webhook">',
        "Allowed: example.org.",
        "You held no GPU.",
        "Send a test",
    ):
        assert words in text
    assert "the-new-key" not in text
    assert "why-not-mail" not in text
    fields = {"mail-week": "on", "address": " a@example.org "}
    saved = await alice.post("notifications", data={"_xsrf": await alice.xsrf(), **fields})
    assert "which is not shown again: <code>the-new-key</code>" in saved.text
    assert scheduler.writes()[-1][3] == {
        "mail": ["week"],
        "address": "a@example.org",
        "webhook": [],
        "url": "",
        "new_key": False,
    }
    tested = await alice.post("notifications/test", data={"_xsrf": await alice.xsrf()})
    assert tested.headers["Location"] == "/services/gpucommons/notifications?said=test"


async def test_what_was_typed_stays_in_the_form_when_it_is_not_saved(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    meanwhile = NotificationsView(
        mail=ChannelView(about=["week"], to="new@example.org"),
        domains=["*"],
        webhook=ChannelView(about=[], to=""),
        newest=[],
        version="two",
    )
    scheduler.answers |= {
        "GET /v1/notifications": meanwhile,
        "GET /v1/notifications/week": MessagePreview(subject="s", text="You held no GPU."),
        "PUT /v1/notifications": cluster.errors.ChosenMeanwhile(),
    }
    alice = await visit("alice")
    fields = {"mail-finish": "on", "address": "a@example.org", "new_key": "on", "seen": "one"}
    fields["_xsrf"] = await alice.xsrf()

    late = await alice.post("notifications", data=fields)

    assert late.status_code == 409
    assert scheduler.writes()[-1][3]["seen"] == "one"
    for words in (
        "changed meanwhile, in another tab perhaps: look, and save again.",
        'Mail: <span lang="en">week → new@example.org</span>',
        'how it ended" checked>',
        'value="a@example.org"',
        'name="new_key" checked>',
        'name="seen" value="two"',
    ):
        assert words in late.text
    scheduler.answers["PUT /v1/notifications"] = cluster.errors.BadRequest("No such domain.")
    for wrong in ({}, {"url": "x" * 501}):
        refused = await alice.post("notifications", data=fields | wrong)
        assert refused.status_code == 422
        assert 'role="alert">' in refused.text
        assert 'value="a@example.org"' in refused.text


async def test_the_report_asks_what_more_gpus_would_have_changed(
    visit: Any, scheduler: Any
) -> None:
    for name, is_asked in (("admin", True), ("alice", False)):
        text = await (await visit(name)).page("admin/report")
        assert ("What if we bought more?" in text) is is_asked
    admin = await visit("admin")
    form = {"_xsrf": await admin.xsrf(), "pool": "a100", "gpus": "8"}
    answer = await admin.post("admin/more", data=form)
    assert "What if a100 had 8 more GPUs?" in answer.text
    assert "Median wait" in answer.text
    assert "simulated GPUs" in answer.text
    assert "data-age" in answer.text
    assert "gpucommons simulate --more a100=8" in answer.text
    assert scheduler.writes()[-1][3]["more"] == [{"pool": "a100", "gpus": 8}]
    for wrong in ({"gpus": "many"}, {"gpus": "0"}, {"pool": "<b>"}):
        refused = await admin.post("admin/more", data=form | wrong)
        assert "Name a pool, and from 1 to 1000 more GPUs." in refused.text


async def test_a_code_that_is_wrong_is_said_where_it_is_typed_again(
    visit: Any, scheduler: Any, cluster: Any
) -> None:
    mail = ChannelView(about=["finish"], to="alice@example.org", waits="No mail goes there yet.")
    off = ChannelView(about=[], to="", why_not="This installation posts to no webhook.")
    wrong = "That is not the code that was sent last to alice@example.org: look at the newest mail."
    scheduler.answers |= {
        "GET /v1/notifications": NotificationsView(
            mail=mail, default_address="", domains=["example.org"], webhook=off, newest=[]
        ),
        "GET /v1/notifications/week": MessagePreview(subject="s", text="You held no GPU."),
        "POST /v1/notifications/confirm": cluster.errors.BadRequest(wrong),
    }
    alice = await visit("alice")
    fields = {"_xsrf": await alice.xsrf(), "code": "ABCD-EFGH-IJKL-MNOP"}

    answer = await alice.post("notifications/confirm", data=fields)

    assert answer.status_code == 422
    assert f'role="alert">{wrong}</p>' in answer.text
    assert "<h1>Notifications</h1>" in answer.text
    assert '<input name="code"' in answer.text

    empty = await alice.post("notifications/confirm", data={**fields, "code": ""})
    assert empty.status_code == 422
    assert 'role="alert">' in empty.text


@given(st.integers(min_value=1, max_value=10**9))
def test_an_axis_has_few_round_labels(top: int) -> None:
    day = ReportDay(
        from_ms=0,
        held_milli_gpu_h=top,
        used_milli_gpu_h=None,
        idle_milli_gpu_h=0,
        borrowed_milli_gpu_h=0,
        lost_milli_gpu_h=0,
        there_milli_gpu_h=None,
    )
    drawn = drawing.days([day])
    assert drawn is not None
    labels = [tick.text.replace(",", "") for tick in drawn.ticks]
    assert 2 <= len(labels) <= 5
    assert labels[0] == "0"
    assert f"{Decimal(labels[1]).normalize():E}"[:2] in {"1E", "2E", "5E"}
    assert [Decimal(one) for one in labels] == [
        number * Decimal(labels[1]) for number in range(len(labels))
    ]
    assert all(0 <= tick.y <= drawing.DAYS_HEIGHT for tick in drawn.ticks)


def test_a_mean_weighs_a_step_by_how_long_it_is_known() -> None:
    points = [
        UsePoint(from_ms=0),
        UsePoint(from_ms=1, known_ms=60_000, allocated_milli_gpu=4000),
        UsePoint(from_ms=2, known_ms=180_000, allocated_milli_gpu=0),
    ]
    assert drawing.mean(points, drawing.allocated) == 1000
    assert drawing.mean(points, drawing.used) is None


def test_a_wait_of_seconds_stands_where_the_axis_says_up_to_a_minute() -> None:
    wait = WaitDrawn(from_ms=0, to_ms=180_000, took_ms=7_000, started=True, right=True)
    drawn = calibration.waits([wait])
    assert drawn is not None
    assert drawn.ticks[0] == calibration.Tick(at=drawn.bars[0].came, text="≤ 1 min")
    assert drawn.ticks[1].text == "5 min"


async def test_the_report_and_the_changes_are_as_a_german_reads_them(visit: Any) -> None:
    admin = await visit("admin")
    german = {"Accept-Language": "de"}
    page = (await admin.get("admin/report", headers=german)).text
    english = await admin.page("admin/report")
    numbers = re.findall(r'class="num">(\d+)\.(\d{3})<', english)
    assert numbers
    assert re.findall(r'class="num">(\d+),(\d{3})<', page) == numbers
    file = await admin.get("admin/report.csv", headers=german)
    assert ",10.000,8.100," in file.text, "programs read it"
    use = (await admin.get("admin/utilisation", headers=german)).text
    assert "vision im Pool a100: garantiert 0 → ½, Limit 2 → keine." in use


@pytest.mark.parametrize(
    ("milli_gpu", "text"),
    [
        (None, "–"),
        (2500, "2½"),
        (16_000, "16"),
        (125, "⅛"),
        (2333, "2.3"),
        (2497, "2½"),
        (31_420, "31.4"),
    ],
)
def test_gpus_of_cards_are_written_as_everywhere_and_means_with_one_digit(
    milli_gpu: int | None, text: str
) -> None:
    assert drawing.gpus(milli_gpu) == text


def test_a_card_tells_what_is_in_force_and_not_the_mean_of_its_last_step() -> None:
    points = [UsePoint(from_ms=0, known_ms=900_000, there_milli_gpu=1433)]
    assert drawing.card("nlp", points, "quota", 1000).text.endswith("; quota, dashed: 1 now")
    assert drawing.card("nlp", points, "quota", None).text.endswith("; quota: dashed")


def test_a_card_without_a_dashed_line_speaks_of_none() -> None:
    points = [UsePoint(from_ms=0, known_ms=900_000, there_milli_gpu=None)]
    assert drawing.card("nlp", points, "quota", 1000).text.endswith("; quota: 1 now")
    assert "quota" not in drawing.card("nlp", points, "quota", None).text


@pytest.mark.parametrize(
    ("finished", "milli_gpu_h", "rate"),
    [(49, 2466, "1,987"), (154, 2_610_000, "5.9"), (3, 0, ""), (1, 1_000_000, "0.1")],
)
def test_a_rate_has_no_more_digits_than_say_something(
    finished: int, milli_gpu_h: int, rate: str
) -> None:
    week = FinishedWeek(from_ms=0, to_ms=1, finished=finished, held_milli_gpu_h=milli_gpu_h)
    assert drawing.per_gpu_hours(week) == rate
