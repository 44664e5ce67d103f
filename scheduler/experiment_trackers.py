"""What experiment trackers of others are told of a job: their own runs carry its id, and can be found by it."""

from __future__ import annotations

import json
from collections.abc import Mapping

#: A tag of MLflow's runs.
JOB_TAG = "gpucommons.job"
_ATTEMPT_TAG = "gpucommons.attempt"
#: Tags that MLflow gives to each run by itself.
_CONTEXT = "MLFLOW_RUN_CONTEXT"


def variables(job_id: str, attempt: int, asked: Mapping[str, str]) -> dict[str, str]:
    """For the job's workers; what its user asked for stays."""
    if _CONTEXT in asked:
        return {}
    return {_CONTEXT: json.dumps({JOB_TAG: job_id, _ATTEMPT_TAG: str(attempt)})}
