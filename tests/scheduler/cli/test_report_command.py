"""The usage report, for people, programs and spreadsheets."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import Cli, WatchedWorld

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.present import printable
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Kind,
    Millis,
    PoolName,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.models.text import report_parquet
from gpucommons.scheduler.models.text.report_rows import report_csv
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.store.quota_minutes.base import QuotaMinute

HOUR_MS = 3_600_000
NOVEMBER_MS = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)


def held(world: WatchedWorld, owner: str, hours: int, at_ms: int, **changes: object) -> None:
    row = LedgerRow(
        workload_id=WorkloadId(f"w-{owner}"),
        minute_ms=Millis(at_ms),
        team=TeamName("vision"),
        pool=PoolName("gpu"),
        owner=UserName(owner),
        kind=Kind.TRAINING,
        hold_class=HoldClass.OVER_QUOTA,
        held_milli_gpu_ms=hours * 1000 * HOUR_MS,
        **changes,  # type: ignore[arg-type]
    )
    world.store.add_ledger(world.epoch, [row])


@pytest.fixture(autouse=True)
def _ledger(world: WatchedWorld) -> None:
    world.now_ms = Millis(NOVEMBER_MS + 30 * 24 * HOUR_MS)
    parked = {"parked_milli_gpu_ms": 2500 * HOUR_MS}
    held(world, "ann", 12, NOVEMBER_MS, compute_percent_mean=50, **parked)
    held(world, "ada", 3, NOVEMBER_MS + HOUR_MS, lost_milli_gpu_ms=1000 * HOUR_MS)
    held(world, "october", 1, NOVEMBER_MS - HOUR_MS)


def test_a_month_is_reported_in_gpu_hours(cli: Cli) -> None:
    lines = cli("report", "--month", "2026-11", by="root").out.splitlines()

    assert lines[0].split() == [
        "TEAM", "OWNER", "PROJECT", "HELD", "USED", "IDLE", "BORROWED", "LENT", "LOST", "PARKED",
    ]  # fmt: skip
    assert [line.split() for line in lines[1:-2]] == [
        ["vision", "ann", "12.000", "6.000", "0.000", "12.000", "0.000", "2.500"],
        ["vision", "ada", "3.000", "unknown", "0.000", "3.000", "1.000", "0.000"],
        ["Total", "15.000", "6.000", "0.000", "15.000", "0.000", "1.000", "2.500"],
    ]
    assert lines[-2:] == ["GPU hours", "Who lent 15.000 of the borrowed GPU hours is not known."]


def test_use_of_simulated_gpus_is_said_to_be_so_in_the_table_and_the_spreadsheet(
    cli: Cli, world: WatchedWorld
) -> None:
    said = "Simulated: the GPUs of gpu have no hardware; what was used of them is processor time."
    month = ("report", "--month", "2026-11")
    assert said not in cli(*month, by="root").out
    pools = {name: replace(pool, simulated=True) for name, pool in world.cluster.pools.items()}
    world.loop._cluster = replace(world.cluster, pools=pools)
    assert said in cli(*month, by="root").out.splitlines()
    spreadsheet = csv.reader(io.StringIO(cli(*month, "--csv", by="root").out))
    assert [said] in list(spreadsheet)


def test_what_a_team_lent_has_a_line_of_its_own(cli: Cli, world: WatchedWorld) -> None:
    row = QuotaMinute(
        minute_ms=Millis(NOVEMBER_MS),
        pool=PoolName("gpu"),
        team=TeamName("nlp"),
        size=9000 * HOUR_MS,
        lent=4000 * HOUR_MS,
    )
    world.store.quota_minutes.put(world.epoch, [row])

    answer = cli("report", "--month", "2026-11", "--csv", by="root")
    rows = list(csv.DictReader(io.StringIO(answer.out)))

    assert [(one["Team"], one["User"], one["Held"], one["Lent"]) for one in rows] == [
        ("nlp", "(team)", "0.000", "4.000"),
        ("vision", "ann", "12.000", ""),
        ("vision", "ada", "3.000", ""),
        ("Total", "", "15.000", "4.000"),
    ]


def test_json_carries_the_span_and_integers(cli: Cli) -> None:
    answer = cli("report", "--month", "2026-11", "--output", "json", by="root").json

    assert answer["from_ms"] == NOVEMBER_MS
    assert answer["to_ms"] == NOVEMBER_MS + 30 * 24 * HOUR_MS
    assert [row["held_milli_gpu_h"] for row in answer["rows"]] == [3000, 12000]


def test_a_spreadsheet_reads_the_numbers_and_obeys_no_name(cli: Cli, world: WatchedWorld) -> None:
    names = ["=cmd()", "+1", "-1", "@SUM(A1)", 'a"b', "a,b", "\x1b[2J", "\t=1"]
    for name in names:
        held(world, name, 1, NOVEMBER_MS)

    answer = cli("report", "--month", "2026-11", "--csv", by="root")
    read = list(csv.reader(io.StringIO(answer.out)))

    owners = {row[1] for row in read[1:]}
    assert tuple(read[0]) == models.REPORT_COLUMNS
    assert {"'=cmd()", "'+1", "'-1", "'@SUM(A1)", 'a"b', "a,b", "[2J", "'\t'=1"} <= owners
    assert all(len(row) == 10 for row in read)
    assert not any(cell[:1] in ("=", "+", "-", "@", "\t") for row in read for cell in row)
    ada = next(row for row in read if row[1] == "ada")
    assert (float(ada[3]), ada[4]) == (3.0, "")


def test_the_spreadsheet_is_that_of_the_page(cli: Cli) -> None:
    asked = ("report", "--month", "2026-11")
    report = models.Report.model_validate(cli(*asked, "--output", "json", by="root").json)
    by_command = cli(*asked, "--csv", by="root").out

    # A terminal gets nothing that it would obey.
    assert by_command == printable(report_csv(report))
    assert by_command.splitlines()[-1].startswith("Total,,,")
    assert cli(*asked, by="root").out.splitlines()[-3].startswith("Total ")


def test_a_december_ends_with_its_year(cli: Cli) -> None:
    answer = cli("report", "--month", "2026-12", "--output", "json", by="root").json

    assert answer["to_ms"] == int(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    "options", [("--month", "2026-13"), ("--month", "=1"), ("--days", "0"), ("--days", "x"),
                ("--days", "1", "--month", "2026-11"), ("--days", "999999999")]
)  # fmt: skip
def test_a_bad_span_is_refused(cli: Cli, options: tuple[str, ...]) -> None:
    answer = cli("report", *options, by="root")

    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err


def test_members_see_their_own_teams_alone(cli: Cli) -> None:
    own = cli("report", "--month", "2026-11", "--output", "json", by="ann")
    others = cli("report", "--month", "2026-11", "--output", "json", by="bob")

    assert {row["team"] for row in own.json["rows"]} <= {"vision"}
    assert others.json["rows"] == []


def test_parquet_has_the_rows_with_numbers_as_numbers(
    cli: Cli, world: WatchedWorld, tmp_path: Path
) -> None:
    held(world, "=cmd()", 1, NOVEMBER_MS, project="thesis")
    asked, path = ("report", "--month", "2026-11"), tmp_path / "november.parquet"

    answer = cli(*asked, "--parquet", str(path), by="root")

    assert answer.out == f"{path} holds 3 rows by user, and what teams lent.\n"
    read = {row["user"]: row for row in pq.read_table(path).to_pylist()}
    assert read["ann"]["held_gpu_hours"] == 12.0
    assert read["ann"]["used_gpu_hours"] == 6.0
    assert read["ada"]["used_gpu_hours"] is None
    assert [read[name]["parked_gpu_hours"] for name in ("ann", "ada")] == [2.5, 0.0]
    # Nothing obeys it: it is no spreadsheet.
    assert read["=cmd()"]["project"] == "thesis"
    total = csv.DictReader(io.StringIO(cli(*asked, "--csv", by="root").out))
    assert sum(row["held_gpu_hours"] for row in read.values()) == float([*total][-1]["Held"])
    again = cli(*asked, "--parquet", str(path), by="root")
    assert (again.code, "cannot be written: File exists" in again.err) == (2, True)


def test_without_the_library_it_is_said_what_brings_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(report_parquet, "find_spec", lambda _name: None)
    answer = cli("report", "--parquet", str(tmp_path / "x"), by="root")
    assert "pip install 'gpucommons[reports]'" in answer.err
    assert not (tmp_path / "x").exists()


def test_sample_data_are_refused_where_there_are_none(cli: Cli) -> None:
    answer = cli("report", "--sample", by="root")
    assert (answer.code, "only a demo has some" in answer.err) == (2, True)
