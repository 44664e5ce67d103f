"""At a later start the teams are those that the scheduler keeps, whatever stands in the file."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.models import ConfigModel, TeamModel
from gpucommons.scheduler.up import configuration, machine
from gpucommons.scheduler.up.configuration import config_in_force

FILE = ConfigModel(teams=[TeamModel(name="vision", members=["alice"])])
IN_FORCE = ConfigModel(
    teams=[TeamModel(name="vision", members=["alice"]), TeamModel(name="speech", members=["sam"])]
)


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """One that answers what a test says, or is away."""
    said = SimpleNamespace(answer=IN_FORCE)

    class Scheduler:
        def __init__(self, _url: str) -> None: ...

        def __enter__(self) -> Scheduler:
            return self

        def __exit__(self, *_: object) -> None: ...

        def send(self, call: Any) -> Any:
            assert call == calls.get_config()
            if isinstance(said.answer, Exception):
                raise said.answer
            return said.answer

    monkeypatch.setattr(configuration, "SchedulerClient", Scheduler)
    return said


def test_teams_are_asked_for_where_the_scheduler_has_its_own(scheduler: SimpleNamespace) -> None:
    assert config_in_force(Path("/nowhere"), FILE) == IN_FORCE


def test_a_scheduler_that_does_not_tell_leaves_what_the_file_says(
    scheduler: SimpleNamespace,
) -> None:
    scheduler.answer = Unavailable("It is starting.")
    assert config_in_force(Path("/nowhere"), FILE) == FILE


def test_who_was_added_to_a_team_while_it_ran_may_log_in_from_the_next_start_on(
    scheduler: SimpleNamespace, tmp_path: Path
) -> None:
    folder = SimpleNamespace(
        root=tmp_path,
        agent=tmp_path / "agent",
        homes=tmp_path / "homes",
        hub_config=tmp_path / "jupyterhub_config.py",
    )
    settings = SimpleNamespace(
        hub=True,
        beside="",
        port=8000,
        account="root",
        account_template="{username}",
        admission="trusted",
        admins=("admin",),
    )
    made = SimpleNamespace(settings=settings, folder=folder, ports={}, api_url="", pages_url="")
    run: Any = machine._Run(settings, folder)  # type: ignore[arg-type]
    plan: Any = machine._Plan(machine=made, config=FILE, devices=(), started_before=True)  # type: ignore[arg-type]

    found = run._with_teams_in_force(plan)

    facts = json.loads((tmp_path / "hub.json").read_text())
    assert facts["users"] == ["admin", "alice", "sam"]
    assert facts["teams"]["speech"] == ["sam"]
    assert found.config == IN_FORCE
