"""The advisor's benchmark writes each figure by its name, and says which data was not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.advisor import coverage, real_torch
from benchmarks.advisor.__main__ import main
from benchmarks.advisor.setting import TABLES


def test_figures_are_written_by_table_and_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, out = tmp_path / "tables", tmp_path / "out.json"
    tables.mkdir()
    for name in ("t1_convnet.csv", "t10_memory.csv", "t12_torchtune.csv", "t13_autotuner.csv"):
        shutil.copy(TABLES / name, tables / name)

    assert (
        main(["--parts", "tables", "golden", "public", "--tables", str(tables), "--json", str(out)])
        == 0
    )

    lines = [json.loads(line) for line in out.read_text().splitlines()]
    found = {(line["table"], line["metric"]): line["value"] for line in lines}
    assert all({"table", "metric", "value", "n"} <= set(line) for line in lines)
    assert found["T1", "order"] == 100
    assert found["T10", "memory_percent"] < 2
    assert found["T12", "memory_percent"] < 12
    assert found["golden", "passed"] == 6
    assert found["T4", "spearman"] is None
    assert "its data is not here" in capsys.readouterr().out


def test_four_of_five_published_runs_lie_in_the_range_of_grades_b_and_c() -> None:
    figures = [*coverage.by_formula(TABLES), *coverage.after_few(TABLES)]
    found = {one.metric: one.value for one in figures}

    for metric in ("few_runs_percent", "one_row_percent", "formula_tables_percent"):
        assert 75 <= (found[metric] or 0) <= 85


def test_steps_of_real_trainings_are_read_from_quiet_rounds_or_by_the_processor() -> None:
    network = {"parameters": 250_000, "forward_flops": 1e6, "activation_bytes": 1e3}
    known = {"gemm_tflops": 0.1, "inside_gb_s": 1.0, "inside_us": 100.0}

    def told(waited: float, two_s: float) -> dict[str, object]:
        """Twice as fast on two, but for the gradients' millisecond; disturbed rounds say otherwise."""
        rounds = {
            name: [[s, s * waited, own], [s, s * waited, own], [9.0, 8.9, own], [8.0, 7.9, own]]
            for name, s, own in (
                ("probe", 0.02, 0.02),
                ("one", 0.02, 0.02),
                ("half", 0.01, 0.01),
                ("two", two_s, 0.0125),
            )
        }
        one = {"network": network, "batch": 64, "rounds": rounds}
        return {"copied_bytes_per_s": 1e10, "models": {"a": one, "b": one}}

    for waited, two_s in ((0.0, 0.0125), (0.5, 0.05)):
        found = {one.metric: one for one in real_torch.of_measured(known, told(waited, two_s))}
        assert (found["median_percent"].value or 99) < 10
        assert found["median_percent"].n == 2
        assert found["median_percent"].trivial == pytest.approx(20)
        assert found["waited_percent"].value == pytest.approx(100 * waited)
