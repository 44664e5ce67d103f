"""What `gpucommons doctor --cluster` says of clusters, each with one thing that is not as it should be."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from gpucommons.gpu.doctor.diagnosis import OK, PROBLEM, Finding
from gpucommons.scheduler.cli.cluster_doctor import command
from gpucommons.scheduler.cli.cluster_doctor.cluster import Cluster, look
from gpucommons.scheduler.cli.cluster_doctor.rights import REVIEWS
from gpucommons.scheduler.cli.commands import build_parser
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.models.hub_scopes import SCOPES_OF_SERVICES

NOW = datetime(2026, 11, 28, 7, 0, tzinfo=UTC)
OURS, HUB, JOBS, AGENTS = "gpucommons", "jhub", "gpucommons-jobs", "gpucommons-agents"
TOKENS = {
    name: base64.b64encode(f"{name} word".encode()).decode()
    for name in ("scheduler", "culler", "operator", "spawner")
}
ACCESS = "hub.jupyter.org/network-access-hub"
Objects = dict[str, Any]
HUB_POD = {"app": "jupyterhub", "component": "hub"}
POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
ACCEPTED = {"podSelector": {"matchLabels": {ACCESS: "true"}}, "namespaceSelector": {}}
OUR_TAINT = {"key": "gpucommons.io/pool", "value": "train", "effect": "NoSchedule"}
OTHER_TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


class FakeServer:
    """Objects by path; what the accounts may not; what the caller may not read."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.denied: set[tuple[str, str, str]] = set()
        self.closed: set[str] = set()
        self.asked: list[dict[str, Any]] = []
        #: What the hub says of who shows a token.
        self.services: dict[str, Objects] = {
            f"token {name} word": {"name": service, "scopes": [*scopes, "read:services:name"]}
            for name, (service, scopes) in zip(
                ("scheduler", "culler", "spawner", "operator"),
                SCOPES_OF_SERVICES.items(),
                strict=True,
            )
        }

    def get(self, path: str, **query: str | int) -> Any:
        if any(path.startswith(one) for one in self.closed):
            raise ApiError(403, "Forbidden", f"you cannot read {path}")
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return self.objects[path]

    def ask_pod(
        self, namespace: str, pod: str, port: int, path: str, headers: Mapping[str, str]
    ) -> Any:
        assert (namespace, pod, port, path) == (HUB, "hub-1", 8081, "/own/hub/api/user")
        if "portforward" in self.closed:
            raise ApiError(403, "NotForwarded", "you cannot create pods/portforward")
        if headers["Authorization"] not in self.services:
            raise ApiError(403, "", "the pod hub-1 answered 403")
        return self.services[headers["Authorization"]]

    def post(self, path: str, body: Any) -> Any:
        assert path == REVIEWS
        if path in self.closed:
            raise ApiError(403, "Forbidden", "you cannot create subjectaccessreviews")
        self.asked.append(body["spec"])
        asked = body["spec"]["resourceAttributes"]
        account = body["spec"]["user"].rpartition(":")[2]
        key = (account, asked["verb"], asked["resource"])
        return {"status": {"allowed": key not in self.denied}}


def at(seconds: float = 0) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def deployment(name: str, available: int = 1) -> Objects:
    claims = [{"name": "state", "persistentVolumeClaim": {"claimName": "gpucommons-state"}}]
    claims.append({"name": "jobs", "persistentVolumeClaim": {"claimName": "files"}})
    lies = {"name": "gpucommons-hub-tokens", "key": name.removeprefix("gpucommons-")}
    env: list[Objects] = [
        {"name": "JUPYTERHUB_API_URL", "value": "http://hub.jhub.svc:8081/own/hub/api"},
        {"name": "JUPYTERHUB_API_TOKEN", "valueFrom": {"secretKeyRef": lies}},
    ]
    container = {"args": ["--state=/x", "--storage-claim=files"], "env": env}
    labels = {"app.kubernetes.io/component": "scheduler", ACCESS: "true"}
    template = {"metadata": {"labels": labels}}
    template["spec"] = {"volumes": claims, "containers": [container]}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 1, "template": template},
        "status": {"availableReplicas": available},
    }


def policies(name: str, chosen: Objects, *peers: Objects) -> Objects:
    """Of one namespace: one policy that closes its pods for all but these."""
    spec = {"podSelector": {"matchLabels": chosen}, "policyTypes": ["Ingress", "Egress"]}
    ingress = [{"ports": [{"port": 8081}], "from": list(peers)}]
    return {"items": [{"metadata": {"name": name}, "spec": {**spec, "ingress": ingress}}]}


def claim(mode: str = "ReadWriteMany", phase: str = "Bound", **spec: Any) -> Objects:
    chosen = {"accessModes": [mode], "storageClassName": "nfs", **spec}
    return {"spec": chosen, "status": {"phase": phase}}


def node(name: str, *, gpus: int = 8, taints: list[Objects] | None = None) -> Objects:
    return {
        "metadata": {"name": name, "labels": {"gpucommons.io/pool": "train"}},
        "spec": {"taints": [OUR_TAINT] if taints is None else taints},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"nvidia.com/gpu": str(gpus)},
        },
    }


def lease(name: str, seconds: float) -> Objects:
    return {"metadata": {"name": name}, "spec": {"renewTime": at(seconds)}}


def a_cluster() -> Objects:
    """All as it should be."""
    described = {"namespace": JOBS, "system_namespace": OURS, "hub_namespace": HUB, "agents": True}
    described |= {"pools": {"train": {}}, "agent_ca_file": "/etc/gpucommons/agent-ca/ca.crt"}
    guarded = {"gpucommons.io/guarded": "true"}
    restricted = guarded | {"pod-security.kubernetes.io/enforce": "restricted"}
    privileged = {"pod-security.kubernetes.io/enforce": "privileged"}
    values = base64.b64encode(b"extraConfig: configure_cluster(c)").decode()
    volumes = [
        {"secret": {"secretName": "gpucommons-hub-tokens"}},
        {"secret": {"secretName": "hub"}},
    ]
    hub = {"metadata": {"name": "hub-1"}, "spec": {"volumes": volumes}}
    hub |= {"status": {"startTime": at(-100)}}
    tokens = {"metadata": {"creationTimestamp": at(-900)}, "data": TOKENS}
    core, apps = "/api/v1/namespaces", "/apis/apps/v1/namespaces"
    status = {"desiredNumberScheduled": 2, "numberAvailable": 2}
    return {
        "/version": {"major": "1", "minor": "36+", "gitVersion": "v1.36.2"},
        "/api/v1/nodes": {"items": [node("n1"), node("n2")]},
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases": {
            "items": [lease("n1", -4), lease("n2", -9), lease("gone", -90_000)]
        },
        f"{core}/{OURS}/configmaps/gpucommons-scheduler": {
            "data": {"kubernetes.yaml": yaml.safe_dump(described)}
        },
        f"{apps}/{OURS}/deployments/gpucommons-scheduler": deployment("gpucommons-scheduler"),
        f"{apps}/{OURS}/deployments/gpucommons-culler": deployment("gpucommons-culler"),
        f"{apps}/{OURS}/deployments/gpucommons-operator": deployment("gpucommons-operator"),
        f"{apps}/{AGENTS}/daemonsets/gpucommons-agent": {"spec": {}, "status": status},
        f"{core}/{JOBS}": {"metadata": {"labels": restricted}},
        f"{core}/{HUB}": {"metadata": {"labels": guarded}},
        f"{core}/{AGENTS}": {"metadata": {"labels": privileged}},
        f"{core}/{OURS}/persistentvolumeclaims/gpucommons-state": claim("ReadWriteOnce"),
        f"{core}/{OURS}/persistentvolumeclaims/files": claim(),
        f"{core}/{JOBS}/persistentvolumeclaims/files": claim(),
        "/apis/storage.k8s.io/v1/storageclasses": {"items": [{"metadata": {"name": "nfs"}}]},
        f"{core}/{HUB}/pods": {"items": [hub]},
        f"{core}/{OURS}/secrets/gpucommons-hub-tokens": tokens,
        f"{core}/{HUB}/secrets/gpucommons-hub-tokens": tokens,
        f"{core}/{HUB}/secrets/hub": {"data": {"values.yaml": values}},
        f"{core}/{OURS}/services/gpucommons-api:http/proxy/healthz": {"ok": True},
        f"{apps}/{HUB}/deployments/hub": {"spec": {"template": {"metadata": {"labels": HUB_POD}}}},
        f"{core}/{OURS}": {"metadata": {}},
        # As Zero to JupyterHub's chart writes it with interNamespaceAccessLabels: accept…
        POLICIES.format(HUB): policies("hub", HUB_POD, ACCEPTED),
        # …and as ours does.
        POLICIES.format(OURS): policies(
            "gpucommons-scheduler",
            {"app.kubernetes.io/component": "scheduler"},
            {"ipBlock": {"cidr": "10.0.0.0/8"}},
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [HUB]}
                    ]
                },
                "podSelector": {"matchLabels": {"component": "hub"}},
            },
        ),
    }


def findings(server: FakeServer) -> tuple[Finding, ...]:
    return look(command.CHECKS, Cluster(server=server, namespace=OURS, now_s=NOW.timestamp()))


def test_pools_that_only_labels_name_are_looked_at() -> None:
    server = FakeServer(a_cluster())
    path = f"{CORE}/{OURS}/configmaps/gpucommons-scheduler"
    described = yaml.safe_load(server.objects[path]["data"]["kubernetes.yaml"]) | {"pools": {}}
    server.objects[path]["data"]["kubernetes.yaml"] = yaml.safe_dump(described)

    lines = {one.check: one for one in findings(server)}
    assert lines["pool train"].found == "2 node(s), 16 nvidia.com/gpu"
    assert lines["taints of pool train"].level == OK

    for each in server.objects["/api/v1/nodes"]["items"]:
        each["metadata"]["labels"] = {}
    unlabelled = {one.check: one for one in findings(server)}["pools"]
    assert (unlabelled.level, "gpucommons.io/pool=POOL" in unlabelled.change) == (PROBLEM, True)


def test_a_cluster_that_fits_has_nothing_but_ok() -> None:
    found = findings(FakeServer(a_cluster()))
    assert [one for one in found if one.level != OK] == []
    document, text = command.report(found)
    assert text.endswith("Nothing stops work here.")
    assert json.dumps(document)
    assert " word" not in text + json.dumps(document)


def changed(path: str, change: Callable[[Any], object]) -> Callable[[FakeServer], None]:
    def apply(server: FakeServer) -> None:
        change(server.objects[path])

    return apply


def removed(path: str) -> Callable[[FakeServer], None]:
    def apply(server: FakeServer) -> None:
        del server.objects[path]

    return apply


def put(path: str, value: Any) -> Callable[[FakeServer], None]:
    def apply(server: FakeServer) -> None:
        server.objects[path] = value

    return apply


CORE, APPS = "/api/v1/namespaces", "/apis/apps/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ENFORCE = "pod-security.kubernetes.io/enforce"
#: What is wrong · the line's name · level · what it says · what to do.
CASES: list[tuple[Callable[[FakeServer], None], str, str, str, str]] = [
    (
        put(POLICIES.format(HUB), policies("hub", HUB_POD, {"podSelector": ACCEPTED["podSelector"]})),
        "hub lets us in", PROBLEM,
        "network policies of jhub (hub) admit no such pod of gpucommons", "interNamespaceAccessLabels: accept",
    ),
    (
        put(POLICIES.format(OURS), policies("closed", {}, {"namespaceSelector": {"matchLabels": {"a": "b"}}})),
        "scheduler lets the hub in", PROBLEM, "(closed) admit no such pod of jhub", "hub.hubLabels of our chart",
    ),
    (
        put("/version", {"major": "1", "minor": "29", "gitVersion": "v1.29.0"}),
        "Kubernetes", PROBLEM, "v1.29.0", "1.33 or newer",
    ),
    (
        put(LEASES, {"items": [lease("n1", -4), lease("n2", -304)]}),
        "clocks", PROBLEM, "the clock of n2", "chrony",
    ),
    (
        put(LEASES, {"items": [lease("n1", 600), lease("n2", 605)]}),
        "clocks", "advice", "ahead of this machine's", "One of them is wrong",
    ),
    (
        put(f"{APPS}/{OURS}/deployments/gpucommons-culler", deployment("gpucommons-culler", available=0)),
        "gpucommons-culler", PROBLEM, "0 of 1 available", "kubectl -n gpucommons get events",
    ),
    (
        removed(f"{APPS}/{AGENTS}/daemonsets/gpucommons-agent"),
        "gpucommons-agent", PROBLEM, "not there", "helm upgrade",
    ),
    (
        lambda server: server.denied.add(("gpucommons-scheduler", "delete", "pods")),
        "rights of gpucommons-scheduler", PROBLEM,
        "delete pods in gpucommons, delete pods in jhub, delete pods in gpucommons-jobs",
        "writes the chart's roles again",
    ),
    (
        lambda server: server.denied.add(("gpucommons-operator", "watch", "teams")),
        "rights of gpucommons-operator", PROBLEM, "watch teams in the cluster", "helm upgrade",
    ),
    (
        lambda server: server.closed.add(REVIEWS),
        "rights", "advice", "you cannot create subjectaccessreviews", "somebody who may",
    ),
    (
        changed(f"{CORE}/{AGENTS}", lambda one: one["metadata"]["labels"].update({ENFORCE: "baseline"})),
        f"namespace {AGENTS}", PROBLEM, "enforces baseline", f"{ENFORCE}=privileged --overwrite",
    ),
    (
        changed(f"{CORE}/{JOBS}", lambda one: one["metadata"]["labels"].clear()),
        f"namespace {JOBS}", "advice", "takes GPUs", "gpucommons.io/guarded=true",
    ),
    (
        changed(f"{CORE}/{HUB}", lambda one: one["metadata"]["labels"].clear()),
        f"namespace {HUB}", "advice", "takes GPUs", f"label namespace {HUB}",
    ),
    (
        removed(f"{CORE}/{JOBS}"),
        f"namespace {JOBS}", PROBLEM, "no", f"kubectl create namespace {JOBS}",
    ),
    (
        put("/api/v1/nodes", {"items": []}),
        "pool train", PROBLEM, "no node has gpucommons.io/pool=train", "kubectl label node NODE",
    ),
    (
        put("/api/v1/nodes", {"items": [node("n1"), node("n2", gpus=0)]}),
        "pool train", PROBLEM, "8 nvidia.com/gpu; none on n2", "device plugin's pod",
    ),
    (
        put("/api/v1/nodes", {"items": [node("n1", gpus=0)]}),
        "pool train", "advice", "0 nvidia.com/gpu", "device plugin does not run there",
    ),
    (
        put("/api/v1/nodes", {"items": [node("n1", taints=[])]}),
        "taints of pool train", "advice", "pods of others may run on n1",
        "kubectl taint node NODE gpucommons.io/pool=train:NoSchedule",
    ),
    (
        put("/api/v1/nodes", {"items": [node("n1", taints=[OUR_TAINT, OTHER_TAINT])]}),
        "taints of pool train", PROBLEM, "n1 has team=a:NoSchedule", "jobs.pod.tolerations",
    ),
    (
        put(f"{CORE}/{JOBS}/persistentvolumeclaims/files", claim("ReadWriteOnce")),
        f"claim {JOBS}/files", PROBLEM, "only one node at a time", "ReadWriteMany",
    ),
    (
        removed(f"{CORE}/{JOBS}/persistentvolumeclaims/files"),
        f"claim {JOBS}/files", PROBLEM, "there is none", "storage.folder",
    ),
    (
        put(
            f"{CORE}/{OURS}/persistentvolumeclaims/gpucommons-state",
            claim(phase="Pending", storageClassName="fast"),
        ),
        f"claim {OURS}/gpucommons-state", PROBLEM, "Pending", "There is no storage class fast",
    ),
    (
        put(
            f"{CORE}/{OURS}/persistentvolumeclaims/gpucommons-state",
            claim(phase="Pending", storageClassName=None),
        ),
        f"claim {OURS}/gpucommons-state", PROBLEM, "Pending", "no default storage class",
    ),
    (
        put(f"{CORE}/{HUB}/pods", {"items": []}),
        "hub", PROBLEM, "no pod of a hub in jhub", "hub.namespace",
    ),
    (
        put(f"{CORE}/{HUB}/secrets/gpucommons-hub-tokens", {"metadata": {}, "data": {"scheduler": "x"}}),
        "hub's tokens", PROBLEM, "not the same here and in jhub", "restart the hub",
    ),
    (
        changed(f"{CORE}/{HUB}/pods", lambda one: one["items"][0]["spec"]["volumes"].pop(0)),
        "hub's tokens", PROBLEM, "does not mount", "gpucommons install",
    ),
    (
        changed(
            f"{CORE}/{HUB}/pods",
            lambda one: one["items"][0]["status"].update(startTime=at(-2000)),
        ),
        "hub's tokens", PROBLEM, "started before they were made", "rollout restart deployment/hub",
    ),
    (
        put(f"{CORE}/{HUB}/secrets/hub", {"data": {"values.yaml": "e30="}}),
        "hub's spawner", PROBLEM, "notebooks get no GPU from us", "gpucommons install",
    ),
    (
        lambda server: server.services.pop("token culler word"),
        "scopes of gpucommons-culler", PROBLEM,
        "does not take its token (culler in the Secret gpucommons-hub-tokens)",
        "kubectl -n jhub rollout restart deployment/hub",
    ),
    (
        lambda server: server.services["token scheduler word"].update(
            scopes=["servers!user=ann", "list:users", "read:users:name"]
        ),
        "scopes of gpucommons", PROBLEM,
        "does not give it servers, read:users:groups", "load_roles",
    ),
    (
        lambda server: server.services["token spawner word"].update(name="gpucommons"),
        "scopes of gpucommons-spawner", PROBLEM,
        "takes its token for that of gpucommons", "one token",
    ),
    (
        lambda server: server.closed.add("portforward"),
        "scopes", "advice", "you cannot create pods/portforward", "somebody who may",
    ),
    (
        removed(f"{CORE}/{OURS}/services/gpucommons-api:http/proxy/healthz"),
        "scheduler answers", PROBLEM, "does not decide", "logs deployment/gpucommons-scheduler",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "check", "level", "says", "change"), CASES)
def test_what_is_wrong_is_said_with_what_to_do(
    wrong: Callable[[FakeServer], None], check: str, level: str, says: str, change: str
) -> None:
    server = FakeServer(a_cluster())
    wrong(server)
    (found,) = (one for one in findings(server) if one.level != OK and one.check == check)
    assert found.level == level
    assert says in found.found
    assert change in found.change
    others = [one for one in findings(server) if one.level == PROBLEM and one.check != check]
    assert len(others) <= 1, others


def test_without_a_release_that_alone_is_said() -> None:
    server = FakeServer(a_cluster())
    del server.objects[f"{CORE}/{OURS}/configmaps/gpucommons-scheduler"]
    found = [one for one in findings(server) if one.level == PROBLEM]
    assert len(found) == 1
    assert "There is no release of GPU Commons in the namespace gpucommons" in found[0].found
    assert "--namespace" in found[0].found


def test_a_server_that_does_not_answer_is_a_line_and_no_traceback() -> None:
    class Away(FakeServer):
        def get(self, path: str, **query: str | int) -> Any:
            raise ApiError(0, "Unreachable", "The API server does not answer")

    found = findings(Away({}))
    assert found
    assert {one.level for one in found} == {PROBLEM}
    assert "Try again" in found[0].change


def test_rights_are_asked_in_the_accounts_name_and_of_each_verb() -> None:
    server = FakeServer(a_cluster())
    findings(server)
    users = {one["user"] for one in server.asked}
    assert users == {
        f"system:serviceaccount:{OURS}:gpucommons-{part}" for part in ("scheduler", "operator")
    }
    log = [one["resourceAttributes"] for one in server.asked]
    assert {"verb": "get", "resource": "pods", "subresource": "log", "namespace": JOBS} in log


def test_the_report_counts_what_is_not_ok() -> None:
    server = FakeServer(a_cluster())
    server.objects["/api/v1/nodes"] = {"items": []}
    found = findings(server)
    _, text = command.report(found)
    assert "1 of " in text
    assert "not ok" in text


def test_the_command_asks_for_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "connect", lambda: FakeServer({}))
    arguments = build_parser().parse_args(["doctor", "--cluster", "--namespace", "other"])
    assert command.doctor(arguments) == 1


@pytest.mark.parametrize(
    "policy",
    [
        {"items": []},
        policies("of others", {"component": "proxy"}),
        policies("open", HUB_POD),
        {
            "items": [
                {
                    "metadata": {"name": "out"},
                    "spec": {"podSelector": {}, "policyTypes": ["Egress"]},
                }
            ]
        },
    ],
    ids=["none", "of others", "for all", "of what goes out"],
)
def test_what_no_policy_closes_is_open(policy: Objects) -> None:
    server = FakeServer(a_cluster() | {POLICIES.format(HUB): policy})
    (found,) = (one for one in findings(server) if one.check == "hub lets us in")
    assert found.level == OK
