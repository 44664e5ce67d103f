"""The tour of a cluster holds: everything real, from the click to the culled pod."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.fixtures import need, need_root
from tests.kubernetes.node.real_node import PROGRAMS

ROOT = Path(__file__).parents[2]


@pytest.mark.kubernetes
@pytest.mark.timeout(900)
def test_a_notebook_trains_on_two_nodes_gives_way_and_outlives_its_pod(tmp_path) -> None:
    need_root()
    need(*PROGRAMS, "versitygw")
    figures = tmp_path / "figures.json"

    played = subprocess.run(
        [sys.executable, "-m", "benchmarks.tour_kubernetes", "--json", figures],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )

    assert played.returncode == 0, played.stdout + played.stderr
    found = json.loads(figures.read_text())
    assert found["final_numbers_equal"]
    assert (found["doubled_attempts"], found["pods_left"]) == (0, 0)
    if os.environ.get("REQUIRE_CRIU") == "1":
        assert (found["rows"], found["kernels_moved"]) == (["D10"], 2)
