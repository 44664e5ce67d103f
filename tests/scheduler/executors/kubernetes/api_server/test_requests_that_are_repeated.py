"""Requests whose answer was lost, or that met somebody else's write: done again, and done once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from cluster_objects import ATTEMPT_ID, FILES, JOB, a_launch, a_pod_seen, an_attempt

from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.kubernetes.api_server.refusals import is_refusal
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import LayOut, lay_out
from gpucommons.scheduler.executors.kubernetes.manifests.requests import Requests
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

QUOTA = ApiError(
    409,
    "Conflict",
    'Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please apply'
    " your changes to the latest version and try again",
)
EXISTS = ApiError(409, "AlreadyExists", "it exists")
LOST = ApiError(504, "Timeout", "request did not complete within the allotted timeout")
INVALID = ApiError(422, "Invalid", "the server rejected our request due to an error in our request")
NODE = {"kubernetes.io/hostname": "n0"}


def the_plan() -> LayOut:
    settings = KubernetesSettings(namespace="jobs", environments={"": "image"})
    return lay_out(a_launch(), settings, None, FILES)


@dataclass
class Server:
    """Answers each request to make something of one kind with what is on its list; then takes it."""

    says: dict[str, list[ApiError]]
    made: list[str] = field(default_factory=list)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        kind = path.rpartition("/")[2]
        if answers := self.says.get(kind):
            raise answers.pop(0)
        self.made.append(kind)
        return {**body, "metadata": {**body["metadata"], "uid": "u"}}

    def get(self, _path: str) -> dict[str, Any]:
        meta = {"name": JOB, "uid": "u", "labels": {names.ATTEMPT: ATTEMPT_ID}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}


@pytest.mark.parametrize("kind", ["jobs", "secrets"])
def test_a_quota_that_others_wrote_at_the_same_time_is_asked_again(kind: str) -> None:
    server = Server({kind: [QUOTA]})
    requests = Requests(cast("Any", server))
    with pytest.raises(ApiError) as refused:
        requests.make(the_plan())
    assert refused.value.try_again
    # Again, as the loop does: what was made meanwhile is there.
    server.says["jobs"] = [EXISTS] if "jobs" in server.made else []
    requests.make(the_plan())
    assert server.made == ["jobs", "secrets"]


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (QUOTA, True),
        (ApiError(401, "Unauthorized", ""), True),
        (EXISTS, False),
        (ApiError(409, "Foreign", ""), False),
        (INVALID, False),
    ],
)
def test_what_another_moment_may_grant_is_told_from_what_is_so(
    error: ApiError, *, again: bool
) -> None:
    assert error.try_again == again
    assert not (again and is_refusal(error))


@dataclass
class PodServer:
    """Has one pod, as the last request left it, and refuses the next."""

    gates: tuple[str, ...] = (names.GATE,)
    node: str | None = None
    uid: str = "uid-0"

    def json_patch(self, _path: str, _patch: object) -> None:
        if names.GATE not in self.gates:
            raise INVALID
        self.gates, self.node = (), "n0"
        raise LOST

    def get(self, _path: str) -> dict[str, Any]:
        notes = {} if self.node is None else {names.NODE: self.node}
        gates = [{"name": gate} for gate in self.gates]
        return {
            "metadata": {"uid": self.uid, "annotations": notes},
            "spec": {"schedulingGates": gates},
        }


def test_a_pod_whose_way_was_open_before_the_answer_was_lost_is_on_its_way() -> None:
    requests = Requests(cast("Any", PodServer()))
    with pytest.raises(ApiError) as lost:
        requests.lift(a_pod_seen(), an_attempt(), 0, NODE)
    assert lost.value.try_again
    requests.lift(a_pod_seen(), an_attempt(), 0, NODE)


@pytest.mark.parametrize(
    "server",
    [
        PodServer(gates=()),
        PodServer(gates=(), node="n1"),
        PodServer(gates=(), node="n0", uid="another"),
    ],
    ids=["nobody of ours", "another node", "another pod"],
)
def test_a_gate_that_somebody_else_took_away_is_no_success(server: PodServer) -> None:
    with pytest.raises(ApiError) as refused:
        Requests(cast("Any", server)).lift(a_pod_seen(), an_attempt(), 0, NODE)
    assert refused.value is INVALID
