"""What a waiting person is told to give back, and that it is theirs to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_world import ServiceWorld, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.forecast.estimating import Budget
from gpucommons.scheduler.forecast.forecaster import Forecaster
from gpucommons.scheduler.service import idle, leases, why


class Foreseen(ServiceWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.forecaster = Forecaster(
            self.loop,
            self.store,
            now_ms=lambda: self.now_ms,
            why_not=every_size,
            budget=Budget(futures=3),
        )
        object.__setattr__(self.service, "forecasts", self.forecaster)

    def held_idle(self, user: str, server: str = "") -> models.LeaseView:
        asked = models.LeaseRequest(user=user, server_name=server, milli_gpu=1000)
        held = done(leases.acquire(self.service, self.hub_service, asked, key=None))
        done(leases.started(self.service, self.hub_service, held.id, models.StartedReport()))
        said = models.IdleReport(idle_since_ms=self.now_ms - 60_000)
        done(idle.report_idle(self.service, self.culler, held.id, said))
        return held

    def waits(self, user: str, server: str) -> models.LeaseView:
        asked = models.LeaseRequest(server_name=server, milli_gpu=1000)
        ticket = done(leases.wait_in_line(self.service, self.principal(user), asked, key=None))
        self.forecaster.round()
        return leases.lease(self.service, self.principal(user), ticket.id)


@pytest.fixture
def world(tmp_path: Path) -> Foreseen:
    return Foreseen(tmp_path)


def test_the_own_idle_notebook_is_named_with_what_to_do_and_then_it_starts(
    world: Foreseen,
) -> None:
    held = world.held_idle("ann", "plots")
    ticket = world.waits("ann", "second")
    assert ticket.reason is not None
    blocker = ticket.reason.blocker
    assert blocker is not None
    assert (
        blocker.text
        == "Your own notebook “plots”, idle when last checked, holds 1 GPU: without that this would start now."
    )
    assert (blocker.action, blocker.id) == ("release", held.id)
    assert blocker.command == f"gpucommons release {held.id}"
    told = done(why.why_lease(world.service, world.principal("ann"), ticket.id))
    assert told.reason is not None
    assert told.reason.blocker == blocker
    # It is said once.
    assert not [way for way in told.ways if "notebook" in way.text]
    done(leases.drop(world.service, world.principal("ann"), held.id))
    world.pass_time(1000)
    gone = models.EndReport(why="stopped")
    done(leases.end_lease(world.service, world.hub_service, held.id, gone))
    world.pass_time(1000)
    now = leases.lease(world.service, world.principal("ann"), ticket.id)
    assert (now.state, now.reason) == ("granted", None)


def test_a_notebook_that_is_used_again_is_named_no_more_by_who_asks_why_on_a_large_cluster(
    world: Foreseen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "LARGE", 1)
    held = world.held_idle("ann", "plots")
    ticket = world.waits("ann", "second")
    asked = why.why_lease(world.service, world.principal("ann"), ticket.id)
    assert asked.probe() is None
    world.forecaster.round()
    told = asked.probe()
    assert told is not None
    assert told.reason is not None
    assert told.reason.blocker is not None
    done(idle.report_idle(world.service, world.culler, held.id, models.IdleReport()))
    again = asked.probe()
    assert again is not None
    assert again.reason is not None
    assert again.reason.blocker is None


def test_who_only_looks_on_is_offered_nothing_to_do(world: Foreseen) -> None:
    world.held_idle("ann", "plots")
    ticket = world.waits("ann", "second")
    seen = leases.lease(world.service, world.admin, ticket.id)
    assert seen.reason is not None
    assert seen.reason.blocker is not None
    assert (seen.reason.blocker.action, seen.reason.blocker.command) == (None, "")
    assert seen.reason.blocker.text.startswith("ann’s own notebook")


def test_a_team_mates_idle_notebook_is_to_be_asked_for(world: Foreseen) -> None:
    world.held_idle("alf")
    ticket = world.waits("ann", "second")
    assert ticket.reason is not None
    blocker = ticket.reason.blocker
    assert blocker is not None
    assert (blocker.kind, blocker.action) == ("team-notebook", None)
    assert blocker.text == (
        "alf's notebook, idle when last checked, holds 1 GPU: without that this would start now."
        " Ask whether it is still needed."
    )


def test_a_notebook_that_is_used_again_is_not_asked_for_any_more(world: Foreseen) -> None:
    held = world.held_idle("alf")
    ticket = world.waits("ann", "second")
    assert ticket.reason is not None
    assert ticket.reason.blocker is not None
    done(idle.report_idle(world.service, world.culler, held.id, models.IdleReport()))
    world.pass_time(1000)
    now = leases.lease(world.service, world.principal("ann"), ticket.id)
    assert now.reason is not None
    assert now.reason.blocker is None, "before ways are looked for anew"
