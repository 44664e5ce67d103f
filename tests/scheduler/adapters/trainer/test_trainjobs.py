"""What a TrainJob asks for, what is due for it, and jobs of ours as TrainJobs: without a cluster."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.adapters.settings_file import read_file
from gpucommons.scheduler.adapters.trainer import manifests, resume_and_suspend, trainjobs
from gpucommons.scheduler.adapters.trainer.intake import made_of, request_of
from gpucommons.scheduler.adapters.trainer.resume_and_suspend import Sight
from gpucommons.scheduler.adapters.trainer.settings import (
    SentJobs,
    TrainerNamespace,
    TrainerPool,
    TrainerSettings,
)
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    HoldClass,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    Stop,
    TeamName,
    UserName,
    WorkerPlacement,
    WorkloadId,
)
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen
from gpucommons.scheduler.operator import objects

GATE = "gpucommons.io/placement"
SETTINGS = TrainerSettings(
    namespaces={"research": TrainerNamespace(teams=["vision", "nlp"], user="ann")},
    pools={"trainers": TrainerPool(), "old": TrainerPool(gpu_resource="nvidia.com/mig-1g.5gb")},
    sent=SentJobs(namespace="sent", any_image=True),
)
NOW = Millis(1_000_000)
PINNED = f"registry.example/own@sha256:{'0' * 64}"


def a_runtime(**policy: Any) -> dict[str, Any]:
    container = {"name": "node", "image": "torch:1", "resources": {"requests": {"cpu": "2"}}}
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [container]}}},
        },
    }
    return {
        "metadata": {"name": "torch-distributed"},
        "spec": {
            "mlPolicy": {"numNodes": 1, **policy},
            "template": {"spec": {"replicatedJobs": [job]}},
        },
    }


def a_trainjob(**changes: Any) -> dict[str, Any]:
    amounts = {"cpu": "500m", "memory": "2Gi", "nvidia.com/gpu": "2"}
    spec = {
        "runtimeRef": {"name": "torch-distributed"},
        "suspend": True,
        "trainer": {"numNodes": 3, "resourcesPerNode": {"limits": amounts}, "command": ["train"]},
    }
    meta = {
        "name": "digits",
        "namespace": "research",
        "uid": "u-1",
        "resourceVersion": "7",
        "labels": changes.pop("labels", {}),
        "annotations": changes.pop("annotations", {}),
    }
    status = changes.pop("status", {})
    return {"metadata": meta, "spec": {**spec, **changes}, "status": status}


def asked_for(**changes: Any) -> trainjobs.Asked:
    return trainjobs.asked_for(a_trainjob(**changes), a_runtime(), SETTINGS)


def test_its_own_amounts_stand_in_place_of_its_runtimes() -> None:
    assert asked_for().size == (3, 2000, 500, 2048)
    assert asked_for(trainer={}).size == (1, 0, 2000, 1024)


def test_an_image_counts_for_nothing_and_a_size_for_all() -> None:
    first = asked_for()
    trainer = a_trainjob()["spec"]["trainer"]
    assert asked_for(trainer={**trainer, "image": "new:2"}).mark == first.mark
    assert asked_for(trainer={**trainer, "numNodes": 4}).mark != first.mark
    assert asked_for(labels={"gpucommons.io/priority": "high"}).mark != first.mark


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"labels": {"gpucommons.io/team": "robotics"}}, "vision, nlp may pay, not robotics"),
        ({"labels": {"gpucommons.io/pool": "moon"}}, "the pools for TrainJobs are trainers, old"),
        ({"labels": {"gpucommons.io/priority": "urgent"}}, "low, normal, high"),
        (
            {
                "podSpecOverrides": [
                    {"targetJobs": [{"name": "node"}], "nodeSelector": {"disk": "fast"}}
                ]
            },
            "leave it out",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        asked_for(**changes)


def test_runtimes_that_start_workers_by_mpi_are_refused() -> None:
    with pytest.raises(BadRequest, match="by MPI"):
        trainjobs.asked_for(a_trainjob(), a_runtime(mpi={}), SETTINGS)


def test_a_runtime_that_prepares_with_gpus_is_refused() -> None:
    runtime = a_runtime()
    hungry = {"name": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    job = {"name": "data", "template": {"spec": {"template": {"spec": {"containers": [hungry]}}}}}
    runtime["spec"]["template"]["spec"]["replicatedJobs"].append(job)
    with pytest.raises(BadRequest, match="asks for GPUs in data"):
        trainjobs.asked_for(a_trainjob(), runtime, SETTINGS)


def test_kueues_and_multikueues_are_left_alone() -> None:
    assert trainjobs.is_ours(a_trainjob())
    assert not trainjobs.is_ours(a_trainjob(labels={"kueue.x-k8s.io/queue-name": "q"}))
    assert not trainjobs.is_ours(a_trainjob(managedBy="kueue.x-k8s.io/multikueue"))


OVERRIDES = st.lists(
    st.fixed_dictionaries(
        {
            "targetJobs": st.lists(
                st.sampled_from(["node", "data", "model"]), min_size=1, max_size=2, unique=True
            ).map(lambda names: [{"name": one} for one in names])
        },
        optional={"serviceAccountName": st.just("me"), "tolerations": st.just([{"key": "k"}])},
    ),
    max_size=3,
    # Trainer's webhook lets a job stand in one override alone.
    unique_by=lambda one: one["targetJobs"][0]["name"],
)


@given(OVERRIDES)
def test_the_gate_is_added_to_what_its_user_wrote(overrides: list[dict[str, Any]]) -> None:
    before = a_trainjob(podSpecOverrides=overrides)
    after = trainjobs.overrides_with_gate(before, "node")
    gated = {**before, "spec": {**before["spec"], "podSpecOverrides": after}}
    assert trainjobs.is_gated(gated, "node")
    kept = [{k: v for k, v in one.items() if k != "schedulingGates"} for one in after]
    assert kept[: len(overrides)] == overrides


# --- the job that stands for it --------------------------------------------------------------


def test_the_job_says_whose_it_is_and_is_known_by_its_trainjob() -> None:
    request = request_of(a_trainjob(), asked_for(), user="ann")
    assert (request.team, request.user, request.pools) == ("vision", "ann", ["trainers", "old"])
    (role,) = request.roles
    assert (role.count, role.milli_gpu, role.command) == (3, 2000, ["sh", "-c", "train"])
    ref = trainjobs.ref_in(request.labels)
    assert ref == objects.ObjectRef(namespace="research", name="digits", uid="u-1")


def test_the_operator_takes_it_for_none_of_its_own() -> None:
    """Else it would cancel it: there is no TrainingJob of that uid."""

    class View:
        request = request_of(a_trainjob(), asked_for(), user="ann")

    assert made_of(View()) == "u-1"  # type: ignore[arg-type]
    assert objects.made_of(View()) == ""  # type: ignore[arg-type]
    # As releases before TrainJobs read it.
    assert View.request.labels["kubernetes-object"].rpartition("/")[2] == ""


# --- what is due -----------------------------------------------------------------------------


def an_attempt(**changes: Any) -> Attempt:
    placements = tuple(
        WorkerPlacement(
            role="worker",
            index=index,
            node_id=NodeId(f"n{index}"),
            device_ids=(DeviceId(f"n{index}/gpu-0"),),
        )
        for index in range(2)
    )
    made: dict[str, Any] = {
        "attempt_id": AttemptId("a-1"),
        "number": 1,
        "placements": placements,
        "state": AttemptState.STARTING,
        "workload_id": WorkloadId("w-1"),
        "hold_class": HoldClass.OVER_QUOTA,
        "reserved_ms": NOW,
    }
    return Attempt(**{**made, **changes})


def a_pod(index: int, **changes: Any) -> PodSeen:
    made: dict[str, Any] = {
        "name": f"digits-node-0-{index}",
        "namespace": "research",
        "uid": f"p-{index}",
        "attempt_id": AttemptId("digits"),
        "job": "digits-node-0",
        "index": index,
        "gates": (GATE,),
    }
    return PodSeen(**{**made, **changes})


RESUMED = {"annotations": {"gpucommons.io/attempt": "a-1"}, "suspend": False}


def judged(
    trainjob: dict[str, Any] | None, *pods: PodSeen, **more: Any
) -> resume_and_suspend.Verdict:
    made: dict[str, Any] = {"attempt": an_attempt(), "target": "node", "now_ms": NOW}
    return resume_and_suspend.judge(Sight(trainjob=trainjob, pods=pods, **{**made, **more}))


def test_it_is_resumed_once_pods_before_it_are_gone() -> None:
    assert judged(a_trainjob()).resume
    assert judged(a_trainjob(), a_pod(0)).resume
    assert not judged(a_trainjob(), a_pod(0, gates=(), phase="Running")).resume


def test_each_pod_is_sent_to_its_own_place() -> None:
    verdict = judged(a_trainjob(**RESUMED), a_pod(0), a_pod(1))
    assert [rank for _, rank in verdict.lift] == [0, 1]
    assert not verdict.started
    running = [a_pod(index, gates=(), phase="Running", placed=True) for index in range(2)]
    assert judged(a_trainjob(**RESUMED), *running).started


def test_a_pod_that_came_around_the_gate_is_ended() -> None:
    stray = a_pod(0, gates=(), phase="Running")
    verdict = judged(a_trainjob(**RESUMED), stray, a_pod(1))
    assert verdict.hurry == (stray,)
    assert not verdict.started


MINE = {"nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("pod", "devices"),
    [
        (a_pod(0), {"nvidia.com/gpu": 2}),
        (a_pod(0), {"nvidia.com/mig-1g.5gb": 1}),
        (a_pod(0), {"resourceClaims": 1}),
        (a_pod(0, job="digits-prepare-0"), MINE),
    ],
)
def test_no_pod_gets_more_than_was_admitted_for_it(pod: PodSeen, devices: dict[str, int]) -> None:
    """Its labels and its runtime are written by others, and it is edited while it waits."""
    with pytest.raises(BadRequest, match="were admitted for it"):
        judged(
            a_trainjob(**RESUMED), pod, devices={pod.uid: devices}, resources=("nvidia.com/gpu",)
        )


def test_a_second_pod_of_the_same_worker_waits() -> None:
    seen = {"devices": {"p-0": MINE, "copy": MINE}, "resources": ("nvidia.com/gpu",)}
    copy = a_pod(0, name="copy", uid="copy")
    assert len(judged(a_trainjob(**RESUMED), a_pod(0), copy, **seen).lift) == 1
    runs = a_pod(0, gates=(), phase="Running", placed=True)
    assert judged(a_trainjob(**RESUMED), runs, copy, **seen).lift == ()
    idle = a_pod(0, uid="idle", gates=(), phase="Running", placed=True)
    assert len(judged(a_trainjob(**RESUMED), idle, copy, **seen).lift) == 1


@pytest.mark.parametrize("other", ["nvidia.com/mig-3g.20gb", "amd.com/gpu"])
def test_gpus_that_its_pool_does_not_give_out_are_refused(other: str) -> None:
    amounts = {"limits": {"nvidia.com/gpu": "1", other: "4"}}
    with pytest.raises(BadRequest, match=f"asks for {other}"):
        asked_for(trainer={"resourcesPerNode": amounts})


def test_a_runtime_with_claims_on_devices_is_refused() -> None:
    runtime = a_runtime()
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu"}]
    with pytest.raises(BadRequest, match="resourceClaims"):
        trainjobs.asked_for(a_trainjob(), runtime, SETTINGS)


@given(st.text())
def test_a_time_that_somebody_wrote_is_a_number_in_any_case(told: str) -> None:
    assert trainjobs.since_ms({trainjobs.SINCE: told}) >= 0


def test_what_only_prepares_runs_anywhere() -> None:
    (found,) = judged(a_trainjob(**RESUMED), a_pod(0, job="digits-data-0")).lift
    assert found[1] is None


def test_it_ends_as_trainer_says() -> None:
    said = {"type": "Complete", "status": "True", "message": "done"}
    done = a_trainjob(**RESUMED, status={"conditions": [said]})
    ended = judged(done, a_pod(0, gates=(), phase="Succeeded")).ended
    assert ended is not None
    assert (ended.exit_code, ended.text) == (0, "done")
    said["type"] = "Failed"
    ended = judged(done).ended
    assert ended is not None
    assert ended.exit_code == 1


def test_a_stop_suspends_and_waits_for_the_pods_to_go() -> None:
    stop = Stop(why="preempt", text="", announced_ms=NOW, term_ms=NOW, kill_ms=Millis(NOW + 5000))
    more: dict[str, Any] = {"attempt": an_attempt(stop=stop), "stopped": True}
    pod = a_pod(0, gates=(), phase="Running")
    assert judged(a_trainjob(**RESUMED), pod, **more).suspend
    suspended = a_trainjob(**{**RESUMED, "suspend": True})
    waiting = judged(suspended, pod, **more)
    assert (waiting.signalled, waiting.ended, waiting.hurry) == (True, None, ())
    assert judged(suspended, pod, **{**more, "now_ms": Millis(NOW + 9000)}).hurry == (pod,)
    ended = judged(suspended, a_pod(0), **more).ended
    assert ended is not None
    assert ended.told


def test_one_that_somebody_else_suspends_waits_again() -> None:
    ended = judged(a_trainjob(**{**RESUMED, "suspend": True})).ended
    assert ended is not None
    assert "Somebody else suspended" in ended.text


def test_one_that_is_gone_has_ended() -> None:
    ended = judged(None).ended
    assert ended is not None
    assert ended.text == "Its TrainJob was deleted."


def test_its_pods_outlive_a_deleted_one_and_hold_what_they_had() -> None:
    stop = Stop(why="cancel", text="", announced_ms=NOW, term_ms=NOW, kill_ms=Millis(NOW + 5000))
    more: dict[str, Any] = {"attempt": an_attempt(stop=stop, started_ms=NOW), "stopped": True}
    pod = a_pod(0, gates=(), phase="Running", node="n0")
    assert judged(None, pod).ended is None
    assert judged(None, pod, a_pod(1), **more).hurry == ()
    assert judged(None, pod, **{**more, "now_ms": Millis(NOW + 9000)}).hurry == (pod,)
    assert judged(None, a_pod(1), **more).ended is not None


def test_what_a_deleted_one_left_behind_is_found_on_its_nodes() -> None:
    left, elsewhere = a_pod(0, node="n0"), a_pod(1, node="n7")
    attempt = an_attempt()
    assert resume_and_suspend.left_behind(attempt, (left, elsewhere), ()) == (left,)
    assert resume_and_suspend.left_behind(attempt, (left,), (a_trainjob(),)) == ()


def test_one_that_was_edited_is_not_resumed() -> None:
    role = Role(count=3, milli_gpu=2000, cpu_milli=500, memory_mib=2048)
    trainjobs.check_admitted(asked_for(), role)
    with pytest.raises(BadRequest, match="was edited"):
        trainjobs.check_admitted(asked_for(), replace(role, count=2))


# --- jobs of ours ----------------------------------------------------------------------------


def a_spec(**changes: Any) -> Spec:
    role = Role(count=2, milli_gpu=1000, command=("torchrun", "train.py"))
    made: dict[str, Any] = {
        "kind": Kind.TRAINING,
        "name": "mnist-1",
        "team": TeamName("vision"),
        "owner": UserName("ann"),
        "submitted_by": UserName("ann"),
        "pools": (PoolName("trainers"),),
        "roles": (role,),
        "environment": "img:1",
    }
    return Spec(**{**made, **changes})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"snapshot": "0" * 64}, "brings files"),
        ({"secrets": {"A": "a"}}, "wants secrets"),
        ({"environment": ""}, "no image is known for its environment"),
        ({"roles": (Role(milli_gpu=500),)}, "a part of a GPU"),
        ({"roles": (Role(), Role(name="b"))}, "several roles"),
        ({"min_workers": 1, "max_workers": 2}, "elastic"),
    ],
)
def test_what_a_trainjob_cannot_bring_is_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        manifests.check(a_spec(**changes), SETTINGS)


def test_a_job_is_sent_as_a_trainjob_that_asks_for_the_same() -> None:
    manifests.check(a_spec(), SETTINGS)
    notes = trainjobs.notes_for("a-1", now_ms=NOW)
    sent = SentJobs(namespace="sent", any_image=True)
    made = manifests.trainjob_of(a_spec(), notes, sent, target="node", resource="nvidia.com/gpu")
    assert trainjobs.is_gated(made, "node")
    assert made["metadata"]["name"] == "gc-a-1"
    settings = SETTINGS.model_copy(
        update={"namespaces": {"sent": TrainerNamespace(teams=["vision"], user="ann")}}
    )
    asked = trainjobs.asked_for(made, a_runtime(), settings)
    assert asked.size == (2, 1000, 1000, 1024)


@pytest.mark.parametrize(
    ("environment", "image"),
    [
        ("torch", "registry.example/torch:2"),
        ("", "registry.example/any:1"),
        (PINNED, PINNED),
    ],
)
def test_the_name_of_an_environment_stands_for_its_image(environment: str, image: str) -> None:
    images = {"torch": "registry.example/torch:2", "": "registry.example/any:1"}
    sent = SentJobs(namespace="sent", environments=images)
    spec = a_spec(environment=environment)
    manifests.check(spec, SETTINGS.model_copy(update={"sent": sent}))
    notes = trainjobs.notes_for("a-1", now_ms=NOW)
    made = manifests.trainjob_of(spec, notes, sent, target="node", resource="nvidia.com/gpu")
    assert made["spec"]["trainer"]["image"] == image


def test_a_name_that_was_taken_out_is_no_image() -> None:
    sent = SentJobs(namespace="sent", environments={"torch": "registry.example/torch:2"})
    settings = SETTINGS.model_copy(update={"sent": sent})
    with pytest.raises(BadRequest, match="no image is known for its environment"):
        manifests.check(a_spec(environment="jax"), settings)
    any_image = settings.model_copy(update={"sent": sent.model_copy(update={"any_image": True})})
    manifests.check(a_spec(environment="jax"), any_image)


# --- the admin's file ------------------------------------------------------------------------


def test_the_file_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="--executor trainjob=FILE"):
        read_file(None, TrainerSettings, executor="trainjob")
    file = tmp_path / "trainjob.yaml"
    file.write_text(yaml.safe_dump({"pools": {"a": {}}}))
    with pytest.raises(BadRequest, match="there is nothing to do"):
        read_file(file, TrainerSettings, executor="trainjob")
    both = {"namespaces": {"x": {"teams": ["a"], "user": "b"}}, "sent": {"namespace": "x"}}
    file.write_text(yaml.safe_dump({"pools": {"a": {}}, **both}))
    with pytest.raises(BadRequest, match="a namespace of their"):
        read_file(file, TrainerSettings, executor="trainjob")
