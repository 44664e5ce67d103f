"""The tour of a real release, without one: its values fit `gpucommons install`, and it says what it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from benchmarks.tour_z2jh import __main__ as tour
from benchmarks.tour_z2jh.values import of_hub
from gpucommons.scheduler.cli import main

ROOT = Path(__file__).parents[2]


def test_the_values_of_the_hub_are_completed_by_install_alone(tmp_path: Path) -> None:
    values = tmp_path / "z2jh.yaml"
    values.write_text(yaml.safe_dump(of_hub("secret")))
    words = ["--values", str(values), "--hub-image", "localhost/hub:1", "--apply"]
    assert main(["install", *words, "--notebook-image", "localhost/notebook:1"]) == 0
    written = yaml.safe_load(values.read_text())
    assert "configure_cluster" in str(written["hub"]["extraConfig"])
    assert written["hub"]["image"] == {"name": "localhost/hub", "tag": "1"}
    assert written["proxy"]["chp"]["image"]["name"] == "localhost/configurable-http-proxy"


def test_a_tour_that_lacks_something_says_what() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tour_z2jh", "--z2jh", "/nowhere"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "tour: " in done.stderr


def test_what_was_not_played_is_null_with_its_reason() -> None:
    assert all(tour.NOT_PLAYED.values())
    assert "submit_in_browser" in tour.NOT_PLAYED
