"""The CRDs' rules on a real API server: what the API's models refuse, ``kubectl apply`` refuses."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.operator.objects import ObjectRef, job_request
from tests.kubernetes.kubectl import Kubectl

CRDS = Path(__file__).parents[3] / "deploy/helm/gpucommons/files/crds"
ROLE = {"command": ["python", "train.py"]}
REF = ObjectRef(namespace="n", name="digits", uid="u")


@pytest.fixture
def kubectl(api: client.ApiClient, kubeconfig: Path, namespace: str) -> Kubectl:
    found = Kubectl(kubeconfig, namespace)
    found("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    found("wait", "--for=condition=Established", "--timeout=120s", "-f", str(CRDS))
    return found


def an_object(kind: str, name: str, spec: dict[str, Any]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "gpucommons.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
    )


def a_spec(**changes: Any) -> dict[str, Any]:
    return {"user": "ann", "roles": [ROLE], **changes}


#: Everything that there is.
FULL = a_spec(
    name="mnist", kind="retrain", team="vision", pools=["a", "b"], min_workers=1, max_workers=4,
    priority="high", over_quota=False, max_run_s=60, start_timeout_s=10, after=["x/y-1"],
    not_before_ms=1, parent="0" * 8 + "-0000-0000-0000-" + "0" * 12, launcher="torchrun",
    snapshot="a" * 64, working_dir="a/b", environment="img:1", env={"A": "1"},
    secrets={"B": "b"}, checkpoints_kept=1, max_restarts=1, results_to="out", labels={"l": "x"},
    exit_after_signal="success", notice_signal="SIGUSR1",
    roles=[{**ROLE, "name": "w", "count": 2, "milli_gpu": 2000, "gpu_kind": "H100",
            "cpu_milli": 1, "memory_mib": 16}],
)  # fmt: skip

WRONG = [
    (a_spec(min_workers=3, max_workers=2), "min_workers is more than max_workers"),
    (a_spec(env={"A": "1"}, secrets={"A": "s"}), "both in env and in secrets"),
    (a_spec(env={"1x": "z"}), "Every name must match"),
    (a_spec(env={"LD_PRELOAD": "x"}), "the scheduler alone sets"),
    (a_spec(secrets={"NVIDIA_VISIBLE_DEVICES": "x"}), "the scheduler alone sets"),
    (a_spec(working_dir="/etc"), "must be a path below its folder"),
    (a_spec(results_to="a/../../b"), "must be a path below its folder"),
    (a_spec(roles=[{**ROLE, "milli_gpu": 1500}]), "a share of one GPU"),
    (a_spec(roles=[ROLE, ROLE]), "Two roles have the same name"),
    (a_spec(roles=[]), "should have at least 1 items"),
    (a_spec(roles=[{"command": []}]), "should have at least 1 items"),
    (a_spec(user="no spaces please"), "spec.user"),
    (a_spec(priority="urgent"), "Unsupported value"),
    (a_spec(max_run_s=0), "greater than or equal to 1"),
    (a_spec(speed=1), "unknown field"),
    ({"user": "ann"}, "spec.roles"),
    ({"roles": [ROLE]}, "spec.user"),
]


@pytest.mark.parametrize(("spec", "says"), WRONG, ids=lambda one: str(one)[:40])
def test_a_wrong_job_is_refused_in_words(kubectl: Kubectl, spec: dict[str, Any], says: str) -> None:
    document = an_object("TrainingJob", "digits", spec)
    refusal = kubectl.refused("create", "--dry-run=server", "-f", "-", stdin=document)
    assert says in refusal


@pytest.mark.parametrize(("spec", "says"), WRONG, ids=lambda one: str(one)[:40])
def test_the_models_refuse_it_too_or_the_intake_does(spec: dict[str, Any], says: str) -> None:
    by_intake = ("both in env", "alone sets", "same name")
    if any(words in says for words in by_intake):
        job_request(spec, REF, team="vision")
        return
    with pytest.raises(BadRequest):
        job_request(spec, REF, team="vision")


@pytest.mark.parametrize("spec", [a_spec(), FULL], ids=["least", "all fields"])
def test_a_right_job_is_taken_by_both(kubectl: Kubectl, spec: dict[str, Any]) -> None:
    job_request(spec, REF, team="vision")
    document = an_object("TrainingJob", "digits", spec)
    kubectl("create", "--dry-run=server", "-f", "-", stdin=document)


def test_a_submitted_job_is_not_changed(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=an_object("TrainingJob", "digits", a_spec()))
    for change in ('{"spec":{"user":"bob"}}', '{"spec":{"priority":"high"}}'):
        refusal = kubectl.refused("patch", "trainingjob", "digits", "--type=merge", "-p", change)
        assert "A submitted job is not changed: delete it" in refusal
    kubectl("label", "trainingjob", "digits", "mine=yes")


def test_a_name_that_no_job_can_have_is_refused(kubectl: Kubectl) -> None:
    document = an_object("TrainingJob", "a.b", a_spec())
    assert "write spec.name" in kubectl.refused("create", "-f", "-", stdin=document)
    named = an_object("TrainingJob", "a.b", a_spec(name="ab"))
    kubectl("create", "--dry-run=server", "-f", "-", stdin=named)


def test_a_team_is_checked(kubectl: Kubectl) -> None:
    quota = {"guaranteed_milli_gpu": 2000, "limit_milli_gpu": 1000}
    for name, spec, says in (
        ("crd-a", {"quotas": {"gpu": quota}}, "limit_milli_gpu is below"),
        ("crd-a", {"parent": "crd-a"}, "its own parent"),
        ("crd.a", {}, "A team's name is at most 50"),
        ("crd-a", {"managed_by": "me"}, "unknown field"),
        ("crd-a", {"policy": {"priorities": ["urgent"]}}, "Unsupported value"),
    ):
        document = an_object("Team", name, spec)
        refusal = kubectl.refused("create", "--dry-run=server", "-f", "-", stdin=document)
        assert says in refusal
    right = an_object("Team", "crd-a", {"quotas": {"gpu": {"fixed_milli_gpu": 1000}}})
    kubectl("create", "--dry-run=server", "-f", "-", stdin=right)


def test_the_status_is_written_apart(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=an_object("TrainingJob", "digits", a_spec()))
    written = '{"status":{"state":"running"}}'
    kubectl("patch", "trainingjob", "digits", "--type=merge", "-p", written)
    assert "status" not in kubectl.get("trainingjob", "digits")
    kubectl("patch", "trainingjob", "digits", "--subresource=status", "--type=merge", "-p", written)
    assert kubectl.get("trainingjob", "digits")["status"] == {"state": "running"}
