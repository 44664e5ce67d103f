"""TrainJobs from being made to their end: the real loop, executor and intake on an API server in memory.

The same on a real API server, with Trainer's own CRDs: ``tests/kubernetes/trainer``.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from builders import T0
from service_world import ADMIN, TOKENS, FakeHubServer, ServiceWorld, an_app, done

from gpucommons.scheduler import models
from gpucommons.scheduler.adapters.settings_file import read_file
from gpucommons.scheduler.adapters.trainer.cluster_view import WatchedTrainJobs
from gpucommons.scheduler.adapters.trainer.executor import TrainJobExecutor
from gpucommons.scheduler.adapters.trainer.intake import Intake, TrainJobs, made_of
from gpucommons.scheduler.adapters.trainer.settings import TrainerSettings
from gpucommons.scheduler.client import AsyncSchedulerClient
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.executors.base import Executor
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.plugin import Offer
from gpucommons.scheduler.models import JobView
from gpucommons.scheduler.operator.following import Follower, LiveObjects, Pace
from gpucommons.scheduler.service.administration import settings
from gpucommons.scheduler.service.jobs import jobs
from tests.scheduler.adapters.trainer.fake_api_server import FakeApiServer
from tests.scheduler.adapters.trainer.fake_trainer import FakeTrainer

PLACE = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/research/trainjobs"
SENT = PLACE.replace("research", "sent")
PODS = "/api/v1/namespaces/research/pods"
QUOTA = {"trainers": {"guaranteed_milli_gpu": 4000}}
PAUSES = {"notice_s": 0, "grace_s": 1, "min_run_s": 0, "lend_after_s": 0}
POOLS: dict[str, Any] = {
    "pools": [{"name": "trainers", "executor": "trainjob", "notebook_sizes": [], **PAUSES}],
}
TEAMS: dict[str, Any] = {
    "teams": [{"name": one, "members": ["ann"], "quotas": QUOTA} for one in ("vision", "nlp")],
}
SETTINGS = {
    "namespaces": {"research": {"teams": ["vision", "nlp"], "user": "ann"}},
    "pools": {"trainers": {}},
    "sent": {"namespace": "sent", "any_image": True},
}
RUNTIME = {
    "metadata": {"name": "torch-distributed"},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {
                                "template": {
                                    "spec": {"containers": [{"name": "node", "image": "torch:1"}]}
                                }
                            },
                        },
                    }
                ]
            }
        },
    },
}


class World:
    """All of it in one process; only Trainer and the kubelets are played."""

    def __init__(self, folder: Path, *, pass_s: float = 0.2) -> None:
        self.server, self._pass_s = FakeApiServer(), pass_s
        self._settings = folder / "trainjob.yaml"
        self._settings.write_text(yaml.safe_dump(SETTINGS))
        self.server.post("/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes", RUNTIME)
        for name in ("n1", "n2"):
            self.server.post("/api/v1/nodes", a_node(name))
        self.executors: dict[str, Executor] = {}
        self.boot()
        self.world = ServiceWorld(
            folder, config=POOLS, nodes=(), executor="trainjob", executors=self.executors
        )
        self.world.pass_time(60_000)
        done(settings.put_config(self.world.service, self.world.admin, models.ConfigModel(**TEAMS)))
        self.played = [FakeTrainer(self.server, one) for one in ("research", "sent")]  # type: ignore[arg-type]
        self._stopping = threading.Event()
        #: How often the scheduler has decided, and the intake has looked.
        self._turns = {"decided": 0, "looked": 0}
        self._threads = [
            threading.Thread(target=one, daemon=True)
            for one in (self._kubelets, self._decide, lambda: asyncio.run(self._hand_in()))
        ]
        for one in self._threads:
            one.start()

    def boot(self) -> None:
        """An executor, as a scheduler that comes back has one."""
        offer = Offer(
            name="trainjob",
            settings=self._settings,
            state=self._settings.parent,
            pools=lambda: (
                tuple(self.world.cluster.pools.values()) if hasattr(self, "world") else ()
            ),
            snapshot_path=None,
            wake=lambda: None,
            now_ms=lambda: self.world.now_ms if hasattr(self, "world") else T0,
        )
        self.executor = TrainJobExecutor(offer, self.server)  # type: ignore[arg-type]
        self.executors["trainjob"] = self.executor

    def restart(self) -> None:
        """The scheduler dies and comes back."""
        self.executor.close()
        self.boot()
        live = self.world.cluster.workloads.values()
        self.executor.adopt([one.attempts[-1] for one in live if one.attempts])

    def _kubelets(self) -> None:
        while not self._stopping.wait(0.05):
            for path, pod in list(self.server.objects.items()):
                spec, phase = pod["spec"], (pod.get("status") or {}).get("phase", "Pending")
                is_placed = "nodeSelector" in spec and not spec.get("schedulingGates")
                if "/pods/" not in path or phase != "Pending" or not is_placed:
                    continue
                node = spec["nodeSelector"]["kubernetes.io/hostname"]
                with suppress(ApiError):  # It was deleted meanwhile.
                    self.server.merge_patch(
                        path, {"spec": {"nodeName": node}, "status": {"phase": "Running"}}
                    )

    def _decide(self) -> None:
        while not self._stopping.wait(0.05):
            self.world.now_ms = Millis(self.world.now_ms + 200)
            self.world.loop.wake()  # Requests decide, too: one at a time.
            self._turns["decided"] += 1

    async def _hand_in(self) -> None:
        told = read_file(self._settings, TrainerSettings, executor="trainjob")
        tokens = {"intake": {"kind": "service", "name": "gpucommons-operator", "scopes": [ADMIN]}}
        app = an_app(self.world, FakeHubServer(TOKENS | tokens))
        self.watched = watched = WatchedTrainJobs(self.server, told.namespaces, lambda: None)  # type: ignore[arg-type]
        live_objects = LiveObjects(made_of=made_of)
        objects = TrainJobs(self.server, told.namespaces)  # type: ignore[arg-type]
        transport = httpx.ASGITransport(app=app)
        async with AsyncSchedulerClient(
            "http://scheduler", token="intake", transport=transport
        ) as scheduler:
            self.intake = intake = Intake(scheduler, watched, objects, live_objects, told)
            pace = Pace(poll_s=0.2, pass_s=self._pass_s)
            follower = Follower(
                scheduler,
                objects,
                live_objects,
                pace=pace,
                now_ms=lambda: time.time_ns() // 1_000_000,
            )
            following = asyncio.create_task(follower.run())
            while not self._stopping.is_set():
                await intake.look()
                self._turns["looked"] += 1
                await asyncio.sleep(0.05)
            following.cancel()

    def close(self) -> None:
        self._stopping.set()
        for one in self._threads:
            one.join(10)
        for played in self.played:
            played.close()
        self.server.close()
        self.executor.close()

    # --- what people do and see ----------------------------------------------------------------

    def make(self, name: str, *, nodes: int = 1, gpus: int = 1, **labels: str) -> None:
        amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
        trainer = {"numNodes": nodes, "resourcesPerNode": {"limits": amounts}}
        spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, "suspend": False}
        named = {f"gpucommons.io/{key}": value for key, value in labels.items()}
        self.server.post(PLACE, {"metadata": {"name": name, "labels": named}, "spec": spec})

    def trainjob(self, name: str) -> dict[str, Any]:
        return self.server.get(f"{PLACE}/{name}")

    def note(self, name: str, key: str) -> str:
        notes = self.trainjob(name)["metadata"].get("annotations") or {}
        return str(notes.get(f"gpucommons.io/{key}", ""))

    def job(self, name: str) -> JobView:
        job_id = self.until(lambda: self.note(name, "job"), f"{name} is handed in")
        return self.view(job_id)

    def view(self, job_id: str) -> JobView:
        return jobs.job(self.world.service, self.world.admin, job_id)

    def pods(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        return [
            (path, one)
            for path, one in list(self.server.objects.items())
            if one["metadata"].get("labels", {}).get("jobset.sigs.k8s.io/jobset-name") == name
        ]

    def is_running(self, name: str, workers: int) -> bool:
        phases = [(one.get("status") or {}).get("phase") for _, one in self.pods(name)]
        return phases == ["Running"] * workers and self.job(name).state == "running"

    def end_pods(self, name: str, how: str = "Succeeded") -> None:
        for path, _ in self.pods(name):
            with suppress(ApiError):
                self.server.merge_patch(path, {"status": {"phase": how}})

    def look_again(self, times: int = 3) -> None:
        """Until the scheduler has decided and the intake has looked so often, from their beginnings."""
        # The turn that goes on now may have begun before what is to be seen.
        enough = {who: count + times + 1 for who, count in self._turns.items()}
        self.until(
            lambda: all(self._turns[who] >= count for who, count in enough.items()), "looks again"
        )

    def until(self, question: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (answer := question()):
            assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
            time.sleep(0.05)
        return answer


def a_node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    labels = {
        "gpucommons.io/pool": "trainers",
        "kubernetes.io/hostname": name,
        "nvidia.com/cuda.driver-version.full": "580.95.05",
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": amounts, "conditions": [ready]},
    }


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_it_waits_its_turn_runs_where_it_is_placed_and_ends(world: World) -> None:
    world.make("digits", nodes=2, gpus=3)
    world.until(lambda: world.is_running("digits", 2), "digits runs")
    job = world.job("digits")
    assert (job.team, job.owner, job.milli_gpu) == ("vision", "ann", 6000)
    assert job.attempts[-1].drivers == ["580.95.05"]
    assert {one["spec"]["nodeName"] for _, one in world.pods("digits")} == {"n1", "n2"}
    world.end_pods("digits")
    world.until(lambda: world.job("digits").state == "succeeded", "its job has succeeded")


def test_a_borrower_is_suspended_for_a_guarantee_and_resumed_afterwards(world: World) -> None:
    world.make("borrows", nodes=2, gpus=4)
    world.until(lambda: world.is_running("borrows", 2), "it borrows all")
    world.make("owns", gpus=4, team="nlp")
    world.until(lambda: world.is_running("owns", 1), "the guarantee is met")
    assert world.trainjob("borrows")["spec"]["suspend"] is True
    assert world.pods("borrows") == []
    world.end_pods("owns")
    world.until(lambda: world.is_running("borrows", 2), "it runs again")
    assert len(world.job("borrows").attempts) == 2


def fill(world: World) -> None:
    """Each team has what it is guaranteed: nobody borrows, and nobody is stopped for anybody."""
    for name, team in (("fills", "vision"), ("fills-too", "nlp")):
        world.make(name, gpus=4, team=team)
        world.until(lambda name=name: world.is_running(name, 1), "all GPUs are taken")  # type: ignore[misc]


def test_one_that_is_edited_while_it_waits_is_handed_in_anew(world: World) -> None:
    fill(world)
    world.make("waits", nodes=2, gpus=4)
    first = world.job("waits")
    world.server.merge_patch(f"{PLACE}/waits", {"spec": {"trainer": {"numNodes": 1}}})
    world.until(lambda: world.note("waits", "job") != first.id, "it is another job")
    assert world.view(first.id).state == "cancelled"
    assert world.job("waits").milli_gpu == 4000
    assert "at a new place" in world.note("waits", "edited")
    world.end_pods("fills")
    world.until(lambda: world.is_running("waits", 1), "it runs in its new size")


def test_who_resumes_it_by_hand_starts_nothing(world: World) -> None:
    fill(world)
    world.make("waits", gpus=4)
    world.until(lambda: world.note("waits", "state"), "it waits")
    world.until(lambda: not world.pods("waits"), "what was made before the gate is gone")
    world.server.merge_patch(f"{PLACE}/waits", {"spec": {"suspend": False}})
    ((_, pod),) = world.until(lambda: world.pods("waits"), "Trainer makes its pods")
    assert pod["spec"]["schedulingGates"] == [{"name": "gpucommons.io/placement"}]
    world.end_pods("fills")
    world.until(lambda: world.is_running("waits", 1), "it runs when it is its turn")


def test_one_that_names_another_job_as_its_own_does_nothing_to_that(world: World) -> None:
    fill(world)
    world.make("waits", gpus=4)
    foreign = world.job("waits")
    notes = {"gpucommons.io/job": foreign.id, "gpucommons.io/asked": "another size"}
    spec = {"runtimeRef": {"name": "torch-distributed"}, "suspend": False}
    world.server.post(PLACE, {"metadata": {"name": "eve", "annotations": notes}, "spec": spec})
    world.until(lambda: world.note("eve", "job") != foreign.id, "it has a job of its own")
    assert world.view(foreign.id).state == "queued"
    assert world.trainjob("eve")["spec"]["podSpecOverrides"]


def test_one_that_is_refused_is_suspended_whatever_job_it_names(world: World) -> None:
    world.make("digits")
    notes = {"gpucommons.io/job": world.job("digits").id}
    spec = {"runtimeRef": {"name": "none"}, "suspend": False}
    world.server.post(PLACE, {"metadata": {"name": "eve", "annotations": notes}, "spec": spec})
    world.until(lambda: world.note("eve", "state") == "refused", "it is refused")
    assert world.trainjob("eve")["spec"]["suspend"] is True


def test_a_pod_that_only_says_whose_it_is_gets_no_gpu(world: World) -> None:
    world.make("digits")
    world.until(lambda: world.is_running("digits", 1), "digits runs")
    ((_, own),) = world.pods("digits")
    forged = {
        "metadata": {"name": "eve", "labels": own["metadata"]["labels"]},
        "spec": {
            "schedulingGates": [{"name": "gpucommons.io/placement"}],
            "containers": [{"name": "x", "resources": {"limits": {"nvidia.com/gpu": "3"}}}],
        },
    }
    world.server.post(PODS, forged)
    world.make("later")
    world.until(lambda: world.is_running("later", 1), "others go on")
    assert world.server.get(f"{PODS}/eve")["spec"]["schedulingGates"]


def test_a_runtime_that_makes_no_sense_any_more_holds_up_no_other(world: World) -> None:
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/research/trainingruntimes"
    world.server.post(path, {**RUNTIME, "metadata": {"name": "own"}})
    fill(world)
    spec = {
        "runtimeRef": {"name": "own", "kind": "TrainingRuntime"},
        "trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": "1"}}},
        "suspend": True,
    }
    world.server.post(PLACE, {"metadata": {"name": "eve"}, "spec": spec})
    world.job("eve")
    world.make("later", gpus=1)
    world.job("later")
    world.server.merge_patch(
        f"{path}/own", {"spec": {"template": {"spec": {"replicatedJobs": None}}}}
    )
    world.end_pods("fills")
    world.until(lambda: world.is_running("later", 1), "the other one runs")


def test_deleting_it_ends_its_job(world: World) -> None:
    world.make("digits")
    world.until(lambda: world.is_running("digits", 1), "digits runs")
    job = world.job("digits")
    world.server.delete(f"{PLACE}/digits")
    world.until(lambda: world.view(job.id).state == "cancelled", "its job is cancelled")


def test_a_deleted_ones_job_waits_for_no_pass(tmp_path: Path) -> None:
    world = World(tmp_path, pass_s=3600)
    try:
        fill(world)
        world.make("waits", gpus=4)
        job = world.job("waits")
        world.server.delete(f"{PLACE}/waits")
        world.until(lambda: world.view(job.id).state == "cancelled", "its job is cancelled")
    finally:
        world.close()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_was_deleted_holds_its_gpus_until_its_pods_are_gone(
    world: World, is_restarted: bool
) -> None:
    world.make("digits", nodes=2, gpus=4)
    world.until(lambda: world.is_running("digits", 2), "digits runs")
    world.make("waits", nodes=2, gpus=4)
    job = world.job("digits")
    world.server.collects = False
    world.server.delete(f"{PLACE}/digits")
    if is_restarted:
        world.restart()
    world.until(lambda: world.view(job.id).state == "cancelling", "its job is to end")
    world.look_again()
    assert world.view(job.id).state == "cancelling"
    assert not world.job("waits").attempts
    for path, _ in world.pods("digits"):
        world.server.delete(path)
    world.until(lambda: world.view(job.id).state == "cancelled", "its job has ended")
    world.until(lambda: world.is_running("waits", 2), "the next one has its GPUs")


def test_a_stop_that_comes_before_the_watch_saw_the_resume_suspends(world: World) -> None:
    world.make("digits")
    world.until(lambda: world.is_running("digits", 1), "digits runs")
    stale = world.trainjob("digits")
    del stale["metadata"]["annotations"]["gpucommons.io/attempt"]
    stale["spec"]["suspend"] = True
    view = world.executor._view
    view.trainjobs = lambda: (stale,)  # type: ignore[method-assign]
    jobs.cancel(world.world.service, world.world.admin, world.job("digits").id)
    world.until(lambda: world.trainjob("digits")["spec"]["suspend"], "it is suspended")
    world.until(lambda: world.job("digits").state == "cancelled", "its job has ended")
    assert world.pods("digits") == []


def test_an_annotation_that_names_anothers_job_ends_nothing(world: World) -> None:
    fill(world)
    role = {"milli_gpu": 4000, "command": ["train"]}
    request = models.JobRequest.model_validate(
        {"name": "other", "team": "vision", "environment": "img:1", "roles": [role]}
    )
    other = jobs.submit(world.world.service, world.world.principal("ann"), request, key=None)
    meta = {"name": "forged", "annotations": {"gpucommons.io/job": other.id}}
    spec = world.trainjob("fills")["spec"]
    world.server.post(PLACE, {"metadata": meta, "spec": {**spec, "podSpecOverrides": []}})
    world.until(lambda: world.note("forged", "job") != other.id, "it has a job of its own")
    assert world.view(other.id).state == "queued"
    assert world.trainjob("forged")["spec"]["suspend"] is True


def test_what_was_handed_in_keeps_its_place_while_the_watch_lags(world: World) -> None:
    fill(world)
    world.make("waits", gpus=4)
    first = world.until(lambda: world.note("waits", "job"), "it is handed in")
    # As it was seen when something else of it had changed, just before its job was noted.
    before = world.trainjob("waits")
    for key in ("job", "asked"):
        del before["metadata"]["annotations"][f"gpucommons.io/{key}"]
    before["metadata"]["resourceVersion"] = "before"
    world.watched.trainjobs = lambda: (before,)  # type: ignore[method-assign]
    world.until(lambda: world.intake._done.get(before["metadata"]["uid"]) == "before", "it is seen")
    assert world.note("waits", "job") == first
    assert world.view(first).state == "queued"


def test_one_that_nobody_may_change_holds_up_no_other(world: World) -> None:
    fill(world)
    for name in ("closed", "gone"):
        world.make(name, gpus=4)
        world.until(lambda name=name: world.note(name, "state"), "it waits")  # type: ignore[misc]
    gone = world.job("gone")
    world.server.closed.add(f"{PLACE}/closed")
    jobs.pause(world.world.service, world.world.admin, world.job("closed").id)
    refused = world.server.refused
    world.until(lambda: world.server.refused >= refused + 3, "how it stands cannot be written")
    world.server.delete(f"{PLACE}/gone")
    world.until(
        lambda: world.view(gone.id).state == "cancelled", "the other's job is cancelled", 15
    )


def test_one_that_nobody_may_pay_for_waits_with_a_sentence(world: World) -> None:
    world.make("digits", team="robotics")
    world.until(lambda: "vision, nlp may pay" in world.note("digits", "reason"), "it is said")
    assert world.trainjob("digits")["spec"]["suspend"] is True
    mended = {"metadata": {"labels": {"gpucommons.io/team": "nlp"}}}
    world.server.merge_patch(f"{PLACE}/digits", mended)
    world.until(lambda: world.is_running("digits", 1), "it runs once that is mended")


def test_an_executor_that_comes_back_takes_over_what_runs_and_ends_strangers(world: World) -> None:
    world.make("digits", nodes=2, gpus=2)
    world.until(lambda: world.is_running("digits", 2), "digits runs")
    uids = {one["metadata"]["uid"] for _, one in world.pods("digits")}
    stranger = {"metadata": {"name": "old"}, "spec": {**world.trainjob("digits")["spec"]}}
    stranger["metadata"]["annotations"] = {"gpucommons.io/attempt": "nobodys"}
    world.server.post(SENT, stranger)
    world.restart()
    world.until(
        lambda: world.server.get(f"{SENT}/old")["spec"]["suspend"], "the stranger is suspended"
    )
    assert {one["metadata"]["uid"] for _, one in world.pods("digits")} == uids
    world.end_pods("digits")
    world.until(lambda: world.job("digits").state == "succeeded", "it ends as if nothing had been")
    assert len(world.job("digits").attempts) == 1


def test_one_that_names_anothers_attempt_is_not_taken_for_it(world: World) -> None:
    others = {"kueue.x-k8s.io/queue-name": "of-others"}
    meta = {"name": "forged", "labels": others}
    spec = {"runtimeRef": {"name": "torch-distributed"}, "suspend": True}
    world.server.post(PLACE, {"metadata": meta, "spec": spec})
    world.make("digits")
    world.until(lambda: world.is_running("digits", 1), "digits runs")
    named = {"gpucommons.io/attempt": world.note("digits", "attempt")}
    world.server.merge_patch(f"{PLACE}/forged", {"metadata": {"annotations": named}})
    world.restart()
    world.look_again()
    world.end_pods("digits")
    world.until(lambda: world.job("digits").state == "succeeded", "it ends as if nothing had been")
    assert len(world.job("digits").attempts) == 1


def test_a_job_of_ours_is_sent_out_as_a_trainjob(world: World) -> None:
    role = {"count": 2, "milli_gpu": 1000, "command": ["torchrun", "train.py"]}
    request = models.JobRequest.model_validate(
        {"name": "mnist", "team": "vision", "environment": "img:1", "roles": [role]}
    )
    job = jobs.submit(world.world.service, world.world.principal("ann"), request, key=None)
    world.until(lambda: world.view(job.id).state == "running", "it runs")
    (sent,) = world.server.get(SENT)["items"]
    assert sent["spec"]["trainer"]["image"] == "img:1"
    world.end_pods(sent["metadata"]["name"])
    world.until(lambda: world.view(job.id).state == "succeeded", "it succeeds")
