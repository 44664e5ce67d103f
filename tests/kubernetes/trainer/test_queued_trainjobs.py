"""TrainJobs of Kubeflow Trainer 2.0.0 on a real API server, with its own CRDs and runtime.

Its controllers, and JobSet's, are played: JobSet's Go module cannot be had.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from gpucommons.scheduler.client import calls
from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes
from tests.kubernetes.fixtures import need
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.trainer import trainer_module
from tests.kubernetes.trainer.trainer_world import TrainerWorld


@pytest.fixture(scope="module")
def world(
    cluster: Any, api: client.ApiClient, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrainerWorld]:
    need("kwok", "kubectl")
    cluster.start_kwok()
    own = uuid.uuid4().hex[:6]
    admin = Kubectl(kubeconfig)
    trainer_module.install(admin)
    nodes = SimulatedNodes(api, f"tj-{own}")
    namespaces = (f"trainjobs-{own}", f"trainjobs-{own}-sent")
    for namespace in namespaces:
        admin("create", "namespace", namespace)
    nodes(2, 4, labels={"gpucommons.io/pool": f"trainers-{own}"})
    found = TrainerWorld(
        kubeconfig, namespaces[0], f"trainers-{own}", tmp_path_factory.mktemp("trainer")
    )
    try:
        found.start_scheduler()
        found.start_intake()
        yield found
    finally:
        for namespace in namespaces:
            admin("delete", "namespace", namespace, "--wait=false")
        found.close()
        nodes.remove_all()


@pytest.fixture(autouse=True)
def _all_gone(world: TrainerWorld) -> Iterator[None]:
    """Nothing of a test is left in line."""
    yield
    world.kubectl("delete", "trainjobs", "--all", "--timeout=60s")
    world.until(lambda: not world.client.send(calls.jobs(live=True)).jobs, "all jobs are over")


def test_a_trainjob_waits_its_turn_runs_where_it_is_placed_and_ends(world: TrainerWorld) -> None:
    world.make("digits", nodes=2, gpus=3)
    world.until(lambda: world.is_running("digits", 2), "digits runs")
    job = world.job("digits")
    assert (job.team, job.owner, job.milli_gpu) == ("vision", "ann", 6000)
    # Three of four GPUs each: two pods on one node could never run.
    assert len({one["spec"]["nodeName"] for one in world.pods("digits")}) == 2
    world.end_pods("digits")
    world.until(lambda: world.job("digits").state == "succeeded", "its job has succeeded")


def test_a_failed_trainjob_says_what_trainer_says(world: TrainerWorld) -> None:
    world.make("digits")
    world.until(lambda: world.is_running("digits", 1), "digits runs")
    world.end_pods("digits", "Failed")
    world.until(lambda: world.job("digits").state == "failed", "its job has failed")
    assert "jobset failed" in (world.job("digits").attempts[-1].ended_text or "")


def test_a_borrower_is_suspended_for_a_guarantee_and_resumed_afterwards(
    world: TrainerWorld,
) -> None:
    world.make("borrows", nodes=2, gpus=4)
    world.until(lambda: world.is_running("borrows", 2), "it borrows all")
    world.make("owns", gpus=4, labels={"gpucommons.io/team": "nlp"})
    world.until(lambda: world.is_running("owns", 1), "the guarantee is met")
    assert world.trainjob("borrows")["spec"]["suspend"] is True
    assert world.pods("borrows") == []
    world.until(lambda: world.note("borrows", "state") == "queued", "that is said")
    world.end_pods("owns")
    world.until(lambda: world.is_running("borrows", 2), "it runs again")
    assert len(world.job("borrows").attempts) == 2


def fill(world: TrainerWorld) -> None:
    """Each team has what it is guaranteed: nobody borrows, and nobody is stopped for anybody."""
    for name, team in (("fills", "vision"), ("fills-too", "nlp")):
        world.make(name, gpus=4, labels={"gpucommons.io/team": team})
        world.until(lambda name=name: world.is_running(name, 1), "all GPUs are taken")  # type: ignore[misc]


def test_one_that_is_edited_while_it_waits_is_handed_in_anew(world: TrainerWorld) -> None:
    fill(world)
    world.make("waits", nodes=2, gpus=4)
    first = world.job("waits")
    world.kubectl(
        "patch", "trainjob", "waits", "--type=merge", "-p", '{"spec":{"trainer":{"numNodes":1}}}'
    )
    world.until(lambda: world.note("waits", "job") != first.id, "it is another job")
    assert world.job("waits").milli_gpu == 4000
    assert "at a new place" in world.note("waits", "edited")
    assert world.client.send(calls.job(first.id)).state == "cancelled"
    world.end_pods("fills")
    world.until(lambda: world.is_running("waits", 1), "it runs in its new size")


def test_another_image_keeps_the_place(world: TrainerWorld) -> None:
    fill(world)
    world.make("waits", gpus=4)
    first = world.job("waits")
    world.kubectl(
        "patch", "trainjob", "waits", "--type=merge", "-p", '{"spec":{"trainer":{"image":"new:2"}}}'
    )
    world.end_pods("fills")
    world.until(lambda: world.is_running("waits", 1), "it runs")
    assert world.note("waits", "job") == first.id
    assert world.pods("waits")[0]["spec"]["containers"][0]["image"] == "new:2"


def test_who_resumes_it_by_hand_starts_nothing(world: TrainerWorld) -> None:
    fill(world)
    world.make("waits", gpus=4)
    world.job("waits")
    world.until(lambda: not world.pods("waits"), "what was made before the gate is gone")
    world.kubectl("patch", "trainjob", "waits", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    pods = world.until(lambda: world.pods("waits"), "Trainer makes its pods")
    assert [one["spec"].get("nodeName") for one in pods] == [None]
    assert pods[0]["spec"]["schedulingGates"] == [{"name": "gpucommons.io/placement"}]
    world.end_pods("fills")
    world.until(lambda: world.is_running("waits", 1), "it runs when it is its turn")


def test_deleting_it_cancels_its_job(world: TrainerWorld) -> None:
    world.make("digits")
    world.until(lambda: world.is_running("digits", 1), "digits runs")
    job = world.job("digits")
    world.kubectl("delete", "trainjob", "digits", "--timeout=60s")
    world.until(
        lambda: world.client.send(calls.job(job.id)).state in ("cancelled", "failed"), "it is over"
    )


def test_one_that_nobody_may_pay_for_waits_with_a_sentence(world: TrainerWorld) -> None:
    world.make("digits", labels={"gpucommons.io/team": "robotics"})
    world.until(lambda: "vision, nlp may pay" in world.note("digits", "reason"), "it is said")
    assert world.trainjob("digits")["spec"]["suspend"] is True
    world.kubectl("label", "trainjob", "digits", "gpucommons.io/team=nlp", "--overwrite")
    world.until(lambda: world.is_running("digits", 1), "it runs once that is mended")


def test_killed_programs_lose_and_double_nothing(world: TrainerWorld) -> None:
    world.make("digits", nodes=2, gpus=2)
    world.until(lambda: world.is_running("digits", 2), "digits runs")
    before = {one["metadata"]["uid"] for one in world.pods("digits")}
    world.kill("scheduler")
    world.kill("intake")
    world.make("later", gpus=2)
    world.start_scheduler()
    world.start_intake()
    world.until(lambda: world.is_running("later", 1), "who came meanwhile runs")
    assert {one["metadata"]["uid"] for one in world.pods("digits")} == before
    assert len(world.job("digits").attempts) == 1
    assert len(world.client.send(calls.jobs(live=True)).jobs) == 2
    world.end_pods("digits")
    world.until(lambda: world.job("digits").state == "succeeded", "it ends as if nothing had been")
