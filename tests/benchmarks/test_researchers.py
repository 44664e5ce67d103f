"""Twenty researchers on their own machines and on all: the same jobs, more of them done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quota_replay import researchers


def test_both_sides_play_the_same_jobs_and_sharing_starts_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.json"
    assert researchers.main(["--days", "3", "--json", str(path)]) == 0
    before, after = map(json.loads, path.read_text().splitlines())
    assert (before["policy"], after["policy"]) == ("before", "after")
    assert before["jobs"] == after["jobs"] > 100
    for better in ("completed", "multi_gpu_started", "in_use_percent"):
        assert after[better] > before[better]
    said = capsys.readouterr().out
    assert all(text in said for text in researchers.ASSUMPTIONS)


def test_a_group_holds_no_more_than_its_own_before() -> None:
    days_ms = 2 * 24 * 3_600_000
    record = researchers.played(researchers.drawn(2, 2), shares=False, until_ms=days_ms)
    level: dict[str, int] = {}
    most = 0
    for _, team, change in record.levels:
        level[team] = level.get(team, 0) + change
        most = max(most, level[team])
    assert 0 < most <= 1000 * researchers.gpus() // 4
