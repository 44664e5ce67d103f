"""Waiting, idle, evictions and report."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from gpucommons.scheduler import models
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.jobs.attempts import AttemptView
from gpucommons.scheduler.models.text.report_rows import (
    report_csv,
    report_table,
    team_table,
    user_table,
)
from gpucommons.scheduler.pages.present.evictions import beneficiaries, eviction_rows
from gpucommons.scheduler.pages.present.idle import idle_count, idle_rows, reclaimed_text
from gpucommons.scheduler.pages.present.report import figures, lent_sentence, month_of
from gpucommons.scheduler.pages.present.waiting import waiting_rows
from gpucommons.scheduler.pages.present.words import clock


def test_jobs_and_tickets_wait_in_one_list_longest_first(cluster: Any) -> None:
    rows = waiting_rows(cluster.jobs().jobs, [cluster.lease()], cluster.NOW)

    assert [(row.who, row.team, row.asks, row.since, row.reason_class) for row in rows] == [
        ("alice", "vision", "1 × A100-40", "18 min", "too few free"),
        ("user-e", "speech", "8 × 1 GPU", "16 min", "limit"),
        ("user-d", "vision", "4 × 1 GPU", "8 min", "fragmentation"),
        ("user-f", "nlp", "1 GPU", "2 min", "kind"),
    ]
    assert rows[2].unblock == ("moving digits-7 frees the fourth",)


def test_each_wait_says_its_likely_start_and_what_would_start_it(cluster: Any) -> None:
    likely = models.ForecastView(
        made_ms=cluster.NOW,
        from_ms=600_000,
        to_ms=1_500_000,
        right_of_ten=8,
        text="Likely 10–25 min (past estimates right 8 of 10).",
        ways=["Would start now with 3 GPUs.", "moving digits-7 frees the fourth"],
    )
    unknown = models.ForecastView(
        made_ms=cluster.NOW,
        unknown="history",
        text="Likely start unknown: too little is known about how long the work in its way runs.",
    )
    rows = waiting_rows(
        [cluster.jobs().jobs[0].model_copy(update={"forecast": likely})],
        [cluster.lease(forecast=unknown), cluster.lease()],
        cluster.NOW,
    )

    assert [row.likely for row in rows] == ["unknown", "", "10–25 min"]
    assert [row.likely_note for row in rows] == [
        "too little is known about how long the work in its way runs.",
        "",
        "right 8 of 10",
    ]
    assert rows[2].unblock == ("moving digits-7 frees the fourth", "Would start now with 3 GPUs.")


def test_what_runs_or_was_granted_does_not_wait(cluster: Any) -> None:
    running = cluster.jobs().jobs[3]

    assert waiting_rows([running], [cluster.lease(state="granted")], cluster.NOW) == ()


def test_a_wait_without_reason_says_so(cluster: Any) -> None:
    rows = waiting_rows([], [cluster.lease(reason=None, user="", position=None)], cluster.NOW)

    assert (rows[0].who, rows[0].reason, rows[0].place) == ("someone", "not looked at yet", "")


def test_holders_are_sorted_by_idle_gpu_hours(cluster: Any) -> None:
    rows = idle_rows(cluster.activities())

    assert [(row.owner, row.idle_gpu_h, row.state, row.mark, row.gpu_percent) for row in rows] == [
        ("user-b", "0.341", "idle about 41 min", "idle", "0 %"),
        ("user-c", "0.000", "busy", "busy", "87 %"),
        ("user-d", "0.000", "not reported yet: counts as in use", "unverified", "no data"),
    ]
    assert idle_count(rows) == 1
    assert rows[0].last_active_ms == cluster.NOW - 41 * cluster.MINUTE
    assert rows[1].busy_with == "kernel"


def test_what_has_not_reported_since_a_restart_is_shown_as_it_was_last_stored(cluster: Any) -> None:
    lease = cluster.holder("user-b", 500, idle_min=41)
    (row,) = idle_rows(
        models.ActivityList(now_ms=cluster.NOW, activities=[models.ActivityView(lease=lease)])
    )
    assert (row.idle_gpu_h, row.state, row.mark) == (
        "0.341",
        "not reported yet; at its last report idle since about 41 min ago",
        "unverified",
    )


def test_who_idles_and_of_whom_the_culler_says_nothing_is_not_said_to_be_in_use(
    cluster: Any,
) -> None:
    lease = cluster.holder("user-c", 500)
    kernel = models.KernelActivity(kind="kernel", busy=False)
    view = models.ActivityView(lease=lease, reported_ms=cluster.NOW, kernels=[kernel])

    def state(gpu_active_ms: int | None) -> tuple[str, str]:
        seen = view.model_copy(update={"gpu_active_ms": gpu_active_ms})
        (row,) = idle_rows(models.ActivityList(now_ms=cluster.NOW, activities=[seen]))
        return row.state, row.mark

    assert state(cluster.NOW - 2 * cluster.MINUTE) == ("in use", "active")
    assert state(cluster.NOW - 40 * cluster.MINUTE) == ("not known", "unverified")
    assert state(None) == ("not known", "unverified")


def test_an_idle_notebook_returns_by_the_rule_before_its_user_was_warned(cluster: Any) -> None:
    """Idle for 41 of 60 minutes: in 19; what was kept for longer, later."""
    found = cluster.activities()
    rows = {row.owner: row for row in idle_rows(found)}
    assert rows["user-b"].returns_ms == cluster.NOW + 19 * 60_000
    assert [rows[name].returns_ms for name in ("user-c", "user-d")] == [None, None]
    quiet = next(one for one in found.activities if one.lease.user == "user-b")
    kept_ms = cluster.NOW + 28 * 60_000
    idle = quiet.lease.idle.model_copy(update={"kept_until_ms": kept_ms})
    kept = quiet.model_copy(update={"lease": quiet.lease.model_copy(update={"idle": idle})})
    (row,) = idle_rows(found.model_copy(update={"activities": [kept]}))
    assert row.returns_ms == kept_ms


def test_an_admins_reclaim_overrides_in_the_row_what_its_user_had_kept(cluster: Any) -> None:
    found = cluster.activities()
    quiet = next(one for one in found.activities if one.lease.user == "user-b")
    changed = {
        "kept_until_ms": cluster.NOW + 28 * 60_000,
        "returns_ms": cluster.NOW + 3 * 60_000,
        "keeps_left": 1,
        "reclaimed": True,
    }
    idle = quiet.lease.idle.model_copy(update=changed)
    told = quiet.model_copy(update={"lease": quiet.lease.model_copy(update={"idle": idle})})
    (row,) = idle_rows(found.model_copy(update={"activities": [told]}))
    assert row.returns_ms == cluster.NOW + 3 * 60_000
    assert (row.state, row.more_time) == ("idle about 41 min, reclaimed", "may ask once more")


def test_a_busy_notebook_is_never_shown_as_idle(cluster: Any) -> None:
    busy = cluster.activities().activities[0]
    stale = models.IdleView(idle_since_ms=cluster.NOW - 90 * cluster.MINUTE)
    said_idle = busy.model_copy(update={"lease": busy.lease.model_copy(update={"idle": stale})})

    row = idle_rows(models.ActivityList(now_ms=cluster.NOW, activities=[said_idle]))[0]

    assert (row.mark, row.busy) == ("busy", True)


def test_the_last_activity_is_said_wherever_somebody_looked(cluster: Any) -> None:
    started_ms, idle_since_ms = cluster.NOW - 50 * cluster.MINUTE, cluster.NOW - 40 * cluster.MINUTE
    unseen = models.KernelActivity(kind="terminal", busy=False)

    def said(idle_min: int | None, kernel: models.KernelActivity, **changes: Any) -> int | None:
        lease = cluster.holder("user-b", 500, idle_min=idle_min, started_ms=started_ms)
        one = models.ActivityView(lease=lease, kernels=[kernel], **changes)
        return idle_rows(models.ActivityList(now_ms=cluster.NOW, activities=[one]))[
            0
        ].last_active_ms

    busy = unseen.model_copy(update={"busy": True})
    assert said(None, busy, reported_ms=cluster.NOW, gpu_active_ms=started_ms) == cluster.NOW
    assert said(40, unseen, reported_ms=cluster.NOW) == idle_since_ms
    assert said(None, unseen, reported_ms=cluster.NOW) == started_ms
    assert said(None, unseen) is None


def test_a_reclaim_tells_what_happens_next(cluster: Any) -> None:
    warned = cluster.holder("user-b", 500, idle_min=41)
    ended = warned.model_copy(update={"state": "ended"})

    def said(lease: models.LeaseView, *, forced: bool = False) -> str:
        return reclaimed_text(lease, forced=forced, now_ms=cluster.NOW)

    at = clock(warned.idle.warned_ms or cluster.NOW)
    assert said(warned) == (
        f"Announced at {at}: user-b's ½ GPU is returned in 10 min unless they keep it or start to work."
    )
    assert said(ended) == "user-b's ½ GPU is being returned now."
    # Its state is still that of a running one when the scheduler answers.
    assert said(warned, forced=True) == (
        "user-b's ½ GPU is being returned now: the notebook is stopped. Your reason is kept for user-b."
    )


def test_a_reclaim_promises_no_more_time_than_there_is(cluster: Any) -> None:
    """Asked for a second time, and of one who may not ask for more time again."""
    found = cluster.activities()
    quiet = next(one for one in found.activities if one.lease.user == "user-b")

    def told(**changes: Any) -> tuple[str, str]:
        idle = quiet.lease.idle.model_copy(update=changes)
        lease = quiet.lease.model_copy(update={"idle": idle})
        now = quiet.model_copy(update={"lease": lease})
        (row,) = idle_rows(found.model_copy(update={"activities": [now]}))
        return row.asks, reclaimed_text(lease, forced=False, now_ms=cluster.NOW)

    asks, said = told(returns_ms=cluster.NOW + 2 * cluster.MINUTE, reclaimed=True)
    assert "returned in 2 min unless they keep it or start to work" in asks
    assert "returned in 2 min unless they keep it or start to work" in said
    asks, said = told(keeps_left=0)
    assert "returned in 10 min unless they start to work" in asks
    assert "returned in 10 min unless they start to work" in said


def test_state_and_last_activity_of_an_idle_notebook_say_the_same(cluster: Any) -> None:
    """What was seen after the culler's last look counts in both columns."""
    found = cluster.activities()
    quiet = next(one for one in found.activities if one.lease.user == "user-b")
    for gpu_min, idle_min in ((9, 9), (90, 41)):
        seen_ms = cluster.NOW - gpu_min * cluster.MINUTE
        newer = quiet.model_copy(update={"gpu_active_ms": seen_ms})
        (row,) = idle_rows(found.model_copy(update={"activities": [newer]}))
        assert row.state == f"idle about {idle_min} min"
        assert row.last_active_ms == cluster.NOW - idle_min * cluster.MINUTE
    told = quiet.lease.idle.model_copy(update={"idle_since_ms": cluster.NOW - 29 * cluster.MINUTE})
    lease = quiet.lease.model_copy(update={"idle": told})
    (row,) = idle_rows(
        found.model_copy(update={"activities": [quiet.model_copy(update={"lease": lease})]})
    )
    assert (row.state, row.last_active_ms) == ("idle about 29 min", told.idle_since_ms)


@pytest.mark.parametrize(
    ("state", "started_s", "outcome", "in_vain"),
    [
        ("running", 1, "yes", False),
        ("succeeded", 1, "yes", False),
        ("nominated", None, "not yet: next, making room", False),
        ("starting", None, "not yet: starting", False),
        # It ran before, and waits again.
        ("nominated", -60, "not yet: next, making room", False),
        ("cancelled", None, "no: cancelled", True),
    ],
)
def test_a_receipt_says_whether_the_beneficiary_started(
    cluster: Any, state: str, started_s: int | None, outcome: str, in_vain: bool
) -> None:
    receipts = cluster.receipts().events
    started_ms = None if started_s is None else receipts[0].at_ms + started_s * 1000
    reserved_ms = receipts[0].at_ms
    attempt = AttemptView(
        id="a",
        number=1,
        state="running",
        hold_class="guaranteed",
        reserved_ms=reserved_ms,
        started_ms=started_ms,
    )
    told = {"state": state, "attempts": [attempt]}
    beneficiary = cluster.jobs().jobs[3].model_copy(update=told)

    row = eviction_rows(receipts, {cluster.BENEFICIARY: beneficiary})[0]

    assert (row.victim, row.beneficiary, row.rule) == (
        "vision/digits-7",
        "nlp/bert-3",
        "guarantee of nlp",
    )
    assert (row.lost_gpu_min, row.saved) == ("0.8", "step 5,430")
    assert (row.outcome, row.in_vain) == (outcome, in_vain)


@pytest.mark.parametrize(
    ("way", "saved"),
    [
        ("working_folder", "files of its own"),
        ("start_over", "no checkpoint"),
        (None, "no checkpoint"),
    ],
)
def test_a_receipt_without_a_checkpoint_does_not_say_that_nothing_was_saved(
    cluster: Any, way: str | None, saved: str
) -> None:
    receipt = cluster.receipts().events[0]
    data = receipt.data | {"checkpoint_step": None, "way_to_go_on": way}

    (row,) = eviction_rows([receipt.model_copy(update={"data": data})], {})

    assert row.saved == saved


@pytest.mark.parametrize(
    ("told", "outcome"),
    [("started", "yes"), ("waiting", "not yet"), ("ended", "no"), (None, "not known")],
)
def test_whether_it_started_is_said_to_those_who_may_not_see_it(
    cluster: Any, told: str | None, outcome: str
) -> None:
    (receipt,) = cluster.receipts().events
    hidden = receipt.data | {"beneficiary_id": None, "beneficiary_outcome": told}

    assert eviction_rows([receipt.model_copy(update={"data": hidden})], {})[0].outcome == outcome


@pytest.mark.parametrize(
    ("why", "rule"),
    [
        ("drill", "test that it can be stopped"),
        ("spot", "the cloud takes its node back"),
        ("pause", None),
        ("cancel", None),
    ],
)
def test_stops_that_nobody_asked_for_are_receipts_too(
    cluster: Any, why: str, rule: str | None
) -> None:
    receipt = cluster.receipts().events[0]
    of_nobody = {"beneficiary": None, "beneficiary_id": None, "rule": None, "why": why}
    change = {"kind": "stopped", "data": receipt.data | of_nobody}

    rows = eviction_rows([receipt.model_copy(update=change)], {})

    assert [(row.rule, row.beneficiary, row.outcome) for row in rows] == (
        [] if rule is None else [(rule, "–", "–")]
    )


def test_a_receipt_counts_in_what_the_job_counts_in(cluster: Any) -> None:
    receipts = cluster.receipts().events
    receipts[0].data["checkpoint_unit"] = "epoch"

    assert eviction_rows(receipts, {})[0].saved == "epoch 5,430"


def test_a_notebook_may_be_the_beneficiary(cluster: Any) -> None:
    events = cluster.receipts().events
    started = cluster.lease(state="active", started_ms=cluster.NOW)
    stopped = cluster.lease(
        state="ended", started_ms=cluster.NOW, ended_text="The server was stopped"
    )
    left = cluster.lease(state="ended", ended_text="withdrawn by alice")

    assert eviction_rows(events, {cluster.BENEFICIARY: started})[0].outcome == "yes"
    # What it did with the GPU afterwards is another matter.
    assert eviction_rows(events, {cluster.BENEFICIARY: stopped})[0].outcome == "yes"
    assert eviction_rows(events, {cluster.BENEFICIARY: left})[0].outcome == "no: withdrawn by alice"


def test_a_receipt_with_little_in_it_is_still_shown(cluster: Any) -> None:
    bare = cluster.receipts().events[0].model_copy(update={"data": {}})

    row = eviction_rows([bare], {})[0]

    assert (row.victim, row.rule, row.outcome) == ("digits-7 was stopped", "–", "not known")
    assert beneficiaries([bare]) == ()


@pytest.mark.parametrize("part", ["owner", "team", "project"])
def test_a_spreadsheet_never_gets_a_formula(cluster: Any, part: str) -> None:
    row = cluster.report().rows[0]
    quoted = {
        "=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0",
        "+1": "'+1",
        "-1": "'-1",
        "@x": "'@x",
        "\tx": "'\tx",
        "  =1": "'  =1",
        "＝1": "'＝1",
        # Where a semicolon parts cells, the second one would be a formula.
        "a;=1+1": "a;'=1+1",
        'a";"=1': 'a";\'"=1',
        "alice": "alice",
        "a-b": "a-b",
    }
    rows = [row.model_copy(update={part: name}) for name in quoted]
    report = models.Report(from_ms=0, to_ms=1, rows=rows)
    read = list(csv.reader(io.StringIO(report_csv(report), newline="")))

    at = ("team", "owner", "project").index(part)
    assert {cells[at] for cells in read[1:-1]} == set(quoted.values())


def test_the_report_sums_what_it_shows(cluster: Any) -> None:
    row = cluster.report().rows[0]
    blind = row.model_copy(update={"owner": "bob", "used_milli_gpu_h": None})

    report = models.Report(from_ms=0, to_ms=1, rows=[row, blind])
    shown = report_table(report, unknown="no data")

    assert shown.total == (
        "Total",
        "",
        "",
        "20.000",
        "8.100",
        "2.000",
        "4.000",
        "0.000",
        "0.200",
        "0.000",
    )
    assert shown.rows[1] == (
        "vision",
        "bob",
        "",
        "10.000",
        "no data",
        "1.000",
        "2.000",
        "",
        "0.100",
        "0.000",
    )


def test_teams_and_users_add_up_to_the_same_and_lent_is_a_teams(cluster: Any) -> None:
    lent = models.LentRow(team="nlp", lent_milli_gpu_h=1500, quota_milli_gpu_h=8000)
    report = cluster.report().model_copy(
        update={
            "lent": [lent],
            "lent_from_ms": 0,
            "lent_by_none_milli_gpu_h": 500,
            "all_teams": True,
            "capacity_milli_gpu_h": 20_000,
        }
    )

    teams, users = team_table(report, unknown="no data"), user_table(report, unknown="no data")

    assert teams.rows[0] == ("nlp", *["0.000"] * 4, "1.500", "0.000", "0.000")
    assert teams.total[1:5] == users.total[2:6] == ("10.000", "8.100", "1.000", "2.000")
    assert "Lent" in teams.columns
    assert "Lent" not in users.columns
    assert lent_sentence(report) == (
        "Of 2.000 borrowed GPU hours teams lent 1.500, and 0.500 came from GPUs in no team's quota."
    )
    # What each row is rounded by is no GPU of nobody's.
    by_teams = report.model_copy(update={"lent_by_none_milli_gpu_h": 0})
    assert lent_sentence(by_teams) == "All 2.000 borrowed GPU hours were lent by teams."
    assert [(figure.label, figure.value, figure.of) for figure in figures(report)] == [
        ("GPU hours in all", "20.0", ""),
        ("GPU hours held", "10.0", "50 %"),
        ("GPU hours really used, of all hours", "8.1", "40 %"),
        ("GPU hours held idle", "1.0", "5 %"),
        ("GPU hours lost at most", "0.1", "0 %"),
        ("GPU hours free", "10.0", "50 %"),
    ]


def test_who_sees_some_teams_alone_reads_no_sum_over_all(cluster: Any) -> None:
    report = cluster.report().model_copy(update={"all_teams": False})
    assert lent_sentence(report) == ""
    assert {figure.of for figure in figures(report)} == {""}


def test_minutes_of_a_share_are_not_zero_and_add_up_to_the_total(cluster: Any) -> None:
    row = cluster.report().rows[0]
    short = [
        row.model_copy(update={"owner": name, "held_milli_gpu_h": held})
        for name, held in (("ann", 4), ("bob", 3), ("cy", 4))
    ]
    report = models.Report(from_ms=0, to_ms=1, rows=short)

    held = [line.split(",")[3] for line in report_csv(report).splitlines()[1:]]

    assert held == ["0.004", "0.004", "0.003", "0.011"]
    assert [
        cells[3]
        for cells in (
            *report_table(report, unknown="no data").rows,
            report_table(report, unknown="no data").total,
        )
    ] == held


def test_a_month_is_read_or_the_present_one(cluster: Any) -> None:
    december = month_of("2026-12", cluster.NOW)

    assert december.to_ms - december.from_ms == 31 * 86_400_000
    assert month_of("", cluster.NOW).key == "2027-01"


@pytest.mark.parametrize("text", ["../..", "0000-00", "9999-12", "0001-01", "2026-13", "<b>", " "])
def test_what_is_no_month_is_refused_in_words(cluster: Any, text: str) -> None:
    with pytest.raises(BadRequest, match="write it as 2027-01, from 1970-01 to 2028-12"):
        month_of(text, cluster.NOW)


def test_more_time_is_counted_in_words(cluster: Any) -> None:
    found = cluster.activities()
    idle = next(one for one in found.activities if one.lease.user == "user-b")

    def shown(**changes: Any) -> str:
        after = idle.lease.idle.model_copy(update=changes)
        lease = idle.lease.model_copy(update={"idle": after})
        one = idle.model_copy(update={"lease": lease})
        return idle_rows(found.model_copy(update={"activities": [one]}))[0].more_time

    assert shown(keeps_left=2) == "may ask 2 more times"
    assert shown(keeps_left=0) == "may not ask again"
    kept = shown(keeps_left=1, kept_until_ms=cluster.NOW + 12 * cluster.MINUTE)
    assert kept == "asked: 12 min left, may ask once more"
