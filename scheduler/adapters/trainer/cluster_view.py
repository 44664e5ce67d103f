"""What is seen of the cluster: TrainJobs of our namespaces, their pods, nodes and what others take of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from gpucommons.scheduler.adapters.trainer import trainjobs
from gpucommons.scheduler.adapters.trainer.devices import devices_of
from gpucommons.scheduler.adapters.trainer.settings import TrainerSettings
from gpucommons.scheduler.adapters.trainer.trainjobs import Document
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.types import NodeId
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.executors.kubernetes.api_server.connection import Connection
from gpucommons.scheduler.executors.kubernetes.api_server.watching import Subject, Watch, close_all
from gpucommons.scheduler.executors.kubernetes.cluster_state.watch_cache import WatchCache
from gpucommons.scheduler.executors.kubernetes.nodes.cluster_nodes import (
    Holdings,
    nodes_of,
    taken_by_others,
)
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import (
    Gone,
    OtherPod,
    PodSeen,
    read_node,
    read_other,
    read_pod,
)

#: JobSet's label on its pods: the TrainJob that they are for.
_JOBSET = "jobset.sigs.k8s.io/jobset-name"
_SYNC_S = 30.0

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    """A pod of a TrainJob, by its labels: whoever may make pods there may write them."""

    pod: PodSeen
    #: GPUs that it asks for, by resource.
    devices: Mapping[str, int]

    @property
    def uid(self) -> str:
        """The pod's own."""
        return self.pod.uid


class WatchedTrainJobs:
    """TrainJobs of some namespaces, as they are now: watched, not polled."""

    def __init__(
        self, connection: Connection, namespaces: Iterable[str], changed: Callable[[], None]
    ) -> None:
        self._watches: list[Watch] = []
        self._changed, self._connection = changed, connection
        self._lock = threading.RLock()
        self._trainjobs = [
            self._watch(trainjobs.path_of(one), lambda body: body, _uid_of) for one in namespaces
        ]

    def _watch(
        self, path: str, read: Callable[[Document], T], key: Callable[[T], str]
    ) -> WatchCache[T]:
        cache = WatchCache(key=key, lock=self._lock, changed=self._changed)
        self._watches.append(Watch(self._connection, Subject(path=path, read=read), cache))
        return cache

    def wait(self) -> None:
        """Wait until everything was seen once.

        Raises
        ------
        Unavailable
            When that takes too long: not knowing what runs is not losing it.
        """
        for watch in self._watches:
            if not watch.synced.wait(_SYNC_S):
                message = (
                    "The API server has not said what TrainJobs there are: are Trainer's CRDs installed,"
                    " and may this account read them?"
                )
                raise Unavailable(message)

    @property
    def is_synced(self) -> bool:
        """Everything was seen once."""
        return all(watch.synced.is_set() for watch in self._watches)

    def trainjobs(self) -> tuple[Document, ...]:
        """All of our namespaces."""
        return tuple(one for cache in self._trainjobs for one in cache.all())

    def runtime_of(self, trainjob: Document) -> Document:
        """Ask for a TrainJob's runtime; ``ApiError`` 404 where there is none."""
        return self._connection.get(trainjobs.runtime_path(trainjob))

    def close(self) -> None:
        """End the watches."""
        close_all(self._watches)


class ClusterView(WatchedTrainJobs):
    """TrainJobs with their pods, and the nodes."""

    def __init__(
        self, connection: Connection, settings: TrainerSettings, changed: Callable[[], None]
    ) -> None:
        super().__init__(connection, settings.watched, changed)
        self._settings, self._cluster = settings, settings.cluster
        self._nodes = self._watch("/api/v1/nodes", read_node, lambda node: node.name)
        self._pods = self._watch("/api/v1/pods", self._read_pod, lambda pod: pod.uid)

    def _read_pod(self, body: Document) -> Worker | OtherPod | Gone:
        meta = body["metadata"]
        labels = meta.get("labels") or {}
        if _JOBSET not in labels or meta["namespace"] not in self._settings.watched:
            return read_other(body) or Gone(uid=meta["uid"])
        # Read as one of ours, of an attempt that is named as the TrainJob is.
        marked = {**labels, names.ATTEMPT: labels[_JOBSET]}
        pod = read_pod({**body, "metadata": {**meta, "labels": marked}})
        if pod is None:
            return read_other(body) or Gone(uid=meta["uid"])
        return Worker(pod=pod, devices=devices_of(body["spec"], self._settings.resources))

    def pods(self) -> tuple[PodSeen, ...]:
        """Pods of TrainJobs."""
        return tuple(one.pod for one in self._workers())

    def devices(self) -> dict[str, Mapping[str, int]]:
        """GPUs that they ask for, by a pod's uid."""
        return {one.pod.uid: one.devices for one in self._workers()}

    def _workers(self) -> Iterator[Worker]:
        return (one for one in self._pods.all() if isinstance(one, Worker))

    def selector_of(self, node_id: NodeId) -> dict[str, str]:
        """The label that names a node."""
        found = next((one for one in self._nodes.all() if one.name == node_id), None)
        own = node_id if found is None else found.labels.get(names.HOSTNAME, node_id)
        return {names.HOSTNAME: own}

    def nodes(self, pools: Iterable[Pool]) -> tuple[Node, ...]:
        """The nodes that answer, without what others take."""
        others = (one for one in self._pods.all() if isinstance(one, OtherPod))
        holdings = Holdings(taken=taken_by_others(others))
        return nodes_of(self._nodes.all(), pools, self._cluster, holdings, executor="trainjob")


def _uid_of(body: Document) -> str:
    return str(body["metadata"]["uid"])
