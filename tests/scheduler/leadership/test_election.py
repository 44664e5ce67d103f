"""The election in virtual time: one leads, nobody for long, whatever clocks and networks do."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gpucommons.scheduler.errors import Conflict
from gpucommons.scheduler.leadership.election import Clock, Election, Lease, Terms
from gpucommons.scheduler.leadership.memory import MemoryLease


@dataclass
class World:
    """Candidates, each with a clock of its own, around one lease."""

    lease: MemoryLease = field(default_factory=MemoryLease)
    now_s: float = 1000.0

    def candidate(self, name: str, *, behind_s: float = 0.0, rate: float = 1.0) -> Election:
        began_s = self.now_s
        return Election(
            self.lease,
            name,
            clock=Clock(
                steady_s=lambda: (self.now_s - began_s) * rate + 5e6 - behind_s,
                wall_ms=lambda: round((self.now_s - behind_s) * 1000),
            ),
        )

    def run(self, *candidates: Election, seconds: float) -> list[list[str]]:
        """Let time go by in tenths; who leads at each; candidates try once a second."""
        led = []
        for tick in range(round(seconds * 10)):
            self.now_s += 0.1
            if tick % 10 == 0:
                for one in candidates:
                    one.step()
            led.append([one.name for one in candidates if one.leads()])
        return led


def test_the_first_leads_and_goes_on_leading() -> None:
    world = World()
    first, second = world.candidate("a"), world.candidate("b")
    led = world.run(first, second, seconds=60)
    assert all(names == ["a"] for names in led)


def test_when_the_leader_is_gone_another_leads_within_its_lease_and_a_try() -> None:
    world = World()
    first, second = world.candidate("a"), world.candidate("b")
    world.run(first, second, seconds=20)
    led = world.run(second, seconds=20)
    assert led.index(["b"]) <= 10 * (Terms().lease_s + Terms().retry_s)


def test_a_leader_that_cannot_reach_the_lease_stops_before_anybody_may_begin() -> None:
    world = World()
    first, second = world.candidate("a"), world.candidate("b")
    world.run(first, second, seconds=20)
    world.lease.away = True
    led = world.run(first, second, seconds=6)
    assert led[-1] == []
    world.lease.away = False
    led = world.run(first, second, seconds=3)
    assert led[-1] == ["a"]


@pytest.mark.parametrize("behind_s", [-86_400.0, -3.0, 3.0, 86_400.0])
def test_a_clock_that_is_off_changes_nothing(behind_s: float) -> None:
    world = World()
    first, second = world.candidate("a"), world.candidate("b", behind_s=behind_s)
    assert all(names == ["a"] for names in world.run(first, second, seconds=30))
    led = world.run(second, seconds=20)
    assert 50 < led.index(["b"]) <= 100


@pytest.mark.parametrize("rate", [0.9, 1.1])
def test_clocks_that_run_differently_never_make_two_leaders(rate: float) -> None:
    world = World()
    first, second = world.candidate("a"), world.candidate("b", rate=rate)
    led = world.run(first, second, seconds=20)
    # The first one's tries stop, its clock goes on.
    for tick in range(300):
        world.now_s += 0.1
        if tick % 10 == 0:
            second.step()
        led.append([one.name for one in (first, second) if one.leads()])
    assert all(len(names) <= 1 for names in led)
    assert led[-1] == ["b"]


def test_one_that_slept_does_not_lead_when_it_wakes() -> None:
    world = World()
    first = world.candidate("a")
    world.run(first, seconds=5)
    world.now_s += 3600
    assert not first.leads()
    second = world.candidate("b")
    world.run(second, seconds=12)
    world.run(first, second, seconds=5)
    assert (first.leads(), second.leads()) == (False, True)


def test_a_clean_end_hands_over_at_the_next_try() -> None:
    world = World()
    first, second = world.candidate("a"), world.candidate("b")
    world.run(first, second, seconds=10)
    first.stop()
    led = world.run(second, seconds=5)
    assert led.index(["b"]) <= 20


def test_the_lease_is_given_up_only_once_nothing_is_done_in_its_name() -> None:
    world = World()
    first, second = world.candidate("a"), world.candidate("b")
    world.run(first, second, seconds=10)
    seen = []

    def at_rest() -> bool:
        seen.append((first.leads(), world.run(second, seconds=2)[-1]))
        return True

    first.stop(at_rest=at_rest)
    assert seen == [(False, [])]
    assert world.run(second, seconds=2)[-1] == ["b"]


def test_one_that_does_not_come_to_rest_keeps_the_lease_until_it_runs_out() -> None:
    world = World()
    first, second = world.candidate("a"), world.candidate("b")
    world.run(first, second, seconds=10)
    first.stop(at_rest=lambda: False)
    assert not first.leads()
    led = world.run(second, seconds=20)
    assert 50 < led.index(["b"]) <= 10 * (Terms().lease_s + Terms().retry_s)
    first.stop()
    assert world.run(second, seconds=2)[-1] == ["b"]


def test_a_restarted_candidate_under_its_old_name_leads_at_once() -> None:
    world = World()
    world.run(world.candidate("a"), seconds=5)
    led = world.run(world.candidate("a"), seconds=1)
    assert led[0] == ["a"]


def test_of_two_who_try_at_once_one_is_refused() -> None:
    class Racing(MemoryLease):
        """Somebody else creates the lease between our look and our try."""

        def create(self, lease: Lease) -> str:
            super().create(Lease(holder="other", lease_s=8))
            return super().create(lease)

    world = World(lease=Racing())
    first = world.candidate("a")
    first.step()
    assert not first.leads()
    with pytest.raises(Conflict):
        world.lease.create(Lease(holder="x", lease_s=1))


def test_one_that_resigned_leads_again_only_by_renewing() -> None:
    world = World()
    changes: list[bool] = []
    first = Election(
        world.lease,
        "a",
        clock=Clock(steady_s=lambda: world.now_s),
        on_change=lambda: changes.append(first.leads()),
    )
    first.step()
    first.resign()
    assert not first.leads()
    first.step()
    assert first.leads()
    assert changes == [True, False, True]


def test_a_leader_that_cannot_work_leaves_the_lead_to_one_that_can() -> None:
    world = World()
    first, second = world.candidate("a"), world.candidate("b")
    world.run(first, second, seconds=10)
    first.works(well=True)
    led = world.run(first, second, seconds=4)
    first.works(well=False)
    led += world.run(first, second, seconds=3)
    assert all(names == ["a"] for names in led)
    first.works(well=False)
    led = world.run(first, second, seconds=13)
    assert led[-1] == ["b"]
    assert all(len(names) <= 1 for names in led)


def test_one_that_cannot_work_does_not_take_a_lease_that_is_free() -> None:
    world = World()
    first = world.candidate("a")
    first.works(well=False)
    world.now_s += Terms().lease_s + 1
    first.step()
    assert not first.leads()
    first.works(well=True)
    first.step()
    assert first.leads()
