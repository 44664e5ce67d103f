"""`up --stop-jobs` ends what runs, also where one of them ends by itself just then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.scheduler.errors import InvalidTransition
from gpucommons.scheduler.up import stop_jobs


def test_a_job_that_has_just_ended_keeps_no_other_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancelled: list[str] = []
    live = ["ends-by-itself", "runs-on"]

    class Scheduler:
        def __init__(self, _url: str) -> None: ...

        def __enter__(self) -> Scheduler:
            return self

        def __exit__(self, *_: object) -> None: ...

        def send(self, call: Any) -> Any:
            if call.method == "GET":
                found = [SimpleNamespace(id=name, name=name) for name in live]
                return SimpleNamespace(jobs=found, cursor=None)
            name = call.path.split("/")[-2]
            cancelled.append(name)
            live.remove(name)
            if name == "ends-by-itself":
                raise InvalidTransition("It is finished: nothing more can be done with it.")
            return None

    monkeypatch.setattr(stop_jobs, "SchedulerClient", Scheduler)
    assert stop_jobs.end_jobs(Path("/nowhere")) == "Ended 2 training jobs."
    assert cancelled == ["ends-by-itself", "runs-on"]
