"""What our accounts must be allowed; a test holds this against the chart's roles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpucommons.gpu.doctor.diagnosis import OK, PROBLEM, Finding
from gpucommons.scheduler.cli.cluster_doctor.cluster import SCHEDULER, Cluster

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OPERATOR = "gpucommons-operator"
_NAMED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Right:
    """Verbs on one resource."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    #: Of one object alone.
    name: str = ""


_LOOK = ("get", "list", "watch")
#: Everywhere.
SEES = (
    *(Right(group="", resource=one, verbs=_LOOK) for one in ("nodes", "pods", "events")),
    Right(group="batch", resource="jobs", verbs=_LOOK),
)
#: In each namespace of jobs.
RUNS_JOBS = (
    Right(group="batch", resource="jobs", verbs=("create", "patch", "delete")),
    Right(group="", resource="services", verbs=("create",)),
    Right(group="", resource="secrets", verbs=("create",)),
    Right(group="", resource="pods", verbs=("patch", "delete")),
    Right(group="", resource="pods/log", verbs=("get",)),
)
#: In the hub's namespace.
CLEARS_NOTEBOOKS = (Right(group="", resource="pods", verbs=("delete",)),)
#: In the release's own.
HOLDS_CARDS = (
    Right(group="", resource="pods", verbs=("create", "delete")),
    Right(group="", resource="pods/log", verbs=("get",)),
    Right(group="apps", resource="deployments", verbs=("get",), name=SCHEDULER),
    Right(group="", resource="podtemplates", verbs=("delete",)),
    Right(group="autoscaling.x-k8s.io", resource="provisioningrequests", verbs=("list", "delete")),
)
#: The operator's, everywhere.
OPERATES = (
    Right(group="gpucommons.io", resource="trainingjobs", verbs=(*_LOOK, "patch")),
    Right(group="gpucommons.io", resource="teams", verbs=(*_LOOK, "patch")),
    Right(group="gpucommons.io", resource="trainingjobs/status", verbs=("patch",)),
    Right(group="gpucommons.io", resource="teams/status", verbs=("patch",)),
    Right(group="", resource="namespaces", verbs=("get",)),
    Right(group="", resource="events", verbs=("create",)),
)


def check(cluster: Cluster) -> Iterator[Finding]:
    """Ask the API server what it would let them do."""
    settings = cluster.settings
    jobs = (settings.namespace, *settings.team_namespaces.values())
    wanted = [("", SEES), (cluster.namespace, HOLDS_CARDS)]
    wanted += [(cluster.hub_namespace, CLEARS_NOTEBOOKS)]
    wanted += [(namespace, RUNS_JOBS) for namespace in dict.fromkeys(jobs)]
    yield _of(cluster, SCHEDULER, wanted)
    where = f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments/{_OPERATOR}"
    if cluster.find(where) is not None:
        yield _of(cluster, _OPERATOR, [("", OPERATES)])


def _of(cluster: Cluster, account: str, wanted: list[tuple[str, tuple[Right, ...]]]) -> Finding:
    missing, asked = [], 0
    for namespace, rights in wanted:
        for right in rights:
            for verb in right.verbs:
                asked += 1
                if not _may(cluster, account, namespace, right, verb):
                    missing.append(f"{verb} {right.resource} in {namespace or 'the cluster'}")
    name = f"rights of {account}"
    if not missing:
        return Finding(check=name, level=OK, found=f"all {asked}")
    more = "" if len(missing) <= _NAMED else f" and {len(missing) - _NAMED} more"
    return Finding(
        check=name,
        level=PROBLEM,
        found=f"may not {', '.join(missing[:_NAMED])}{more}",
        change="`helm upgrade` writes the chart's roles again; something else took them away.",
    )


def _may(cluster: Cluster, account: str, namespace: str, right: Right, verb: str) -> bool:
    resource, _, part = right.resource.partition("/")
    asked = {"verb": verb, "group": right.group, "resource": resource, "subresource": part}
    asked |= {"namespace": namespace, "name": right.name}
    user = f"system:serviceaccount:{cluster.namespace}:{account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{cluster.namespace}"]
    spec = {"user": user, "groups": [*groups, "system:authenticated"]}
    spec["resourceAttributes"] = {name: value for name, value in asked.items() if value}  # type: ignore[assignment]
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool((cluster.server.post(REVIEWS, body).get("status") or {}).get("allowed"))
