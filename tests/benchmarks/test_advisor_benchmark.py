"""The advisor's benchmark writes each figure by its name, and says which data was not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.advisor import coverage
from benchmarks.advisor.__main__ import main
from benchmarks.advisor.setting import TABLES


def test_figures_are_written_by_table_and_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, out = tmp_path / "tables", tmp_path / "out.json"
    tables.mkdir()
    for name in ("t1_convnet.csv", "t10_memory.csv", "t12_torchtune.csv", "t13_autotuner.csv"):
        shutil.copy(TABLES / name, tables / name)

    assert main(["--tables", str(tables), "--json", str(out)]) == 0

    lines = [json.loads(line) for line in out.read_text().splitlines()]
    found = {(line["table"], line["metric"]): line["value"] for line in lines}
    assert all({"table", "metric", "value", "n"} <= set(line) for line in lines)
    assert found["T1", "order"] == 100
    assert found["T10", "memory_percent"] < 2
    assert found["T12", "memory_percent"] < 12
    assert found["golden", "passed"] == 6
    assert found["T4", "spearman"] is None
    assert "its data is not here" in capsys.readouterr().out


def test_four_of_five_published_runs_lie_in_the_range_of_each_grade() -> None:
    found = {one.metric: one.value for one in coverage.figures(TABLES)}

    for metric in ("p10_p90_percent", "few_runs_percent", "formula_tables_percent"):
        assert 75 <= (found[metric] or 0) <= 85
