"""What a job runs and counts, in the words that all listings share."""

from __future__ import annotations

import pytest

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.jobs.listing import describe
from gpucommons.scheduler.models.text.job_summary import what_runs

FIELDS = {
    "id": "w-1", "name": "a-1", "owner": "ann", "team": "vision", "kind": "training",
    "state": "running", "priority": "normal", "submitted_ms": 0, "workers": 1, "milli_gpu": 1000,
    "submitted_by": "ann", "pools": [], "over_quota": True, "since_ms": 0,
}  # fmt: skip


def test_a_command_is_shown_with_its_quotes() -> None:
    role = {"command": ["bash", "-c", "cd mnist && python main.py --epochs 8"], "milli_gpu": 500}
    request = models.JobRequest.model_validate({"name": "a", "roles": [role]})
    assert what_runs(request) == "½ GPU: bash -c 'cd mnist && python main.py --epochs 8'"


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        ({"step": 7280, "unit": "sample", "metrics": {"Loss": 0.134}}, "sample 7280  Loss 0.134"),
        (
            {"step": 1500, "unit": "epoch", "metrics": {"epoch": 1.5, "loss": 1}},
            "epoch 1.5  loss 1",
        ),
        ({"step": 3, "metrics": {"epoch": 3, "loss": 0.5}}, "epoch 3  loss 0.5"),
        ({"step": 3, "metrics": {"loss": 0.5}}, "step 3  loss 0.5"),
    ],
)
def test_progress_is_in_what_the_script_counts(progress: dict[str, object], line: str) -> None:
    view = models.JobView.model_validate(FIELDS | {"progress": {"at_ms": 0, **progress}})
    assert f"  {line}" in describe(view).splitlines()


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (["n1"], "another of equal nodes is taken"),
        (["n1", "n2"], "a job on several nodes first looks for others"),
    ],
)
def test_what_avoids_a_slow_place_is_said_as_it_is_done(nodes: list[str], said: str) -> None:
    slow = {"nodes": nodes, "percent": 30, "since_ms": 0, "until_ms": 1}
    attempt = {
        "id": "x",
        "number": 1,
        "state": "running",
        "hold_class": "guaranteed",
        "reserved_ms": 0,
    }
    told = {"attempts": [attempt | {"nodes": nodes, "slow": [slow]}]}
    view = models.JobView.model_validate(FIELDS | told)
    (line,) = [line for line in describe(view).splitlines() if "30 % longer" in line]
    assert line.endswith(said)
