"""What the watches have seen so far: our attempts' objects, nodes, and room that others take.

Watches begin with the first question, not before: a replica that only waits to lead must not load the
API server.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.executors.kubernetes.api_server.connection import Connection
from gpucommons.scheduler.executors.kubernetes.api_server.watching import (
    RESYNC_S,
    Sink,
    Subject,
    Watch,
    close_all,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebooks import (
    NOTEBOOK,
    NotebookSeen,
    read_notebook,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.watch_cache import WatchCache
from gpucommons.scheduler.executors.kubernetes.nodes.placeholder_pods import (
    PlaceholderSeen,
    is_named_so,
    read_placeholder,
)
from gpucommons.scheduler.executors.kubernetes.nodes.provisioning_requests import (
    API,
    RequestSeen,
    read_request,
)
from gpucommons.scheduler.executors.kubernetes.nodes.reservation_pods import (
    ReservationSeen,
    read_reservation,
    reservation_name,
)
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.attempt_cache import DELETED, AttemptCache
from gpucommons.scheduler.executors.kubernetes.objects.cards_in_use import Use
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import (
    Gone,
    JobSeen,
    NodeSeen,
    OtherPod,
    PodSeen,
    Why,
    read_job,
    read_node,
    read_other,
    read_pod,
)
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

Document = Mapping[str, Any]

#: A node that is back needs a moment to end what it should not run.
_SETTLED_S = 15
#: All watches together: shorter than a scheduler may be silent.
_SYNC_S = 45
_OURS = re.compile(r"gc-(?P<attempt>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """The cluster complains of something of ours."""

    attempt_id: AttemptId
    why: Why


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSeen:
    """A pod of the node agent."""

    uid: str
    node: str
    address: str


Pod = PodSeen | OtherPod | ReservationSeen | PlaceholderSeen | AgentSeen | NotebookSeen | Gone


@dataclass(frozen=True, kw_only=True, slots=True)
class Hears:
    """Who is told; called with the lock held."""

    changed: Callable[[AttemptId], None]
    warned: Callable[[AttemptId, Why], None]
    nodes_changed: Callable[[], None]


class ClusterView:
    """Everything seen; read and changed under ``lock``."""

    def __init__(
        self,
        connection: Connection,
        settings: KubernetesSettings,
        lock: threading.RLock,
        hears: Hears,
        *,
        resync_s: float = RESYNC_S,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._job_namespaces = settings.job_namespaces
        self.lock = lock
        self._hears = hears
        self._resync_s = resync_s
        self._watches: tuple[Watch, ...] = ()
        self.cache = AttemptCache()
        self._nodes: WatchCache[NodeSeen] = WatchCache(
            key=lambda node: node.name, lock=lock, changed=self.nodes_differ
        )
        self.others: dict[str, OtherPod] = {}
        self.reservations: dict[str, ReservationSeen] = {}
        self.placeholders: dict[str, PlaceholderSeen] = {}
        self.requests: dict[str, RequestSeen] = {}
        self._watches_requests: tuple[Watch, ...] = ()
        self.agents: dict[str, AgentSeen] = {}
        self.notebooks: dict[str, NotebookSeen] = {}
        #: Counts what may change the nodes that are offered.
        self.version = 0

    # --- the watches -------------------------------------------------------------------------

    def open(self) -> None:
        """Watch from now on, and wait until everything was seen once.

        Raises
        ------
        Unavailable
            When the API server does not answer in time; it is asked on.
        """
        if not self._watches:
            self._watches = tuple(
                Watch(self._connection, subject, sink, resync_s=self._resync_s)
                for subject, sink in self._subjects()
            )
            if self._settings.provisions:
                self._watches_requests = (self._watch_requests(),)
        give_up_s = time.monotonic() + _SYNC_S
        for watch in self._watches:
            if not watch.synced.wait(max(0.0, give_up_s - time.monotonic())):
                message = "The cluster's API server does not answer: is it up, and may we read it?"
                raise Unavailable(message)

    def _watch_requests(self) -> Watch:
        """Nobody waits for it: a cluster may know no such objects."""
        path = f"{API}/namespaces/{self._settings.system_namespace}/provisioningrequests"
        query = {"labelSelector": f"{names.INSTANCE}={self._settings.instance}"}
        subject = Subject(path=path, read=read_request, query=query)
        sink = self._told(self._all_requests, self._request)
        return Watch(self._connection, subject, sink, resync_s=self._resync_s)

    @property
    def knows_requests(self) -> bool:
        """Whether all ProvisioningRequests were seen once."""
        return any(one.synced.is_set() for one in self._watches_requests)

    @property
    def is_open(self) -> bool:
        """Whether everything was seen once."""
        return bool(self._watches) and all(one.synced.is_set() for one in self._watches)

    @property
    def nodes(self) -> Mapping[str, NodeSeen]:
        """Nodes by their names."""
        return self._nodes.known

    def _subjects(self) -> tuple[tuple[Subject, Sink], ...]:
        ours = f"{names.INSTANCE}={self._settings.instance},{names.ATTEMPT}"
        return (
            (Subject(path="/api/v1/nodes", read=read_node), self._nodes),
            (
                Subject(
                    path="/apis/batch/v1/jobs", read=self._read_job, query={"labelSelector": ours}
                ),
                self._told(self._all_jobs, self._job),
            ),
            (
                Subject(path="/api/v1/pods", read=self._read_pod),
                self._told(self._all_pods, self._pod),
            ),
            (
                Subject(
                    path="/api/v1/events",
                    read=self._read_warning,
                    query={"fieldSelector": "type=Warning"},
                    from_now=True,
                ),
                self._told(lambda _found: None, self._warning),
            ),
        )

    def _told(self, reset: Callable[..., None], event: Callable[..., None]) -> Sink:
        return _Sink(lock=self.lock, on_reset=reset, on_event=event)

    def close(self) -> None:
        """Watch no more."""
        watches = (*self._watches, *self._watches_requests)
        self._watches = self._watches_requests = ()
        close_all(watches)

    # --- what they see -----------------------------------------------------------------------

    def _read_job(self, job: Document) -> JobSeen | None:
        return read_job(job) if self._is_of_jobs(job) else None

    def _read_warning(self, event: Document) -> Warned | None:
        return _read_warning(event) if self._is_of_jobs(event) else None

    def _is_of_jobs(self, document: Document) -> bool:
        return document["metadata"]["namespace"] in self._job_namespaces

    def _read_pod(self, pod: Document) -> Pod:
        meta = pod["metadata"]
        labels, gone = meta.get("labels") or {}, Gone(uid=meta["uid"])
        is_notebook = self._settings.hub_namespace in (None, meta["namespace"])
        if is_notebook and labels.get(names.KIND) == NOTEBOOK:
            # The hub's labels name the hub's release, not ours: whose lease it is tells.
            return read_notebook(pod) or read_other(pod) or gone
        if labels.get(names.INSTANCE) == self._settings.instance and names.KIND in labels:
            ours = self._read_ours(pod, labels)
            if ours is not None:
                return ours
        if self._is_agent(pod, labels):
            return _read_agent(pod) or gone
        return read_other(pod) or gone

    def _is_agent(self, pod: Document, labels: Mapping[str, str]) -> bool:
        """Labels are free to choose; who may make pods of this account there is the admin's choice."""
        settings = self._settings
        return (
            labels.get(names.COMPONENT) == "agent"
            and labels.get(names.INSTANCE) == settings.instance
            and pod["metadata"]["namespace"] == settings.agent_namespace
            and pod["spec"].get("serviceAccountName") == settings.agent_service_account
        )

    def _read_ours(self, pod: Document, labels: Mapping[str, str]) -> Pod | None:
        """None in a namespace where labels say nothing: anybody may write there what they like."""
        meta, settings = pod["metadata"], self._settings
        if labels[names.KIND] == names.RESERVATION:
            found = read_reservation(pod)
            held = meta["namespace"] == settings.system_namespace
            return found if held and found.name == reservation_name(found.slot) else None
        if labels[names.KIND] == names.PLACEHOLDER:
            held = meta["namespace"] == settings.system_namespace
            return seen if held and is_named_so(seen := read_placeholder(pod)) else None
        return read_pod(pod) if names.ATTEMPT in labels and self._is_of_jobs(pod) else None

    def nodes_differ(self) -> None:
        """What is offered of nodes is to be worked out anew."""
        self.version += 1
        self._hears.nodes_changed()

    def _all_jobs(self, found: list[JobSeen]) -> None:
        for attempt_id in self.cache.reset_jobs(found):
            self._hears.changed(attempt_id)

    def _job(self, kind: str, job: JobSeen) -> None:
        self.cache.put_job(kind, job)
        self._hears.changed(job.attempt_id)

    def _all_pods(self, found: list[Pod]) -> None:
        self.others = {pod.uid: pod for pod in found if isinstance(pod, OtherPod)}
        self.reservations = {pod.uid: pod for pod in found if isinstance(pod, ReservationSeen)}
        self.placeholders = {pod.uid: pod for pod in found if isinstance(pod, PlaceholderSeen)}
        self.agents = {pod.uid: pod for pod in found if isinstance(pod, AgentSeen)}
        self.notebooks = {pod.uid: pod for pod in found if isinstance(pod, NotebookSeen)}
        self.version += 1
        ours = [pod for pod in found if isinstance(pod, PodSeen)]
        for attempt_id in self.cache.reset_pods(ours):
            self._hears.changed(attempt_id)

    def _pod(self, kind: str, pod: Pod) -> None:
        if isinstance(pod, PodSeen):
            self.cache.put_pod(kind, pod)
            if pod.uses:
                self.version += 1
            self._hears.changed(pod.attempt_id)
        elif isinstance(pod, ReservationSeen):
            _keep(self.reservations, kind, pod.uid, pod)
            self.nodes_differ()
        elif isinstance(pod, AgentSeen | PlaceholderSeen):
            kept = self.agents if isinstance(pod, AgentSeen) else self.placeholders
            _keep(kept, kind, pod.uid, pod)
        elif isinstance(pod, NotebookSeen):
            _keep(self.notebooks, kind, pod.uid, pod)
            self.nodes_differ()
        elif isinstance(pod, Gone) or kind == DELETED:
            self.agents.pop(pod.uid, None)
            if self.notebooks.pop(pod.uid, None) is not None:
                self.nodes_differ()
            if self.others.pop(pod.uid, None) is not None:
                self.version += 1
        elif self.others.get(pod.uid) != pod:
            self.others[pod.uid] = pod
            self.version += 1

    def _all_requests(self, found: list[RequestSeen]) -> None:
        self.requests = {one.uid: one for one in found}

    def _request(self, kind: str, request: RequestSeen) -> None:
        _keep(self.requests, kind, request.uid, request)

    def _warning(self, kind: str, warned: Warned) -> None:
        if kind != DELETED:
            self._hears.warned(warned.attempt_id, warned.why)

    # --- questions ---------------------------------------------------------------------------

    def answers(self, name: str, now_s: float) -> bool:
        """Whether a node can be believed to have ended a pod that is gone."""
        node = self.nodes.get(name)
        return node is not None and node.ready and now_s - node.ready_changed_s >= _SETTLED_S

    def uses(self, *, without: Container[str] = ()) -> Iterator[Use]:
        """Cards that pods of ours run on, or may run on though they are out of the books; by slot.

        ``without`` are notebooks' pods to leave out, by their ids.
        """
        for uid, notebook in self.notebooks.items():
            yield from () if uid in without else notebook.uses
        for attempt_id in self.cache:
            for pod in self.cache.of(attempt_id).pods.values():
                yield from () if pod.terminal else pod.uses

    def node_selector(self, node: str) -> Mapping[str, str]:
        """The labels that name a node."""
        label = self._settings.node_label
        seen = self.nodes.get(node)
        return {label: node if seen is None else seen.labels.get(label, node)}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sink:
    """Takes the lock around what a watch tells."""

    lock: threading.RLock
    on_reset: Callable[..., None]
    on_event: Callable[..., None]

    def reset(self, found: list[Any]) -> None:
        """See :class:`.watching.Sink`."""
        with self.lock:
            self.on_reset(found)

    def event(self, kind: str, found: Any) -> None:
        """See :class:`.watching.Sink`."""
        with self.lock:
            self.on_event(kind, found)


def _keep(kept: dict[str, Any], kind: str, uid: str, seen: object) -> None:
    if kind == DELETED:
        kept.pop(uid, None)
    else:
        kept[uid] = seen


def _read_agent(pod: Document) -> AgentSeen | None:
    node, address = pod["spec"].get("nodeName"), (pod.get("status") or {}).get("podIP")
    if not node or not address or "deletionTimestamp" in pod["metadata"]:
        return None
    return AgentSeen(uid=pod["metadata"]["uid"], node=node, address=address)


def _read_warning(event: Document) -> Warned | None:
    about = event.get("involvedObject") or {}
    found = _OURS.match(about.get("name") or "")
    if found is None or about.get("kind") not in ("Job", "Pod"):
        return None
    why = Why(reason=event.get("reason") or "", message=event.get("message") or "")
    return Warned(attempt_id=AttemptId(found["attempt"]), why=why)
