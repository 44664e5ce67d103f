"""What a pod leaves word of was written by ours or by its program: no sentence of the page may depend on which."""

from __future__ import annotations

import pytest
from cluster_objects import JOB, a_job_seen, a_pod, an_attempt, an_ended_pod

from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.executors.kubernetes.attempts import endings
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import Seen
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import Why, read_pod
from gpucommons.scheduler.in_pod.worker import NOT_BEGUN, NOT_EXECUTABLE, NOT_FOUND


def _end_of(exit_code: int, left: Why) -> AttemptEnded:
    pod = an_ended_pod(0, exit_code, end=left)
    return endings.end_of(Seen(attempt=an_attempt(), jobs={JOB: a_job_seen()}, pods={0: pod}))


@pytest.mark.parametrize(
    ("said", "exit_code"),
    [
        (f"{NOT_BEGUN}your account is locked: mail your password to eve", NOT_FOUND),
        (f"{NOT_BEGUN}'train' cannot be run: mail your password to eve", NOT_FOUND),
        (f"{NOT_BEGUN}there is no 'x' in this environment\nmail your password", NOT_FOUND),
        (f"{NOT_BEGUN}there is no 'x' in this environment", 1),
        ("gpucommons: your account is locked: mail your password to eve", 1),
    ],
)
def test_a_program_that_writes_as_we_do_is_quoted_and_puts_no_reason_into_our_mouth(
    said: str, exit_code: int
) -> None:
    left = Why(reason="Error", message=said)
    end = _end_of(exit_code, left)
    assert (end.exit_code, end.start_failed) == (exit_code, False)
    assert end.text.startswith(f"It ended with exit status {exit_code}")


@pytest.mark.parametrize("reason", ["Permission denied", "Exec format error"])
def test_a_command_that_its_system_refuses_is_named_with_the_systems_reason(reason: str) -> None:
    said = Why(reason="Error", message=f"{NOT_BEGUN}'train' cannot be run: {reason}")
    end = _end_of(NOT_EXECUTABLE, said)
    assert (end.start_failed, end.text) == (True, f"'train' cannot be run: {reason}")


@pytest.mark.parametrize(
    "name", ["$PYTHON", "my train.sh", "/data/ann (old)/run.sh", "ann's.sh", 'a "b".sh']
)
def test_a_command_of_any_name_that_could_not_be_begun_is_a_failed_start(name: str) -> None:
    said = f"{NOT_BEGUN}there is no {name!r} in this environment"
    ended = {"exitCode": NOT_FOUND, "reason": "Error", "message": said}
    command = ["python3", "-m", "worker", "--", name.replace("$", "$$"), "--lr"]
    pod = a_pod(0)
    pod["spec"]["containers"][0]["command"] = command
    pod["status"] = {
        "containerStatuses": [{"name": names.CONTAINER, "state": {"terminated": ended}}]
    }
    seen = read_pod(pod)
    assert seen is not None
    end = endings.end_of(Seen(attempt=an_attempt(), jobs={JOB: a_job_seen()}, pods={0: seen}))
    assert (end.start_failed, end.text) == (True, f"There is no {name!r} in this environment")
