"""The chart on a real API server: install, upgrade, rights, policies, uninstall."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from gpucommons.scheduler.cli.cluster_doctor import rights
from tests.kubernetes.api import wait_for
from tests.kubernetes.chart.chart import CHART, HelmRefused, pod_specs, rendered
from tests.kubernetes.chart.chart_release import (
    AGENTS,
    HUB,
    JOBS,
    NAMESPACE,
    PATIENCE_S,
    RELEASE,
    TRUSTED,
    Release,
    doctor,
    room_for_release,
)
from tests.kubernetes.fixtures import need
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.operator.operator_world import OperatorProcess, SchedulerServed, until


@pytest.fixture(scope="module")
def release(api: client.ApiClient, kubeconfig: Path) -> Iterator[Release]:
    need("helm", "kubectl")
    with room_for_release(kubeconfig) as found:
        found.helm("install", str(CHART), "--create-namespace", *found.values())
        yield found


@pytest.fixture
def team_namespace(release: Release, namespace: str) -> Kubectl:
    """A namespace of the team vision, in which ann and bob may edit."""
    release.kubectl("label", "namespace", namespace, "gpucommons.io/team=vision")
    for name in ("ann", "bob", TRUSTED):
        release.kubectl(
            "create", "rolebinding", name.rpartition(":")[2], "--clusterrole=edit",
            f"--user={name}", "-n", namespace,
        )  # fmt: skip
    release.kubectl(
        "wait", "--for=condition=Established", "--timeout=60s", "crd/trainingjobs.gpucommons.io"
    )
    return Kubectl(release.kubeconfig, namespace)


OURS = f"app.kubernetes.io/instance={RELEASE}"


def a_job(name: str = "digits", **spec: Any) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "gpucommons.io/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {"user": "ann", "roles": [{"command": ["x"], "milli_gpu": 1000}], **spec},
        }
    )


# --- install and upgrade ----------------------------------------------------------------------


def held(release: Release) -> list[Any]:
    """What must be the same afterwards."""
    secrets = [
        release.kubectl.get("secret", name, "-n", where)["data"]
        for name, where in (
            ("gpucommons-keys", NAMESPACE),
            ("gpucommons-hub-tokens", NAMESPACE),
            ("gpucommons-hub-tokens", HUB),
            ("gpucommons-agent", AGENTS),
        )
    ]
    claim = release.kubectl.get("pvc", "gpucommons-state")["metadata"]["uid"]
    return [*secrets, claim]


def test_an_upgrade_keeps_tokens_keys_and_state(release: Release) -> None:
    before = held(release)
    release.helm("upgrade", str(CHART), *release.values(**{"scheduler.retentionDays": 30}))
    assert held(release) == before
    arguments = release.kubectl.get("deployment", "gpucommons-scheduler")["spec"]["template"][
        "spec"
    ]
    assert "--retention-days=30" in arguments["containers"][0]["args"]
    with pytest.raises(HelmRefused, match="SQLite is a file on one volume"):
        release.helm("upgrade", str(CHART), *release.values(**{"scheduler.replicas": 2}))
    release.helm("upgrade", str(CHART), *release.values())


def test_pods_of_the_chart_pass_restricted(release: Release, restricted_namespace: str) -> None:
    kubectl = Kubectl(release.kubeconfig, restricted_namespace)
    elsewhere = {"serviceAccountName", "priorityClassName", "restartPolicy"}
    for name, made in pod_specs(rendered()):
        spec = {key: value for key, value in made.items() if key not in elsewhere}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        done = kubectl.try_("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))
        if name == "gpucommons-agent":
            assert 'violates PodSecurity "restricted' in done.stderr
        else:
            assert done.returncode == 0, done.stderr


def test_the_namespace_of_jobs_enforces_restricted(release: Release) -> None:
    labels = release.kubectl.get("namespace", "gpucommons-jobs")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert labels["gpucommons.io/guarded"] == "true"


# --- who may apply what -----------------------------------------------------------------------


def test_people_apply_their_own_jobs_alone(team_namespace: Kubectl) -> None:
    def by(user: str) -> Kubectl:
        return Kubectl(team_namespace.kubeconfig, team_namespace.namespace, user)

    def refused(user: str, document: str) -> str:
        return by(user).refused("create", "-f", "-", stdin=document)

    by("ann")("create", "-f", "-", stdin=a_job("own"))
    by(TRUSTED)("create", "-f", "-", stdin=a_job("trusted"))
    assert "spec.user is ann, but you are bob" in refused("bob", a_job("others"))
    assert "vision pays, not nlp" in refused("ann", a_job("team", team="nlp"))
    change = '{"spec":{"user":"bob"}}'
    words = by("bob").refused("patch", "trainingjob", "own", "--type=merge", "-p", change)
    assert "A submitted job is not changed" in words
    team_namespace("label", "namespace", team_namespace.namespace, "gpucommons.io/team-")
    assert "belongs to no team. An admin gives it one" in refused("ann", a_job("nobodys"))


def test_only_the_scheduler_hands_out_gpus_where_jobs_run(release: Release) -> None:
    kubectl = Kubectl(release.kubeconfig, "gpucommons-jobs")
    kubectl("create", "rolebinding", "eve", "--clusterrole=edit", "--user=eve")
    limits = {"limits": {"nvidia.com/gpu": 1}}
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "c", "image": "x", "resources": limits, "securityContext": own}
    spec = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own"}, "spec": spec}
    eve = Kubectl(release.kubeconfig, "gpucommons-jobs", "eve")
    words = until(lambda: _denied(eve, pod))
    assert "gpucommons-workloads" in words
    # Policies that were deleted and made anew must still find what they go by.
    assert "no params found" not in words


def _denied(kubectl: Kubectl, pod: dict[str, Any]) -> str:
    done = kubectl.try_("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))
    return done.stderr if done.returncode else ""


def test_people_cannot_write_a_status_or_a_team(team_namespace: Kubectl) -> None:
    ann = Kubectl(team_namespace.kubeconfig, team_namespace.namespace, "ann")
    ann("create", "-f", "-", stdin=a_job("own"))
    fake = '{"status":{"jobId":"x"}}'
    words = ann.refused(
        "patch", "trainingjob", "own", "--subresource=status", "--type=merge", "-p", fake
    )
    assert "Forbidden" in words
    assert "Forbidden" in ann.refused("get", "teams")


# --- what the parts may do --------------------------------------------------------------------


def test_the_operator_needs_no_more_than_its_role(
    release: Release, team_namespace: Kubectl, tmp_path: Path
) -> None:
    kubeconfig = release.as_account("gpucommons-operator", tmp_path)
    scheduler = SchedulerServed(tmp_path)
    scheduler.start()
    operator = OperatorProcess(kubeconfig, scheduler.url, tmp_path / "log", "--give-up-s", "5")
    operator.start()
    try:
        ann = Kubectl(team_namespace.kubeconfig, team_namespace.namespace, "ann")
        ann("create", "-f", "-", stdin=a_job())
        until(lambda: _state(team_namespace) == "running")
        team = '{"apiVersion":"gpucommons.io/v1alpha1","kind":"Team","metadata":{"name":"chart-t"},"spec":{}}'
        team_namespace("create", "-f", "-", stdin=team)
        team_namespace("wait", "--for=condition=Ready", "team/chart-t", "--timeout=60s")
        team_namespace("delete", "team", "chart-t", "--timeout=60s")
        team_namespace("delete", "trainingjob", "digits", "--timeout=60s")
    finally:
        operator.end()
        scheduler.stop()
    assert "orbidden" not in operator.log
    denied = Kubectl(kubeconfig, team_namespace.namespace)
    for wish in (("get", "secrets"), ("get", "pods"), ("delete", "trainingjob", "digits")):
        assert "Forbidden" in denied.refused(*wish)


def _state(kubectl: Kubectl) -> str | None:
    found: str | None = kubectl.get("trainingjob", "digits").get("status", {}).get("state")
    return found


#: What the executor asks of the API server: verb, resource, where.
ASKED = (
    ("list", "nodes", None), ("watch", "nodes", None), ("list", "pods", None),
    ("watch", "pods", None), ("list", "jobs.batch", None), ("watch", "jobs.batch", None),
    ("get", "jobs.batch", "gpucommons-jobs"), ("watch", "events", None),
    ("create", "jobs.batch", "gpucommons-jobs"), ("patch", "jobs.batch", "gpucommons-jobs"),
    ("delete", "jobs.batch", "gpucommons-jobs"), ("create", "services", "gpucommons-jobs"),
    ("create", "secrets", "gpucommons-jobs"), ("patch", "pods", "gpucommons-jobs"),
    ("delete", "pods", "gpucommons-jobs"), ("get", "pods/log", "gpucommons-jobs"),
    ("create", "pods", NAMESPACE), ("delete", "pods", NAMESPACE), ("get", "pods/log", NAMESPACE),
    ("delete", "pods", HUB),
)  # fmt: skip
DENIED = (
    ("get", "secrets", NAMESPACE), ("get", "secrets", "gpucommons-jobs"),
    ("list", "secrets", None), ("create", "pods", "default"), ("create", "jobs.batch", "default"),
    ("patch", "pods", "kube-system"), ("create", "pods", HUB), ("get", "configmaps", NAMESPACE),
    ("create", "pods/exec", "gpucommons-jobs"), ("patch", "nodes", None),
    ("create", "rolebindings.rbac.authorization.k8s.io", "gpucommons-jobs"),
)  # fmt: skip


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_the_scheduler_may_do_what_it_does(
    release: Release, asked: tuple[str, str, str | None]
) -> None:
    assert may(release, asked)


@pytest.mark.parametrize("asked", DENIED, ids=str)
def test_the_scheduler_may_do_no_more(release: Release, asked: tuple[str, str, str | None]) -> None:
    assert not may(release, asked)


def may(release: Release, asked: tuple[str, str, str | None]) -> bool:
    verb, resource, namespace = asked
    where = ["--all-namespaces"] if namespace is None else ["--namespace", namespace]
    account = f"--as=system:serviceaccount:{NAMESPACE}:gpucommons-scheduler"
    resource, _, sub = resource.partition("/")
    subresource = [f"--subresource={sub}"] if sub else []
    done = release.kubectl.try_("auth", "can-i", verb, resource, *subresource, *where, account)
    return done.stdout.strip() == "yes"


def test_a_hub_namespace_that_is_not_there_is_refused_before_anything_is_made(
    release: Release,
) -> None:
    elsewhere = release.values(**{"hub.namespace": "not-there"})
    with pytest.raises(HelmRefused, match="kubectl create namespace not-there"):
        release.helm("upgrade", str(CHART), *elsewhere)


def test_a_second_release_in_the_cluster_is_refused_before_anything_is_made(
    release: Release, namespace: str
) -> None:
    before = labelled(release)
    second = replace(release, namespace=namespace)
    with pytest.raises(HelmRefused, match=f"in this cluster already, in namespace {NAMESPACE}"):
        second.helm("install", str(CHART), *release.values())
    assert labelled(release) == before
    assert release.kubectl.get("secret", "-n", namespace)["items"] == []


# --- uninstall --------------------------------------------------------------------------------


def test_an_uninstall_leaves_what_is_written_down_and_nothing_else(release: Release) -> None:
    release.kubectl("-n", JOBS, "create", "secret", "generic", "somebodys", "--from-literal=a=b")
    before = held(release)
    release.helm("uninstall", "--no-hooks")
    # What belonged to a deleted Service or Deployment is collected a little later.
    with contextlib.suppress(TimeoutError):
        wait_for(lambda: labelled(release) == KEPT, "nothing else", seconds=PATIENCE_S)
    assert labelled(release) == KEPT
    namespace = release.kubectl.get("namespace", JOBS)
    assert "deletionTimestamp" not in namespace["metadata"]
    release.kubectl("-n", JOBS, "get", "secret", "somebodys")
    # And what is left does not stand in the way of the next, which what still runs can report to.
    release.helm("install", str(CHART), *release.values())
    assert held(release) == before


KEPT = {
    "CustomResourceDefinition/teams.gpucommons.io",
    "CustomResourceDefinition/trainingjobs.gpucommons.io",
    f"Namespace/{AGENTS}",
    f"Namespace/{JOBS}",
    "PersistentVolumeClaim/gpucommons-state",
    "Secret/gpucommons-agent",
    "Secret/gpucommons-hub-tokens",
    "Secret/gpucommons-keys",
}


def labelled(release: Release) -> set[str]:
    """Every object that carries the release's label."""
    kinds = release.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    found = release.kubectl.get(",".join(kinds), "--all-namespaces", "-l", OURS)["items"]
    return {f"{one['kind']}/{one['metadata']['name']}" for one in found}


# --- gpucommons doctor --cluster --------------------------------------------------------------


def test_the_doctor_asks_for_the_rights_that_the_roles_give() -> None:
    def given(*names: str) -> set[tuple[str, str, str]]:
        return {
            (group, resource, verb)
            for one in rendered()
            if one["kind"] in ("Role", "ClusterRole") and one["metadata"]["name"] in names
            for rule in one["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    def asked(*wanted: tuple[rights.Right, ...]) -> set[tuple[str, str, str]]:
        return {
            (one.group, one.resource, verb) for some in wanted for one in some for verb in one.verbs
        }

    scheduler = ("gpucommons-scheduler", "gpucommons-jobs", "gpucommons-notebooks")
    assert given(*scheduler) == asked(
        rights.SEES, rights.RUNS_JOBS, rights.CLEARS_NOTEBOOKS, rights.HOLDS_CARDS
    )
    assert given("gpucommons-operator") == asked(rights.OPERATES)


def test_the_doctor_sees_what_the_release_may_and_lacks(release: Release) -> None:
    """There is no node, no hub and no pod here: each is a line, and the accounts may all they need."""
    code, found = doctor(release.kubeconfig)
    assert code == 1
    for account in ("scheduler", "operator"):
        line = found[f"rights of gpucommons-{account}"]
        assert line["level"] == "ok", line
    assert found["Kubernetes"]["level"] == "ok"
    assert found[f"namespace {JOBS}"]["found"] == "guarded, restricted"
    assert found[f"namespace {HUB}"]["change"].startswith(f"kubectl label namespace {HUB}")
    assert found["hub"]["found"].startswith(f"no pod of a hub in {HUB}")
    assert found["claim gpucommons/gpucommons-state"]["level"] == "problem"

    release.kubectl("delete", "rolebinding", "gpucommons-jobs", "-n", JOBS)
    _, found = doctor(release.kubeconfig)
    line = found["rights of gpucommons-scheduler"]
    assert line["level"] == "problem"
    assert f"create jobs in {JOBS}" in line["found"]
    release.helm("upgrade", str(CHART), *release.values())


def test_the_doctor_of_somebody_who_may_little_says_what_it_did_not_see(
    release: Release, tmp_path: Path
) -> None:
    culler = release.as_account("gpucommons-culler", tmp_path)
    code, found = doctor(culler)
    assert code in (0, 1)
    assert found["clocks"]["level"] == "advice"
    assert "not seen" in found["clocks"]["found"]
    assert "somebody who may" in found["clocks"]["change"]
