"""Whether a job is hibernated, what is said of it, and what it costs: from what is known alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.eviction.candidates import work_lost
from gpucommons.scheduler.core.going_on import words
from gpucommons.scheduler.core.going_on.hibernating import (
    hibernation_of,
    hindrances_before_start,
    is_kept,
    saving_costs_ms,
    speaks_for,
)
from gpucommons.scheduler.core.going_on.image_places import hindered_since
from gpucommons.scheduler.core.going_on.ways import Way, WayToGoOn, way_to_go_on
from gpucommons.scheduler.core.model.going_on import (
    Hibernation,
    HibernationAbility,
    ProcessImage,
)
from gpucommons.scheduler.core.model.intents import Cancel, Pause, Resume
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptStarted,
    CheckpointReported,
    TreeReported,
)
from gpucommons.scheduler.core.model.types import Checkpoint, NodeId, State, WorkloadId
from gpucommons.scheduler.core.queue.back_off import LONGEST_OF_JOB_MS
from gpucommons.scheduler.core.queue.giving_up import LOSSES, lost_in_a_row

ABLE = HibernationAbility(able=True, save_mib_per_s=100, wake_mib_per_s=200)
CAN = Hibernation(cost_ms=15_000)
IMAGE = ProcessImage(user="ana", size_bytes=3 << 29, save_ms=3_000, sha256="0" * 64)


def simulated(can: HibernationAbility | None = ABLE, *, really: bool = True) -> Node:
    node = a_node(gpus=2)
    devices = tuple(replace(device, simulated=really) for device in node.devices)
    return replace(node, devices=devices, hibernation=can)


@pytest.fixture
def world() -> World:
    return World(a_node(gpus=2), teams=[a_team(guaranteed_milli_gpu=2000)])


def start(world: World, known: Hibernation | None = CAN) -> WorkloadId:
    job = world.submit(a_job())
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=known))
    return job


def stop(world: World, job: WorkloadId, image: ProcessImage | None = IMAGE) -> None:
    world.ask(Pause(workload_id=job))
    end = AttemptEnded(attempt_id=world.attempt_id(job), exit_code=None, told=True, image=image)
    world.step(end)


def way_of(world: World, job: WorkloadId) -> WayToGoOn:
    found = way_to_go_on(world.get(job))
    assert found is not None
    return found


def test_what_runs_and_can_be_saved_goes_on_where_it_stopped_or_the_next_weaker_way(
    world: World,
) -> None:
    way = way_of(world, start(world))
    assert way.way is Way.PROCESS_IMAGE
    assert words.goes_on(way) == (
        "goes on where it stopped: its memory is saved when it is stopped; if that fails, it starts"
        " its command anew and finds the files that it wrote, if any are kept"
    )


def test_what_is_saved_is_said_with_its_size_and_costs_nothing(world: World) -> None:
    job = start(world)
    world.wait(12 * 60_000)
    stop(world, job)
    stopped = world.get(job)
    assert stopped.state is State.PAUSED
    assert stopped.attempts[0].ended_text == (
        "Paused by ann: goes on where it stopped. 1.5 GiB of memory saved in 3 s. 0 steps lost"
    )
    assert words.goes_on(way_of(world, job)) == (
        "goes on where it stopped: 1.5 GiB of its memory is saved"
    )
    assert is_kept(stopped, stopped.attempts[0])


def test_a_stop_says_whether_it_is_to_be_saved(world: World) -> None:
    job = start(world)
    world.ask(Pause(workload_id=job))
    current = world.get(job).current
    assert current is not None
    assert current.stop is not None
    assert current.stop.hibernates


def test_a_job_that_is_cancelled_is_not_saved(world: World) -> None:
    job = start(world)
    world.ask(Cancel(workload_id=job))
    current = world.get(job).current
    assert current is not None
    assert current.stop is not None
    assert not current.stop.hibernates


def test_a_job_with_a_checkpoint_goes_on_from_that(world: World) -> None:
    job = start(world)
    attempt_id = world.attempt_id(job)
    saved = Checkpoint(
        attempt_id=attempt_id,
        step=7,
        path="checkpoints/step-7",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=world.now,
    )
    world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=saved))
    assert way_of(world, job).way is Way.CHECKPOINT
    world.ask(Pause(workload_id=job))
    current = world.get(job).current
    assert current is not None
    assert current.stop is not None
    assert not current.stop.hibernates


def test_an_image_is_there_until_another_attempt_has_begun(world: World) -> None:
    job = start(world)
    stop(world, job)
    world.ask(Resume(workload_id=job))
    woken = Hibernation(cost_ms=15_000, woken_from=1)
    first = world.get(job).attempts[0]
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=woken))
    now = world.get(job)
    assert way_of(world, job).image is None
    assert way_of(world, job).began_anew == 0
    assert is_kept(now, first)
    assert [one.number for one in speaks_for(now)] == [2, 1]


def test_what_could_not_be_woken_has_lost_its_work_and_that_is_said(world: World) -> None:
    job = start(world)
    stop(world, job)
    world.ask(Resume(workload_id=job))
    anew = Hibernation(not_woken="the image is damaged")
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=anew))
    now = world.get(job)
    assert not is_kept(now, now.attempts[0])
    assert [one.number for one in speaks_for(now)] == [2]
    assert way_of(world, job).began_anew == 1
    assert words.of_hibernation(now.attempts[1]) == (
        "started anew, because its saved memory could not be woken: the image is damaged"
    )


def test_who_can_be_hibernated_loses_the_seconds_of_saving_and_waking_alone(world: World) -> None:
    can, cannot = start(world), start(world, None)
    world.wait(60_000)
    found = [(world.get(job), world.get(job).attempts[0]) for job in (can, cannot)]
    lost = [
        work_lost(job, attempt, world.now, saving_costs_ms(job, attempt, 30_000))
        for job, attempt in found
    ]
    assert lost == [1000 * 15_000, 1000 * 60_000]


@pytest.mark.parametrize(
    ("changed", "pool", "node", "hindrance"),
    [
        ({}, {}, simulated(), ""),
        ({"hibernation": False}, {}, simulated(), "the job was submitted without hibernation"),
        ({}, {"hibernation": "off"}, simulated(), "the pool train has hibernation switched off"),
        ({"max_workers": 2}, {}, simulated(), "jobs of several workers are not hibernated"),
        (
            {},
            {},
            simulated(ABLE, really=False),
            "saving processes that hold memory of a real GPU has not been tested on its node",
        ),
        (
            {},
            {},
            simulated(HibernationAbility(able=False, because="user namespaces are forbidden here")),
            "user namespaces are forbidden here",
        ),
    ],
)
def test_a_hindrance_is_named(
    world: World, changed: dict[str, object], pool: dict[str, object], node: Node, hindrance: str
) -> None:
    attempt = world.get(start(world)).attempts[0]
    spec = replace(a_job(), **changed)  # type: ignore[arg-type] # named fields
    known = hibernation_of(spec, attempt, replace(a_pool(), **pool), node)  # type: ignore[arg-type] # as above
    assert known is not None
    assert known.hindrance == hindrance


def test_where_nobody_has_looked_nothing_is_said(world: World) -> None:
    attempt = world.get(start(world)).attempts[0]
    assert hibernation_of(a_job(), attempt, a_pool(), simulated(None)) is None


def test_what_could_not_be_saved_is_not_said_to_be(world: World) -> None:
    job = start(world)
    world.ask(Pause(workload_id=job))
    why = "an io_uring is open"
    end = AttemptEnded(attempt_id=world.attempt_id(job), exit_code=143, told=True, not_saved=why)
    world.step(end)
    assert world.get(job).attempts[0].ended_text == (
        "Paused by ann (its memory could not be saved: an io_uring is open): starts its command anew"
        " and finds the files that it wrote, if any are kept; what it did since it last saved is"
        " repeated, 0 s of work at most"
    )
    assert way_of(world, job).way is Way.START_OVER


BEFORE = "If it is stopped before it saved a checkpoint"
ANEW = "it starts its command anew and finds the files that it wrote"


@pytest.mark.parametrize(
    ("nodes", "workers", "said"),
    [
        ([ABLE], 1, f"its memory is saved and it goes on where it stopped. If that fails, {ANEW}."),
        ([ABLE], 2, f"{ANEW}, because jobs of several workers are not hibernated."),
        ([None], 1, f"{ANEW}."),
        (
            [ABLE, HibernationAbility(able=False, because="its node has no CRIU")],
            1,
            "where its memory can be saved, it goes on where it stopped; elsewhere"
            f" {ANEW}, because its node has no CRIU.",
        ),
    ],
    ids=["every-node-can", "several-workers", "not-tested", "some-nodes-can"],
)
def test_before_a_job_begins_a_stop_costs_what_its_nodes_can_tell(
    nodes: list[HibernationAbility | None], workers: int, said: str
) -> None:
    one = simulated()
    cluster = {
        NodeId(f"n{number}"): replace(one, node_id=NodeId(f"n{number}"), hibernation=can)
        for number, can in enumerate(nodes)
    }
    spec = a_job(workers=workers)
    found = hindrances_before_start(spec, {one.pool: a_pool()}, cluster)
    assert words.before_start(found, files_are_kept=True) == f"{BEFORE}: {said}"


def test_no_files_are_promised_where_none_are_kept() -> None:
    assert "finds none of its files" in words.before_start((), files_are_kept=False)


@pytest.mark.parametrize("woken_from", [0, 1, 2, 99])
def test_an_attempt_speaks_for_earlier_ones_alone(world: World, woken_from: int) -> None:
    job = start(world, replace(CAN, woken_from=woken_from))
    assert [attempt.number for attempt in speaks_for(world.cluster.workloads[job])] == [1]


def test_what_is_stopped_while_it_is_woken_is_saved_again_if_it_has_come_to_life(
    world: World,
) -> None:
    job = start(world)
    stop(world, job)
    world.ask(Resume(workload_id=job))
    world.ask(Pause(workload_id=job))
    current = world.get(job).current
    assert current is not None
    assert current.stop is not None
    assert (current.started_ms, current.stop.hibernates) == (None, True)
    assert way_of(world, job).image == IMAGE


@pytest.mark.parametrize(
    "known",
    [Hibernation(not_woken="it was stopped while it was being woken"), Hibernation(woken_from=1)],
)
def test_an_image_that_is_used_up_by_whom_nobody_saw_run_is_not_said_to_be_there(
    world: World, known: Hibernation
) -> None:
    job = start(world)
    stop(world, job)
    world.ask(Resume(workload_id=job))
    world.ask(Pause(workload_id=job))
    ended = AttemptEnded(
        attempt_id=world.attempt_id(job), exit_code=None, killed=True, hibernation=known
    )
    world.step(ended)
    second = world.get(job).attempts[1]
    assert world.get(job).state is State.PAUSED
    assert way_of(world, job).way is not Way.PROCESS_IMAGE
    assert known.not_woken in (second.ended_text or "")
    assert "anew" not in words.of_hibernation(second)


def test_an_image_from_which_nothing_ran_is_there_although_its_supervisor_was_killed(
    world: World,
) -> None:
    job = start(world)
    stop(world, job)
    world.ask(Resume(workload_id=job))
    world.step(AttemptEnded(attempt_id=world.attempt_id(job), exit_code=None, image=IMAGE))
    assert world.get(job).state is State.QUEUED
    assert way_of(world, job).image == IMAGE


@pytest.mark.parametrize("is_stopped", [False, True])
def test_where_a_pool_is_switched_off_later_the_way_that_holds_is_named(
    world: World, *, is_stopped: bool
) -> None:
    job = start(world)
    if is_stopped:
        stop(world, job)
    node = a_node(gpus=2)
    known = hindered_since(world.get(job), {node.pool: a_pool()}, {node.node_id: node})
    off = replace(a_pool(), hibernation="off")
    hindered = hindered_since(world.get(job), {node.pool: off}, {node.node_id: node})

    assert known == ""
    way = way_to_go_on(world.get(job), hindered)
    assert way is not None
    assert way.way is Way.START_OVER
    assert f"because the pool {off.name} has hibernation switched off" in words.goes_on(way)


def test_a_pods_word_of_how_it_runs_counts_once_and_only_what_was_kept_can_have_been_woken(
    world: World,
) -> None:
    job = start(world, None)
    lie = Hibernation(cost_ms=7, woken_from=1)
    world.step(TreeReported(attempt_id=world.attempt_id(job), hibernation=lie))
    current = world.get(job).current
    assert current is not None
    assert current.hibernation == Hibernation(cost_ms=7)
    world.step(TreeReported(attempt_id=world.attempt_id(job), hibernation=Hibernation()))
    assert world.get(job).current == current
    stop(world, job)
    world.ask(Resume(workload_id=job))
    world.step(TreeReported(attempt_id=world.attempt_id(job), hibernation=lie))
    world.step(AttemptStarted(attempt_id=world.attempt_id(job)))
    current = world.get(job).current
    assert current is not None
    assert current.hibernation == lie
    assert speaks_for(world.get(job)) == (current, world.get(job).attempts[0])


def test_what_a_drain_saved_goes_on_though_nobody_here_stopped_it(world: World) -> None:
    job = start(world)
    attempt_id = world.attempt_id(job)
    world.step(AttemptEnded(attempt_id=attempt_id, exit_code=None, told=True, image=IMAGE))
    ended = world.get(job)
    assert ended.state is State.QUEUED
    assert ended.attempts[0].ended_text == (
        "Asked to stop: goes on where it stopped. 1.5 GiB of memory saved in 3 s. 0 steps lost"
    )
    assert is_kept(ended, ended.attempts[0])
    assert lost_in_a_row(ended) == 0


@pytest.mark.parametrize("known", [None, Hibernation(hindrance="its node cannot")])
def test_who_was_not_to_be_saved_can_leave_no_image(
    world: World, known: Hibernation | None
) -> None:
    job = start(world, known)
    stop(world, job)
    assert world.get(job).attempts[0].image is None
    assert way_of(world, job).way is not Way.PROCESS_IMAGE


@pytest.mark.parametrize("is_woken", [False, True])
def test_images_that_nothing_is_ever_woken_from_end_a_job(world: World, *, is_woken: bool) -> None:
    job = start(world)
    for number in range(1, LOSSES + 2):
        attempt_id = world.attempt_id(job)
        world.step(AttemptEnded(attempt_id=attempt_id, exit_code=None, told=True, image=IMAGE))
        if world.state(job) is State.FAILED:
            break
        world.wait(LONGEST_OF_JOB_MS)
        anew = Hibernation(not_woken="it was not found as it was saved")
        known = Hibernation(woken_from=number) if is_woken else anew
        world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=known))
    assert world.state(job) is (State.RUNNING if is_woken else State.FAILED)
    assert is_woken or len(world.get(job).attempts) == LOSSES
