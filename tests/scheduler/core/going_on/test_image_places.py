"""A job whose processes are saved goes where they can be woken, for as long as there is such a place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.events.job_size import as_submitted
from gpucommons.scheduler.core.going_on import words
from gpucommons.scheduler.core.going_on.image_places import hindered_since
from gpucommons.scheduler.core.going_on.ways import Way, way_to_go_on
from gpucommons.scheduler.core.model.going_on import Hibernation, HibernationAbility, ProcessImage
from gpucommons.scheduler.core.model.intents import Cancel, Pause, PutPools, Resume, SetNodeState
from gpucommons.scheduler.core.model.resources import Node, NodeState, Quota
from gpucommons.scheduler.core.model.state import AttemptEnded, AttemptStarted, NodesObserved
from gpucommons.scheduler.core.model.types import NodeId, PoolName, State, WorkloadId

HERE, OTHER = PoolName("train"), PoolName("other")
ABLE = HibernationAbility(able=True, save_mib_per_s=100, wake_mib_per_s=200)
CAN = Hibernation(cost_ms=1_000)
IMAGE = ProcessImage(user="ann", size_bytes=48 << 20, save_ms=200, sha256="0" * 64)


def node(name: str, pool: PoolName, can: HibernationAbility | None = ABLE) -> Node:
    return a_node(name, gpus=1, pool=pool, hibernation=can)


class TwoPools:
    """One GPU in each of two pools; a job that may run in both was saved in the first."""

    def __init__(self, **other: str) -> None:
        quotas = {name: Quota(guaranteed_milli_gpu=1000) for name in (HERE, OTHER)}
        self.world = World(
            node("n1", HERE),
            node("n2", OTHER),
            teams=[replace(a_team(), quotas=quotas)],
            pools=[a_pool(HERE), a_pool(OTHER, **other)],
        )
        self.job = self.world.submit(a_job("kept", pools=(HERE, OTHER)))
        started = AttemptStarted(attempt_id=self.world.attempt_id(self.job), hibernation=CAN)
        self.world.step(started)
        assert self.where() == "n1"
        self.world.ask(Pause(workload_id=self.job))
        ended = AttemptEnded(
            attempt_id=self.world.attempt_id(self.job), exit_code=None, told=True, image=IMAGE
        )
        self.world.step(ended)
        self.first = self.world.run(a_job("first", pools=(HERE,), priority="high"))
        self.world.ask(Resume(workload_id=self.job))

    def where(self, job: WorkloadId | None = None) -> str | None:
        attempt = self.world.get(job or self.job).current
        return None if attempt is None else attempt.placements[0].node_id

    def see(self, *nodes: Node) -> None:
        self.world.step(NodesObserved(executor="fake", nodes=nodes))

    def hindered(self) -> str:
        cluster = self.world.cluster
        return hindered_since(self.world.get(self.job), cluster.pools, cluster.nodes)


def test_it_waits_for_the_pool_that_can_wake_it_although_another_has_a_place() -> None:
    two = TwoPools(hibernation="off")
    assert two.where() is None
    found = two.world.get(two.job)
    assert (found.state, found.spec.pools) == (State.QUEUED, (HERE,))
    assert as_submitted(found).pools == (HERE, OTHER)
    assert two.hindered() == ""

    two.world.end(two.first)

    assert two.where() == "n1"
    # It has been woken, so the next stop may find it anywhere.
    woken = Hibernation(cost_ms=1_000, woken_from=1)
    two.world.step(AttemptStarted(attempt_id=two.world.attempt_id(two.job), hibernation=woken))
    two.world.step()
    assert two.world.get(two.job).spec.pools == (HERE, OTHER)


def test_another_pool_of_the_same_executor_that_can_wake_it_may_do_so() -> None:
    assert TwoPools().where() == "n2"


def test_a_pool_of_another_executor_does_not_get_it() -> None:
    assert TwoPools(executor="elsewhere").where() is None


@pytest.mark.parametrize(
    ("can", "because"),
    [
        (None, ""),
        (HibernationAbility(able=False, because="there is no CRIU on its node"), "no CRIU"),
    ],
)
def test_it_waits_while_it_is_not_known_whether_a_node_can_wake_it_and_no_longer(
    can: HibernationAbility | None, because: str
) -> None:
    two = TwoPools(hibernation="off")
    two.see(node("n1", HERE, can), node("n2", OTHER))
    assert two.where() == ("n2" if because else None)
    if because:
        return
    two.see(node("n1", HERE), node("n2", OTHER))
    assert two.where() is None


def test_switched_off_where_it_was_saved_it_starts_anywhere_the_next_weaker_way() -> None:
    two = TwoPools(hibernation="off")
    off = (a_pool(HERE, hibernation="off"), a_pool(OTHER, hibernation="off"))
    two.world.ask(PutPools(pools=off))
    assert two.where() == "n2"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (NodeState.CORDONED, "48 MiB of its memory is on n1, which takes nothing new."),
        (NodeState.LOST, "48 MiB of its memory is on n1, which is not heard of."),
    ],
)
def test_while_its_node_takes_no_work_it_waits_and_says_for_what(
    state: NodeState, said: str
) -> None:
    two = TwoPools(hibernation="off")
    two.world.ask(Cancel(workload_id=two.first))
    two.world.end(two.first, None)
    # The job has been admitted on n1 by then, and is put back into line before it starts.
    two.world.ask(Pause(workload_id=two.job))
    two.world.step(
        AttemptEnded(attempt_id=two.world.attempt_id(two.job), exit_code=None, image=IMAGE)
    )
    if state is NodeState.LOST:
        two.see(node("n2", OTHER))
    else:
        two.world.ask(SetNodeState(node_id=NodeId("n1"), state=state))
    two.world.ask(Resume(workload_id=two.job))

    reason = two.world.get(two.job).reason
    assert reason is not None
    assert reason.text == said
    assert reason.unblock is not None
    assert reason.unblock.startswith(
        "An admin can let the node take work again, or fence it: then kept starts its command"
    )
    assert two.where() is None

    two.world.ask(SetNodeState(node_id=NodeId("n1"), state=NodeState.FENCED))

    assert two.where() == "n2"


def test_of_a_node_that_is_gone_the_weaker_way_is_named_with_its_reason() -> None:
    two = TwoPools(hibernation="off")
    two.world.ask(Pause(workload_id=two.job))
    two.world.ask(SetNodeState(node_id=NodeId("n1"), state=NodeState.FENCED))
    assert two.hindered() == "n1, on which its memory was saved, was lost and fenced"
    way = way_to_go_on(two.world.get(two.job), two.hindered())
    assert way is not None
    assert way.way is Way.START_OVER
    assert "n1, on which its memory was saved, was lost and fenced" in words.goes_on(way)


def test_a_promise_in_a_pool_that_can_no_longer_wake_it_is_taken_back() -> None:
    two = TwoPools()
    second = two.world.get(two.job)
    assert second.current is not None
    two.world.ask(Pause(workload_id=two.job))
    two.world.step(AttemptEnded(attempt_id=second.current.attempt_id, exit_code=None, image=IMAGE))
    lower = two.world.run(a_job("low", pools=(OTHER,), priority="low"))
    two.world.wait(120_000)
    two.world.ask(Resume(workload_id=two.job))
    promise = two.world.get(two.job).nomination
    assert promise is not None
    assert promise.placements[0].node_id == "n2"

    two.world.ask(PutPools(pools=(a_pool(HERE), a_pool(OTHER, hibernation="off"))))

    promise = two.world.get(two.job).nomination
    assert promise is None or promise.placements[0].node_id == "n1"
    assert two.world.get(lower).current is not None


def test_on_its_way_to_a_place_where_it_is_not_woken_any_more_nothing_is_said_to_be_kept() -> None:
    two = TwoPools()
    assert two.where() == "n2"
    assert two.hindered() == ""
    two.world.ask(PutPools(pools=(a_pool(HERE), a_pool(OTHER, hibernation="off"))))
    assert two.hindered() == "the pool other has hibernation switched off"
