"""``gpucommons doctor`` as a program, on machines that the fake NVML pretends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest


@pytest.fixture
def doctor(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    def run(*arguments: str, **env: str) -> tuple[int, str]:
        done = subprocess.run(
            [str(Path(sys.executable).parent / "gpucommons"), "doctor",
             "--state", str(tmp_path / "state"), *arguments],
            env=os.environ | env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout

    return run


def test_a_machine_without_a_gpu_is_told_so(doctor: Any) -> None:
    code, text = doctor("--output", "json")
    document = json.loads(text)
    assert document["isolation"] == "none"
    checks = {one["check"]: one for one in document["findings"]}
    assert checks["GPUs"]["level"] == "advice"
    # The exit status says whether anything stops work.
    assert code == any(one["level"] == "problem" for one in document["findings"])


def test_a_machine_with_gpus_names_what_it_can_enforce(
    doctor: Any, nvml_state: ModuleType, build_fake_nvml: Any, tmp_path: Path
) -> None:
    machine = nvml_state.FakeNvml(tmp_path / "nvml-state", cards=2)
    machine.driver("580.95.05")
    machine.can_be_cut(("1g.5gb", 1, 7, 4864), ("2g.10gb", 2, 3, 9856), ("7g.40gb", 7, 1, 40192))
    env = {"LD_LIBRARY_PATH": str(build_fake_nvml()), "FAKE_NVML_STATE": str(machine.path)}
    _, text = doctor(**env)
    assert "2 x A100-40" in text
    assert "580.95.05" in text
    assert "¼ needs 2g.10gb (3 a card)" in text
    assert text.startswith(("Isolation of fractions: watched.", "Isolation of fractions: coop"))


def test_beside_a_running_demo_it_speaks_of_the_demos_accounts(doctor: Any, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "hub.json").write_text(json.dumps({"admission": "trusted"}))
    mine = psutil.Process()

    def accounts(created: float) -> str:
        running = {"hub": {"pid": mine.pid, "created": created}}
        (state / "pids.json").write_text(json.dumps(running))
        _, text = doctor()
        return next(line for line in text.splitlines() if line.startswith("accounts"))

    assert "all users share one account, as asked" in accounts(mine.create_time())
    # What ran there once says nothing about the next start.
    assert "as asked" not in accounts(mine.create_time() - 100)


def test_a_driver_that_does_not_answer_is_no_traceback(
    doctor: Any, build_fake_nvml: Any, tmp_path: Path
) -> None:
    env = {"LD_LIBRARY_PATH": str(build_fake_nvml()), "FAKE_NVML_STATE": str(tmp_path / "none")}
    _, text = doctor(**env)
    assert "no GPU:" in text
