"""Trainer's, JobSet's and the Job controller's part, played: for tests where none of them is.

It does what can be seen from outside of Trainer 2.0.0 with one training job: pods by number while a
TrainJob is not suspended, none while it is, and its conditions. Initializers, services and what a
restart of JobSet does are left out.
"""

from __future__ import annotations

import threading
from typing import Any

from gpucommons.scheduler.adapters.trainer import trainjobs
from gpucommons.scheduler.adapters.trainer.trainjobs import Document
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    Connection,
)
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.threads.repeating import repeat

_JOBSET = "jobset.sigs.k8s.io"
_LOOK_S = 0.2


class FakeTrainer:
    """Plays them in one namespace until it is closed."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._trainjobs = trainjobs.path_of(namespace)
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        #: Stops to play, as controllers that are down do.
        self.away = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake trainer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        repeat(self._look, what="Playing Trainer", pause_s=_LOOK_S, stopping=self._stopping)

    def _look(self) -> None:
        if self.away:
            return
        pods = self._connection.get(self._pods)["items"]
        for one in self._connection.get(self._trainjobs)["items"]:
            name = one["metadata"]["name"]
            own = [pod for pod in pods if _jobset_of(pod) == name]
            if trainjobs.finished(one) is None:
                try:
                    self._reconcile({**_KIND, **one}, own)
                except ApiError as error:
                    if error.status not in (CONFLICT, NOT_FOUND):
                        raise

    def _reconcile(self, trainjob: Document, pods: list[Document]) -> None:
        if trainjobs.is_suspended(trainjob):
            for pod in pods:
                if "deletionTimestamp" not in pod["metadata"]:
                    self._connection.delete(f"{self._pods}/{pod['metadata']['name']}")
            self._say(trainjob, "Suspended", "True", "Suspended", "TrainJob is suspended")
            return
        self._say(trainjob, "Suspended", "False", "Resumed", "TrainJob is resumed")
        runtime = self._connection.get(trainjobs.runtime_path(trainjob))
        nodes = (trainjob["spec"].get("trainer") or {}).get("numNodes") or 1
        there = {int(pod["metadata"]["labels"][names.COMPLETION_INDEX]): pod for pod in pods}
        for index in range(nodes):
            if index not in there:
                self._connection.post(self._pods, pod_of(trainjob, runtime, index))
        phases = [(pod.get("status") or {}).get("phase") for pod in there.values()]
        if "Failed" in phases:
            self._say(
                trainjob,
                "Failed",
                "True",
                "FailedJobs",
                "jobset failed due to one or more job failures",
            )
        elif len(phases) == nodes and set(phases) == {"Succeeded"}:
            self._say(
                trainjob, "Complete", "True", "AllJobsCompleted", "jobset completed successfully"
            )

    def _say(self, trainjob: Document, kind: str, verdict: str, reason: str, message: str) -> None:
        before = (trainjob.get("status") or {}).get("conditions") or []
        known = next((one for one in before if one["type"] == kind), None)
        if (known is None and verdict == "False") or (known or {}).get("status") == verdict:
            return
        said = {
            "type": kind,
            "status": verdict,
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        others = [one for one in before if one["type"] != kind]
        path = f"{self._trainjobs}/{trainjob['metadata']['name']}/status"
        self._connection.merge_patch(path, {"status": {"conditions": [*others, said]}})


_KIND = {"apiVersion": f"{trainjobs.GROUP}/{trainjobs.VERSION}", "kind": trainjobs.KIND}


def _jobset_of(pod: Document) -> str:
    return str((pod["metadata"].get("labels") or {}).get(f"{_JOBSET}/jobset-name", ""))


def pod_of(trainjob: Document, runtime: Document, index: int) -> dict[str, Any]:
    """One pod of a TrainJob, as its runtime's template and its own fields make it."""
    training = trainjobs.training_of(runtime)
    template = training["template"]["spec"]["template"]
    trainer = trainjob["spec"].get("trainer") or {}
    meta, job = trainjob["metadata"], f"{trainjob['metadata']['name']}-{training['name']}-0"
    labels = {
        f"{_JOBSET}/jobset-name": meta["name"],
        f"{_JOBSET}/replicatedjob-name": training["name"],
        names.JOB_NAME: job,
        names.COMPLETION_INDEX: str(index),
    }
    spec = {"restartPolicy": "Never", **template["spec"]}
    spec["containers"] = [
        _container(one, trainer) if one["name"] == trainjobs.NODE else one
        for one in spec["containers"]
    ]
    for override in trainjob["spec"].get("podSpecOverrides") or ():
        if training["name"] in {one["name"] for one in override["targetJobs"]}:
            spec |= {key: value for key, value in override.items() if key != "targetJobs"}
    owner = {**_KIND, "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "metadata": {
            "generateName": f"{job}-{index}-",
            "labels": labels,
            "annotations": {names.COMPLETION_INDEX: str(index)},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _container(container: Document, trainer: Document) -> dict[str, Any]:
    own = {key: trainer[key] for key in ("image", "command", "args", "env") if trainer.get(key)}
    if trainer.get("resourcesPerNode"):
        own["resources"] = trainer["resourcesPerNode"]
    return {**container, **own}
