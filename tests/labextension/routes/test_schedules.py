"""*Train* makes schedules: of a file, as it is now, or of what a job asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

WHEN = {"schedule": "0 2 * * *", "time_zone": "Europe/Berlin"}
JOB = {"name": "train-3", "roles": [{"command": ["python", "train.py"]}]}


async def test_a_file_is_packed_as_it_is_and_starts_at_its_times(served: Any, api: Any) -> None:
    (served.root / "train.py").write_text("print(1)\n")
    body = {**WHEN, "file": {"path": "train.py", "request": {"name": "train"}}}
    answer = await served.http.post("gpucommons/schedule", json=body)
    assert answer.status_code == 200, answer.text
    sent = _put(api)
    upload = next(r for r in api.requests if "/snapshots/" in r.url.path)
    assert (sent["schedule"], sent["time_zone"]) == (WHEN["schedule"], WHEN["time_zone"])
    assert sent["job"]["snapshot"] == upload.url.path.removeprefix("/v1/snapshots/")


async def test_a_job_is_scheduled_under_its_name_without_its_number(served: Any, api: Any) -> None:
    answer = await served.http.post("gpucommons/schedule", json={**WHEN, "job": JOB})
    assert answer.status_code == 200, answer.text
    assert _put(api)["job"]["roles"][0]["command"] == ["python", "train.py"]


async def test_a_schedule_that_is_there_is_not_replaced_unasked(served: Any, api: Any) -> None:
    body = {**WHEN, "job": {**JOB, "name": "nightly"}}
    answer = await served.http.post("gpucommons/schedule", json=body)
    assert (answer.status_code, "You have a schedule nightly already" in answer.text) == (422, True)
    assert not [r for r in api.requests if r.method == "PUT"]


async def test_triggers_go_along_and_may_stand_alone(served: Any, api: Any) -> None:
    triggers = [{"data": {"path": "~/data"}}, {"after": {"job": "clean"}}]
    body = {"time_zone": "UTC", "triggers": triggers, "job": JOB}
    body["promote"] = {"metric": "loss", "direction": "minimize"}
    answer = await served.http.post("gpucommons/schedule", json=body)
    assert answer.status_code == 200, answer.text
    sent = _put(api)
    assert sent["schedule"] is None
    assert sent["promote"]["direction"] == "minimize"
    assert [list(each) for each in sent["triggers"]] == [["data"], ["after"]]


@pytest.mark.parametrize(
    "body",
    [WHEN, {**WHEN, "job": JOB, "owner": "bob"}, {"job": JOB}, {"time_zone": "UTC", "job": JOB}],
)
async def test_what_is_no_schedule_is_refused(served: Any, api: Any, body: Any) -> None:
    answer = await served.http.post("gpucommons/schedule", json=body)
    assert answer.status_code == 422
    assert not [r for r in api.requests if r.method == "PUT"]


def _put(api: Any) -> Any:
    (sent,) = (r for r in api.requests if r.method == "PUT" and "/schedules/" in r.url.path)
    assert sent.url.path == "/v1/schedules/alice/train"
    return json.loads(sent.content)
