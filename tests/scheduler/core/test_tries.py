"""Tries that come to nothing end after a while: each one holds GPUs that others could use."""

from __future__ import annotations

from builders import World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.state import Started
from gpucommons.scheduler.core.types import State


def test_a_ticket_that_nobody_redeems_stops_few_borrowers_and_then_leaves_the_line() -> None:
    world = World(a_node(gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp")])
    job = world.run(a_job("train", 1000, team="nlp", owner="bob"))
    ticket = world.submit(a_notebook("ann", 1000))
    for _ in range(4 * 360):
        world.wait(10_000)
        current = world.get(job).current
        if current is not None and current.stop is not None and current.stop.signalled:
            world.end(job, None)
        elif current is not None and current.started_ms is None:
            world.start(job)
    assert world.state(ticket) is State.ENDED
    assert world.get(ticket).ended_text == (
        "Its turn came 3 times, and its server did not start: see on JupyterHub's page that it"
        " starts, then wait in line again"
    )
    assert world.kinds().count("granted") == 3
    assert world.kinds().count("evicted") <= 3
    assert world.state(job) is State.RUNNING


def test_a_hub_that_is_away_for_six_minutes_costs_no_place_in_line() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    ticket = world.submit(a_notebook("ann"))
    submitted = world.get(ticket).submitted_ms
    for _ in range(36):
        world.wait(10_000)
    assert world.state(ticket) is State.GRANTED
    world.submit(a_notebook("ann"), redeem=True)
    world.ask(Started(workload_id=ticket))
    assert world.state(ticket) is State.ACTIVE
    assert world.get(ticket).submitted_ms == submitted


def test_each_grant_that_lapses_gives_others_twice_as_long() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=500)])
    ticket = world.submit(a_notebook("ann"))
    for rest_ms in (30_000, 60_000):
        world.wait(120_000)
        assert world.state(ticket) is State.WAITING
        world.wait(rest_ms - 1)
        assert world.state(ticket) is State.WAITING
        world.wait(1)
        assert world.state(ticket) is State.GRANTED
    world.wait(120_000)
    assert world.state(ticket) is State.ENDED
