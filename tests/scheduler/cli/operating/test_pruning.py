"""``apply --prune``: what a file does not name goes, unless something would be lost by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Cli, WatchedWorld, submitted
from service_world import ADMIN, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.principal import PrincipalKind
from gpucommons.scheduler.service.administration import settings

VISION = {"gpu": {"guaranteed_milli_gpu": 1000}}
NLP = {"name": "nlp", "quotas": {"gpu": {"fixed_milli_gpu": 1000}}}


@pytest.fixture(autouse=True)
def file(home: Path) -> Path:
    """The file of Git: only one of the two teams is in it."""
    return written(home, {"teams": [NLP]})


def written(folder: Path, document: Any) -> Path:
    path = folder / "all.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def names(world: WatchedWorld) -> set[str]:
    return set(world.cluster.teams)


def test_a_team_that_the_file_does_not_name_goes(cli: Cli, world: WatchedWorld) -> None:
    told = cli("apply", "-f", "all.yaml", "--prune", "--dry-run", by="root")
    assert "vision was removed." in told.out
    assert names(world) == {"nlp", "vision"}

    applied = cli("apply", "-f", "all.yaml", "--prune", by="root")
    assert "vision was removed." in applied.out
    assert names(world) == {"nlp"}
    again = cli("apply", "-f", "all.yaml", "--prune", by="root")
    assert (again.code, again.out) == (0, "Nothing changed.\n")


def test_without_prune_it_stays(cli: Cli, world: WatchedWorld) -> None:
    assert cli("apply", "-f", "all.yaml", by="root").code == 0
    assert names(world) == {"nlp", "vision"}


def test_while_it_has_work_nothing_is_applied(cli: Cli, world: WatchedWorld) -> None:
    submitted(world)
    before = world.cluster.teams
    for more in ((), ("--dry-run",)):
        refused = cli("apply", "-f", "all.yaml", "--prune", *more, by="root")
        assert refused.code == 1
        assert "vision still has 1 workload" in refused.err
        assert world.cluster.teams == before


def test_forced_it_loses_its_quotas_and_goes_once_its_work_has_ended(
    cli: Cli, world: WatchedWorld
) -> None:
    job = submitted(world)
    forced = cli("apply", "-f", "all.yaml", "--prune", "--force", by="root")
    assert forced.code == 0
    assert "vision stays without quotas: it still has work." in forced.out
    vision = world.cluster.teams[TeamName("vision")]
    assert (vision.quotas, vision.leads) == ({}, frozenset({"ada"}))

    cli("cancel", job.id, by="ann")
    world.pass_time(60_000)
    assert cli("apply", "-f", "all.yaml", "--prune", "--force", by="root").code == 0
    assert names(world) == {"nlp"}


def test_forced_a_department_stays_above_a_team_that_has_work(
    cli: Cli, world: WatchedWorld, home: Path
) -> None:
    job = submitted(world)
    both = [{"name": "dept"}, {"name": "vision", "parent": "dept", "quotas": VISION}, NLP]
    written(home, {"teams": both})
    assert cli("apply", "-f", "all.yaml", by="root").code == 0
    written(home, {"teams": [NLP]})
    forced = cli("apply", "-f", "all.yaml", "--prune", "--force", by="root")
    assert forced.code == 0, forced.err
    assert "dept stays: it is above a team that stays." in forced.out
    assert names(world) == {"dept", "nlp", "vision"}

    cli("cancel", job.id, by="ann")
    world.pass_time(60_000)
    assert cli("apply", "-f", "all.yaml", "--prune", "--force", by="root").code == 0
    assert names(world) == {"nlp"}


def test_a_team_that_an_operator_keeps_stays(cli: Cli, world: WatchedWorld) -> None:
    keeper = world.principal("operator", ADMIN, kind=PrincipalKind.HUB_SERVICE)
    vision = models.TeamModel(name="vision", managed_by="operator")
    done(settings.put_config(world.service, keeper, models.ConfigModel(teams=[vision])))
    applied = cli("apply", "-f", "all.yaml", "--prune", by="root")
    assert applied.code == 0
    assert "vision stays: it is kept by operator." in applied.out
    assert names(world) == {"nlp", "vision"}


def test_a_file_without_teams_removes_none(cli: Cli, world: WatchedWorld, home: Path) -> None:
    written(home, {"policy": {"show_names": True}})
    refused = cli("apply", "-f", "all.yaml", "--prune", by="root")
    assert refused.code == 2
    assert "would remove all of them" in refused.err
    assert names(world) == {"nlp", "vision"}
