"""The requests that make, change and remove an attempt's objects. Each may be repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpucommons.scheduler.core.model.types import Attempt
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    ApiError,
    Connection,
    create_once,
)
from gpucommons.scheduler.executors.kubernetes.manifests import patches
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import LayOut
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen

Document = Mapping[str, Any]


class Requests:
    """Writes to the cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def make(self, plan: LayOut) -> list[Document]:
        """Make the Jobs of an attempt and what they own; returns the Jobs."""
        namespace = plan.way.namespace
        made = [self._make_job(namespace, dict(job)) for job in plan.jobs]
        for resource, body in plan.owned(made[0]):
            version = body["apiVersion"]
            base = "/api/v1" if version == "v1" else f"/apis/{version}"
            path = f"{base}/namespaces/{namespace}/{resource}"
            create_once(self._connection, path, dict(body))
        return made

    def _make_job(self, namespace: str, body: dict[str, Any]) -> Document:
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        try:
            return self._connection.post(path, body)
        except ApiError as error:
            if not error.exists:
                raise
        meta = body["metadata"]
        found = self._connection.get(f"{path}/{meta['name']}")
        labels = found["metadata"].get("labels") or {}
        if labels.get(names.ATTEMPT) != meta["labels"][names.ATTEMPT]:
            message = f"There is a Job {meta['name']} already, and it is not of this attempt."
            raise ApiError(CONFLICT, "Foreign", message)
        return found

    def lift(
        self,
        pod: PodSeen,
        attempt: Attempt,
        rank: int,
        node: Mapping[str, str],
        devices: Iterable[str] = (),
    ) -> None:
        """Send a pod on its way."""
        patch = patches.lift(pod, attempt, rank, node, tuple(devices))
        try:
            self._connection.json_patch(_pod(pod), patch)
        except ApiError as error:
            # Its own test fails where it was taken before and only the answer was lost.
            if error.status != UNPROCESSABLE or not self._is_lifted(pod, attempt, rank):
                raise

    def _is_lifted(self, pod: PodSeen, attempt: Attempt, rank: int) -> bool:
        found = self._connection.get(_pod(pod))
        meta, gates = found["metadata"], found["spec"].get("schedulingGates") or ()
        node = (meta.get("annotations") or {}).get(names.NODE)
        return (
            meta["uid"] == pod.uid
            and node == attempt.placements[rank].node_id
            and all(gate["name"] != names.GATE for gate in gates)
        )

    def job(self, namespace: str, name: str) -> Document | None:
        """A Job as it is now; None where there is none."""
        try:
            return self._connection.get(_job(namespace, name))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return None

    def suspend(self, namespace: str, job: str) -> None:
        """End a Job's pods; ``ApiError`` 404 where there is no such Job."""
        self._connection.merge_patch(_job(namespace, job), patches.suspend())

    def hurry(self, pod: PodSeen, *, grace_s: int) -> None:
        """Have a pod killed earlier than its own grace says."""
        self._delete(_pod(pod), {"gracePeriodSeconds": grace_s, "preconditions": {"uid": pod.uid}})

    def bury(self, pod: PodSeen) -> None:
        """Remove a pod whose node does not answer: an admin has said that nothing runs there."""
        self._delete(_pod(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}})

    def remove_pod(self, namespace: str, name: str, uid: str) -> None:
        """End a pod with its own grace."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._delete(path, {"preconditions": {"uid": uid}})

    def delete_job(self, namespace: str, job: str) -> None:
        """Remove a Job and all that it owns."""
        self._delete(_job(namespace, job), {"propagationPolicy": "Background"})

    def _delete(self, path: str, options: dict[str, Any]) -> None:
        try:
            self._connection.delete(path, options)
        except ApiError as error:
            # Gone, or another one of that name by now.
            if error.status not in (NOT_FOUND, CONFLICT):
                raise


def _pod(pod: PodSeen) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _job(namespace: str, job: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs/{job}"
