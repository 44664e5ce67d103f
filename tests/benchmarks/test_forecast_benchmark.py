"""Forecasts on held-back days, on a trace small enough to see what must come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.forecast import main, wilson

DAY, HOUR = 1440, 60


def test_an_interval_is_that_of_the_books() -> None:
    assert wilson(90, 100) == (82.6, 94.5)
    assert wilson(20, 20) == (83.9, 100.0)
    assert wilson(0, 0) is None


def test_jobs_that_always_run_an_hour_are_forecast_and_counted_by_moments(tmp_path: Path) -> None:
    trace, out = tmp_path / "t.csv", tmp_path / "out"
    # For ten days, every four hours, three jobs for one machine: the second has to wait an hour,
    # the third two.
    hours = [(day, hour) for day in range(10) for hour in range(0, 24, 4)]
    rows = [
        f"{day}-{hour}-{n},ann,8,{day * DAY + hour * HOUR},{HOUR}"
        for day, hour in hours
        for n in range(3)
    ]
    trace.write_text("job_id,user,num_gpu,submit_time,duration\n" + "\n".join(rows) + "\n")
    given = ["--trace", str(trace), "--json", str(out), "--moments", "6", "--processes", "1"]
    assert main([*given, "--load", "0.75"]) == 0
    found = json.loads(out.read_text())
    assert (found["moments"], found["forecast"], found["windows"]) == (12, 12, 12)
    assert found["unknown_percent"] == 0
    assert found["uncalibrated_p90_percent"] >= 80
    # Two jobs at each of six moments, of which one waits for the time of the other as well.
    assert found["counted"] == pytest.approx(6 * 2 / 1.5, abs=1)
    assert found["p90_interval_percent"][0] < found["p90_covers_counted_percent"] <= 100
