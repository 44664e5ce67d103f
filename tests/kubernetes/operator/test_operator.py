"""TrainingJobs and Teams on a real API server, with kubectl, the real operator and a scheduler."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.administration import settings
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.operator.operator_world import OperatorProcess, SchedulerServed, until

CRDS = Path(__file__).parents[3] / "deploy/helm/gpucommons/files/crds"


@pytest.fixture
def kubectl(api: client.ApiClient, kubeconfig: Path, namespace: str) -> Iterator[Kubectl]:
    """In a namespace of the team vision; its objects are gone afterwards, operator or not."""
    admin = Kubectl(kubeconfig, namespace)
    admin("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    admin("wait", "--for=condition=Established", "--timeout=120s", "-f", str(CRDS))
    admin("label", "namespace", namespace, "gpucommons.io/team=vision")
    yield admin
    for kind in ("trainingjobs", "teams"):
        for one in admin.get(kind)["items"]:
            freed = '{"metadata":{"finalizers":null}}'
            admin.try_("patch", kind, one["metadata"]["name"], "--type=merge", "-p", freed)
            admin.try_("delete", kind, one["metadata"]["name"], "--ignore-not-found")


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchedulerServed]:
    found = SchedulerServed(tmp_path_factory.mktemp("scheduler"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def operator(
    kubeconfig: Path, scheduler: SchedulerServed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    found = OperatorProcess(kubeconfig, scheduler.url, log, "--give-up-s", "6")
    yield found
    found.end(signal.SIGKILL)


@pytest.fixture
def started(kubectl: Kubectl, scheduler: SchedulerServed, operator: OperatorProcess) -> None:
    """Both run when the test begins, whatever the one before did to them."""
    scheduler.world.script = Script()
    scheduler.start()
    operator.start()


def a_job(name: str, **spec: Any) -> dict[str, Any]:
    role = {"milli_gpu": 1000, "command": ["python", "train.py"]}
    return {
        "apiVersion": "gpucommons.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"user": "ann", "roles": [role], **spec},
    }


def a_team(name: str, guaranteed: int = 1000, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpucommons.io/v1alpha1",
        "kind": "Team",
        "metadata": {"name": name},
        "spec": {
            "members": ["ann"],
            "quotas": {"gpu": {"guaranteed_milli_gpu": guaranteed}},
            **spec,
        },
    }


def status_of(kubectl: Kubectl, name: str, kind: str = "trainingjob") -> dict[str, Any]:
    return kubectl.get(kind, name).get("status", {})


def state(kubectl: Kubectl, name: str, *states: str) -> Callable[[], bool]:
    return lambda: status_of(kubectl, name).get("state") in states


@pytest.mark.usefixtures("started")
def test_a_job_is_applied_runs_and_ends(kubectl: Kubectl, scheduler: SchedulerServed) -> None:
    scheduler.world.script = Script(run_ms=3_600_000)
    kubectl.apply(a_job("digits"))
    until(state(kubectl, "digits", "running"))
    lines = kubectl("get", "trainingjobs").splitlines()
    assert lines[0].split() == ["NAME", "STATE", "PLACE", "GPUS", "AGE", "REASON"]
    assert lines[1].split()[:3] == ["digits", "running", "1"]
    (job,) = scheduler.jobs(kubectl.namespace)
    assert (job.owner, job.team, job.submitted_by) == ("ann", "vision", "gpucommons-operator")
    scheduler.pass_time(3_601_000)
    until(state(kubectl, "digits", "succeeded"))
    kubectl("wait", "--for=condition=Finished", "trainingjob/digits", "--timeout=120s")
    assert status_of(kubectl, "digits")["job"] == job.name


@pytest.mark.usefixtures("started")
def test_who_waits_has_a_place_and_a_reason(kubectl: Kubectl) -> None:
    whole = {"milli_gpu": 4000, "command": ["x"]}
    kubectl.apply(*(a_job(f"big-{n}", roles=[whole]) for n in range(3)))
    places = until(
        lambda: (
            found
            if sorted(
                filter(
                    None, found := [status_of(kubectl, f"big-{n}").get("place") for n in range(3)]
                )
            )
            == [1, 2]
            else None
        )
    )
    waiting = [n for n, place in enumerate(places) if place]
    until(lambda: all(status_of(kubectl, f"big-{n}").get("reason") for n in waiting))


@pytest.mark.usefixtures("started")
def test_deleting_cancels_and_waits_for_the_end(
    kubectl: Kubectl, scheduler: SchedulerServed
) -> None:
    kubectl.apply(a_job("digits"))
    until(state(kubectl, "digits", "running"))
    kubectl("delete", "trainingjob", "digits", "--timeout=120s")
    (job,) = scheduler.jobs(kubectl.namespace)
    assert job.state == "cancelled"


@pytest.mark.usefixtures("started")
def test_a_killed_operator_doubles_nothing(
    kubectl: Kubectl, scheduler: SchedulerServed, operator: OperatorProcess
) -> None:
    kubectl.apply(a_job("one"))
    until(state(kubectl, "one", "running"))
    operator.end(signal.SIGKILL)
    kubectl.apply(a_job("two"))
    scheduler.world.script = Script(run_ms=10)
    operator.start()
    until(state(kubectl, "two", "running", "succeeded"))
    operator.end(signal.SIGKILL)
    # As if it had died between the submit and the note of it.
    kubectl("patch", "trainingjob", "one", "--subresource=status", "--type=merge", "-p",
            '{"status":{"jobId":null,"state":null}}')  # fmt: skip
    kubectl("annotate", "trainingjob", "one", "operator.gpucommons.io/last-handled-configuration-")
    operator.start()
    until(lambda: status_of(kubectl, "one").get("jobId"))
    assert len(scheduler.jobs(kubectl.namespace)) == 2


@pytest.mark.usefixtures("started")
def test_a_job_deleted_while_no_operator_ran_is_cancelled(
    kubectl: Kubectl, scheduler: SchedulerServed, operator: OperatorProcess
) -> None:
    kubectl.apply(a_job("digits"))
    until(state(kubectl, "digits", "running"))
    operator.end(signal.SIGKILL)
    freed = '{"metadata":{"finalizers":null}}'
    kubectl("patch", "trainingjob", "digits", "--type=merge", "-p", freed)
    kubectl("delete", "trainingjob", "digits", "--timeout=120s")
    operator.start()
    until(lambda: scheduler.jobs(kubectl.namespace)[0].state == "cancelled")


@pytest.mark.usefixtures("started")
def test_a_scheduler_that_is_away_is_said_and_waited_for(
    kubectl: Kubectl, scheduler: SchedulerServed
) -> None:
    scheduler.stop()
    kubectl.apply(a_job("digits"))
    until(state(kubectl, "digits", "submitting"))
    assert "cannot be reached" in status_of(kubectl, "digits")["reason"]
    scheduler.start()
    until(state(kubectl, "digits", "running"))


@pytest.mark.usefixtures("started")
def test_a_deletion_does_not_wait_for_a_scheduler_for_ever(
    kubectl: Kubectl, scheduler: SchedulerServed
) -> None:
    kubectl.apply(a_job("digits"))
    until(state(kubectl, "digits", "running"))
    scheduler.stop()
    kubectl("delete", "trainingjob", "digits", "--timeout=120s")
    scheduler.start()
    until(lambda: scheduler.jobs(kubectl.namespace)[0].state == "cancelled")


@pytest.mark.usefixtures("started")
def test_what_the_scheduler_refuses_is_said(kubectl: Kubectl, scheduler: SchedulerServed) -> None:
    kubectl.apply(a_job("nowhere", pools=["moon"]))
    until(state(kubectl, "nowhere", "refused"))
    assert "There is no pool 'moon'" in status_of(kubectl, "nowhere")["reason"]
    kubectl("delete", "trainingjob", "nowhere", "--timeout=120s")
    assert scheduler.jobs(kubectl.namespace) == []


@pytest.mark.usefixtures("started")
def test_many_refused_jobs_keep_nobody_else_waiting(kubectl: Kubectl) -> None:
    names = [f"nowhere-{number}" for number in range(20)]
    kubectl.apply(*(a_job(name, pools=["moon"]) for name in names))
    until(lambda: all(status_of(kubectl, name).get("state") for name in names[:16]))
    kubectl.apply(a_job("digits"))
    until(state(kubectl, "digits", "running", "succeeded"), 40)


@pytest.mark.usefixtures("started")
def test_a_namespace_without_team_says_how_to_get_one(
    kubectl: Kubectl, scheduler: SchedulerServed
) -> None:
    kubectl("label", "namespace", kubectl.namespace, "gpucommons.io/team-")
    kubectl.apply(a_job("digits"))
    until(state(kubectl, "digits", "refused"))
    assert "belongs to no team" in status_of(kubectl, "digits")["reason"]
    assert scheduler.jobs(kubectl.namespace) == []


@pytest.mark.usefixtures("started")
def test_a_team_is_kept_by_its_object(kubectl: Kubectl, scheduler: SchedulerServed) -> None:
    world = scheduler.world
    kubectl.apply(a_team("sound", 0, quotas={"gpu": {"limit_milli_gpu": 2000}}))
    kubectl("wait", "--for=condition=Ready", "team/sound", "--timeout=120s")
    assert world.cluster.teams[TeamName("sound")].managed_by == "gpucommons-operator"
    unaware = models.ConfigModel.model_validate({"teams": [{"name": "sound"}]})
    with pytest.raises(Exception, match=r"kubectl edit teams\.gpucommons\.io sound"):
        settings.put_config(world.service, world.admin, unaware)
    kubectl.apply(a_team("sound", 0, quotas={"gpu": {"limit_milli_gpu": 3000}}))
    until(lambda: "limit_milli_gpu=3000" in str(world.cluster.teams[TeamName("sound")].quotas))
    kubectl("delete", "team", "sound", "--timeout=120s")
    assert TeamName("sound") not in world.cluster.teams


@pytest.mark.usefixtures("started")
def test_a_team_that_does_not_fit_says_why(kubectl: Kubectl, scheduler: SchedulerServed) -> None:
    kubectl.apply(a_team("sound", 9000))
    until(lambda: status_of(kubectl, "sound", "team").get("ready") == "no")
    assert "over by" in status_of(kubectl, "sound", "team")["reason"]
    assert TeamName("sound") not in scheduler.world.cluster.teams


@pytest.mark.usefixtures("started")
def test_the_release_frees_every_object(
    kubectl: Kubectl, kubeconfig: Path, scheduler: SchedulerServed, operator: OperatorProcess,
    tmp_path: Path,
) -> None:  # fmt: skip
    kubectl.apply(a_job("digits"))
    until(state(kubectl, "digits", "running"))
    operator.end()
    releasing = OperatorProcess(kubeconfig, scheduler.url, tmp_path / "release.log", "--release")
    releasing.start()
    assert releasing.ended() == 0
    assert "finalizers" not in kubectl.get("trainingjob", "digits")["metadata"]
    kubectl("delete", "trainingjob", "digits", "--timeout=120s")
