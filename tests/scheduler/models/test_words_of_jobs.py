"""What a job runs and counts, in the words that all listings share."""

from __future__ import annotations

import pytest

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.jobs.listing import describe
from gpucommons.scheduler.models.text.job_summary import what_runs


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
    fields = {
        "id": "w-1", "name": "a-1", "owner": "ann", "team": "vision", "kind": "training",
        "state": "running", "priority": "normal", "submitted_ms": 0, "workers": 1, "milli_gpu": 1000,
        "submitted_by": "ann", "pools": [], "over_quota": True, "since_ms": 0,
        "progress": {"at_ms": 0, **progress},
    }  # fmt: skip
    view = models.JobView.model_validate(fields)
    assert f"  {line}" in describe(view).splitlines()
