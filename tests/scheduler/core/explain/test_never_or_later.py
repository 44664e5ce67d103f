"""What waits for nodes that take nothing new is not told to ask for less; what never starts is told so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from builders import T0, World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.explain import limits
from gpucommons.scheduler.core.model.intents import NoticeNode, PutTeams, SetNodeState
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import (
    Millis,
    NodeId,
    Reason,
    ReasonClass,
    State,
    WorkloadId,
)
from gpucommons.scheduler.forecast.forecast import Forecast, in_view_of
from gpucommons.scheduler.forecast.windows import Unknown

N1 = NodeId("n1")


def reason_of(world: World, workload_id: WorkloadId) -> Reason:
    found = world.get(workload_id).reason
    assert found is not None
    return found


def test_after_the_clouds_notice_it_waits_for_the_node() -> None:
    world = World(teams=[a_team()])
    leaves_ms = Millis(T0 + 60_000)
    world.ask(NoticeNode(node_id=N1, leaves_ms=leaves_ms), "admin")
    job = world.submit(a_job())
    at = datetime.fromtimestamp(leaves_ms / 1000, UTC)
    assert reason_of(world, job) == Reason(
        code=ReasonClass.NODES,
        text=(
            "Needs 1 GPU, and in pool train n1 takes nothing new: the cloud takes it back at"
            f" {at:%H:%M} UTC."
        ),
        unblock="Wait until a node takes work again.",
    )


def test_a_cordoned_node_is_said_to_be_cordoned_and_uncordoning_it_lets_the_job_start() -> None:
    world = World(teams=[a_team()])
    world.ask(SetNodeState(node_id=N1, state=NodeState.CORDONED), "admin")
    job = world.submit(a_job())
    reason = reason_of(world, job)
    assert reason.text == (
        "Needs 1 GPU, and in pool train n1 takes nothing new: an admin cordoned it."
    )
    assert reason.unblock == "Wait until a node takes work again, or ask an admin to uncordon it."
    world.ask(SetNodeState(node_id=N1, state=NodeState.READY), "admin")
    assert world.state(job) is State.STARTING


def test_a_node_that_is_away_and_others_are_named_too() -> None:
    world = World(*(a_node(f"n{i}") for i in range(1, 6)), teams=[a_team()])
    world.step(NodesObserved(executor="fake", nodes=()))
    reason = reason_of(world, world.submit(a_job()))
    assert reason.code is ReasonClass.NODES
    assert reason.text == (
        "Needs 1 GPU, and in pool train n1 is away; n2 is away; n3 is away; 2 more of its nodes take"
        " nothing new either."
    )


def test_what_would_not_fit_on_them_either_is_still_told_to_ask_for_less() -> None:
    world = World(a_node(gpus=2), teams=[a_team()])
    world.ask(SetNodeState(node_id=N1, state=NodeState.CORDONED), "admin")
    reason = reason_of(world, world.submit(a_job("large", 4000)))
    assert reason.code is ReasonClass.MISCONFIGURED
    assert "at most 2 GPUs" in reason.text


def test_a_notebook_whose_block_lies_on_such_a_node_waits_for_the_node() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    world.ask(SetNodeState(node_id=N1, state=NodeState.CORDONED), "admin")
    assert reason_of(world, world.submit(a_notebook())).code is ReasonClass.NODES


@pytest.mark.parametrize(
    ("quota", "change"),
    [
        ({"guaranteed_milli_gpu": 500}, {"over_quota": False}),
        ({"guaranteed_milli_gpu": 500, "over_quota_weight": 0}, {}),
    ],
)
def test_more_than_the_guarantee_without_borrowing_never_starts(
    quota: dict[str, Any], change: dict[str, Any]
) -> None:
    world = World(teams=[a_team(**quota)])
    reason = reason_of(world, world.submit(a_job(**change)))
    assert reason.code is ReasonClass.NEVER
    assert reason.text.endswith(
        "may not borrow. It may use only what vision is guaranteed, ½ GPU: at this size it never starts."
    )
    assert reason.unblock == "Start it with ½ GPU, or ask an admin for a guarantee of 1 GPU."
    world.ask(PutTeams(teams=(a_team(guaranteed_milli_gpu=1000),)), "admin")
    assert "QUEUED" not in {one.state.name for one in world.cluster.workloads.values()}


def test_who_waits_for_team_mates_inside_the_guarantee_does_not_wait_for_ever() -> None:
    world = World(teams=[a_team(guaranteed_milli_gpu=1000)])
    world.run(a_job("first", over_quota=False))
    second = world.submit(a_job("second", over_quota=False))
    assert reason_of(world, second).code is ReasonClass.LIMIT


@pytest.mark.parametrize(
    ("code", "unknown", "text"),
    [
        (ReasonClass.NEVER, Unknown.NEVER, "It does not start as it was submitted."),
        (
            ReasonClass.NODES,
            Unknown.NODES,
            "Likely start unknown: nobody knows when its nodes take work again.",
        ),
        (
            ReasonClass.POLICY,
            Unknown.POLICY,
            "Likely start unknown: a rule or the budget of its team keeps it waiting.",
        ),
    ],
)
def test_the_forecast_does_not_speak_of_others_where_they_are_not_in_the_way(
    code: ReasonClass, unknown: Unknown, text: str
) -> None:
    made = Forecast(made_ms=T0, unknown=Unknown.HISTORY)
    said = in_view_of(made, Reason(code=code, text=""))
    assert (said.unknown, said.text) == (unknown, text)
    assert in_view_of(made, Reason(code=ReasonClass.SHARE, text="")) == made
    assert in_view_of(made, None) == made


@pytest.mark.parametrize(
    ("milli_gpu", "words"),
    [
        (0, "nothing is"),
        (500, "only ½ GPU is"),
        (1000, "only 1 GPU is"),
        (2000, "only 2 GPUs are"),
    ],
)
def test_what_is_guaranteed_is_one_or_several(milli_gpu: int, words: str) -> None:
    assert limits._in_words(milli_gpu) == words
