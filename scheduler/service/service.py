"""What every use case works with: the store, the loop, and the few other parts that it asks.

Use cases are plain functions, ``(service, principal, request) -> view``, and may block on the
store; the API runs them in threads. Whatever has to wait for a cycle is returned as a
:class:`Pending`, so that nobody holds a thread while waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from gpucommons.scheduler.core.model.demand import WhyNoSlices
from gpucommons.scheduler.core.model.intents import Action, Intent, Submit, Verdict
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster, Observation
from gpucommons.scheduler.core.model.types import (
    IntentId,
    Kind,
    Millis,
    PoolName,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.whatif.counterfactuals import Counterfactual
from gpucommons.scheduler.curves.following import ReadsLogs
from gpucommons.scheduler.environments.base import AsAsked, Environments
from gpucommons.scheduler.errors import (
    BadRequest,
    Conflict,
    PolicyRefused,
    SchedulerError,
    Unavailable,
    error_classes,
)
from gpucommons.scheduler.file_storage.job_files import JobFiles
from gpucommons.scheduler.files.snapshots import SnapshotPlace
from gpucommons.scheduler.forecast.estimating import AskedNode
from gpucommons.scheduler.forecast.forecast import Forecast
from gpucommons.scheduler.forecast.windows import Unknown
from gpucommons.scheduler.idempotency import fingerprint
from gpucommons.scheduler.notifications.settings import NotificationSettings
from gpucommons.scheduler.principal import Principal, member_teams
from gpucommons.scheduler.service.authorization.sight import is_person
from gpucommons.scheduler.service.in_memory.activity import ActivityBoard
from gpucommons.scheduler.service.in_memory.importances import Importances
from gpucommons.scheduler.service.in_memory.last_points import LastPoints
from gpucommons.scheduler.service.in_memory.lessons import Lessons
from gpucommons.scheduler.service.in_memory.read_scripts import ReadScripts
from gpucommons.scheduler.service.in_memory.refused_reports import RefusedReports
from gpucommons.scheduler.service.in_memory.request_trace import of_request
from gpucommons.scheduler.service.in_memory.slices import Slices
from gpucommons.scheduler.service.in_memory.submit_and_upload_allowances import (
    UPLOAD_GIB_PER_DAY,
    Allowance,
    SubmitLimit,
    orders,
    uploads,
)
from gpucommons.scheduler.service.in_memory.team_use_this_month import HeldSoFar
from gpucommons.scheduler.service.in_memory.trial_cycles import KnownTrials
from gpucommons.scheduler.service.views.leases import IdleLimits
from gpucommons.scheduler.store.base import Admit, LogPoint, Store
from gpucommons.scheduler.threads.pulse import Pulse
from gpucommons.scheduler.working_folder.giving_back import Outcome

R = TypeVar("R", bound=BaseModel)

#: A cycle takes milliseconds; a verdict that is not there by then means that the loop is in trouble.
DECISION_TIMEOUT_S = 10.0


class Deciding(Protocol):
    """The loop, as use cases see it."""

    @property
    def cluster(self) -> Cluster:
        """What the last cycle committed."""
        ...

    @property
    def pulse(self) -> Pulse:
        """Whether it gets anything done."""
        ...

    @property
    def leading(self) -> bool:
        """Whether this scheduler decides and acts, and not another replica."""
        ...

    def catch_up(self) -> None:
        """Have :attr:`cluster` show at least what is committed at this moment."""
        ...

    def wake(self) -> None:
        """There is something to decide."""
        ...

    def observe(self, observation: Observation) -> None:
        """Something happened."""
        ...

    def keep_points(self, workload_id: WorkloadId, points: Sequence[LogPoint]) -> None:
        """Points of a job's curve were read."""
        ...

    def follow_curves(
        self, follower: Callable[[Mapping[WorkloadId, Sequence[LogPoint]]], None]
    ) -> None:
        """Tell somebody each time which points were written, from the loop's thread."""
        ...

    def subscribe(self, callback: Callable[[], None]) -> object:
        """Call back after each cycle that changed something, from the loop's thread."""
        ...


class Directory(Protocol):
    """Which groups a user is in, for requests that the hub makes on somebody's behalf."""

    def groups_of(self, user: UserName) -> frozenset[str]:
        """The user's groups; raises ``Unavailable`` when that cannot be found out."""
        ...

    def knows(self, user: UserName) -> bool:
        """Whether there is such a user, as far as anybody can say; raises ``Unavailable`` likewise."""
        ...


class Forecasts(Protocol):
    """What is likely, worked out beside the loop."""

    def of(self, workload: Workload) -> Forecast | None:
        """The likely start of a waiting workload; None where nothing was worked out."""
        ...

    def ways(self, workload: Workload) -> tuple[Counterfactual, ...] | None:
        """What would start it now; None as long as that is being worked out."""
        ...

    def if_submitted(self, key: str, job: Workload) -> Forecast | None:
        """What is likely for a job that nobody submitted; None as long as that is being worked out."""
        ...


class NoForecasts:
    """A scheduler that says nothing about the future."""

    def of(self, workload: Workload) -> Forecast | None:
        """Nothing."""
        return None

    def ways(self, workload: Workload) -> tuple[Counterfactual, ...] | None:
        """Nothing."""
        return ()

    def if_submitted(self, key: str, job: Workload) -> Forecast | None:
        """Nothing."""
        return Forecast(made_ms=job.submitted_ms, unknown=Unknown.HISTORY)


class OwnResults(Protocol):
    """What jobs of this machine made."""

    def outcome(self, job: Workload) -> Outcome | None:
        """What became of their files; None where that is not on record, or not yet."""
        ...

    def is_coming(self, job: Workload) -> bool:
        """Whether those of a job that is over are copied, now or soon."""
        ...

    def are_left(self, job: Workload) -> bool:
        """Whether they still lie with the job."""
        ...

    def chunks(self, job: Workload, only: str = "") -> Iterator[bytes]:
        """All files, or one, as a tar; raises ``SchedulerError`` where they cannot be had."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceSettings:
    """What the operator decided."""

    idle: IdleLimits = IdleLimits()
    #: All users share one operating-system account: nothing isolates them.
    shared_account: bool = False
    #: Who can run the work of pools; the first, of those that name none.
    executors: tuple[str, ...] = ("local",)
    #: Where the hub's pages are, with a slash at the end; "" where there are none, or elsewhere.
    pages_url: str = ""
    #: For how long history is kept; None = for ever.
    kept_days: int | None = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """The demo's sample data, and the moment that they lead up to: nothing is known of later ones."""

    store: Store
    now_ms: Millis
    priced: Mapping[PoolName, Pool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """Everything a use case may touch."""

    store: Store
    loop: Deciding
    logs: ReadsLogs
    directory: Directory
    snapshots: SnapshotPlace
    activity: ActivityBoard
    slices: Slices
    why_not: WhyNoSlices
    now_ms: Callable[[], Millis]
    new_ids: Iterator[str]
    #: Sample data of the demo, in a store of their own; None everywhere else.
    sample: Callable[[], Sample] | None = None
    #: Pools with the prices of the sample data; None where the cluster's hold.
    priced: Mapping[PoolName, Pool] | None = None
    #: Since when nodes of pools are asked for; None while nobody has looked yet.
    nodes_asked: Callable[[], Mapping[PoolName, Sequence[AskedNode]] | None] = dict
    #: Why no node of a pool can be asked for.
    nodes_refused: Callable[[], Mapping[PoolName, str]] = dict
    #: Why a user's job cannot have a secret; None where it can, or nobody here knows.
    why_no_secret: Callable[[str, str], str | None] = lambda _user, _name: None
    #: What jobs may run with.
    environments: Environments = field(default_factory=AsAsked)
    forecasts: Forecasts = field(default_factory=NoForecasts)
    trials: KnownTrials = field(default_factory=KnownTrials)
    importances: Importances = field(default_factory=Importances)
    read_scripts: ReadScripts = field(default_factory=ReadScripts)
    lessons: Lessons = field(default_factory=Lessons)
    #: Where checkpoints and results of jobs are kept, by executor; local jobs keep their own.
    files: Mapping[str, JobFiles] = field(default_factory=dict)
    #: What jobs made that ran on this machine; None where none do.
    own_results: OwnResults | None = None
    settings: ServiceSettings = field(default_factory=ServiceSettings)
    #: How people may be told; by default not at all.
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    #: What signs a user's webhooks, by the number of the key.
    webhook_key: Callable[[UserName, int], str] = lambda _user, _number: ""
    refused_reports: RefusedReports = field(default_factory=RefusedReports)
    last_points: LastPoints = field(default_factory=LastPoints)
    held_so_far: HeldSoFar = field(default_factory=HeldSoFar)
    #: How many jobs each user may submit.
    submits: SubmitLimit = field(default_factory=SubmitLimit)
    #: How much new content each user may upload.
    uploads: Allowance = field(default_factory=lambda: uploads(UPLOAD_GIB_PER_DAY))
    #: How much else each person may ask for.
    orders: Allowance = field(default_factory=orders)

    def told_of(self, *, sample: bool) -> Service:
        """This, or one that knows the demo's sample data alone: for pages that look back.

        Raises
        ------
        BadRequest
            Where there are none.
        """
        if not sample:
            return self
        if self.sample is None:
            message = "There is no sample data here: only a demo has some (gpucommons up --demo)."
            raise BadRequest(message)
        found = self.sample()
        return replace(self, store=found.store, now_ms=lambda: found.now_ms, priced=found.priced)

    def ask(
        self,
        principal: Principal,
        action: Action,
        *,
        key: str | None = None,
        request: Any = None,
        admit: Admit | None = None,
    ) -> Intent:
        """Make an intent durable and wake the loop. The same key gives the first intent again."""
        # Jobs are counted by the store.
        is_job = isinstance(action, Submit) and action.spec.kind is not Kind.NOTEBOOK
        if is_person(principal) and not principal.admin and not is_job:
            self.orders.take(principal.name, 0, now_ms=self.now_ms())
        intent = self._intent(principal, action, key, fingerprint(type(action).__name__, request))
        first = self.store.put_intent(intent, admit=admit)
        self.loop.wake()
        return first

    def ask_all(self, principal: Principal, actions: Sequence[Action]) -> None:
        """The same for several of a controller of ours, together and in this order."""
        if actions:
            self.store.put_intents([self._intent(principal, one, None, "") for one in actions])
            self.loop.wake()

    def _intent(self, principal: Principal, action: Action, key: str | None, same: str) -> Intent:
        return Intent(
            intent_id=IntentId(next(self.new_ids)),
            action=of_request(action),
            by=principal.name,
            at_ms=self.now_ms(),
            idempotency_key=None if key is None else principal.stored_key(key),
            fingerprint=same,
        )

    @contextmanager
    def refusal_on_record(
        self, principal: Principal, note: Callable[[SchedulerError], Action]
    ) -> Iterator[None]:
        """What is on record as done is refused by the store after all: that is on record, too."""
        try:
            yield
        except (Conflict, PolicyRefused) as error:
            self.ask(principal, note(error))
            raise

    def asked(
        self, principal: Principal, action: type[Action], *, key: str | None, request: Any
    ) -> Intent | None:
        """What :meth:`ask` stored under this key before; None when it is new."""
        if key is None:
            return None
        same = fingerprint(action.__name__, request)
        return self.store.intent_with_key(principal.name, principal.stored_key(key), same)

    def teams_of(self, principal: Principal, user: UserName) -> frozenset[TeamName]:
        """The teams of the caller, or of the user on whose behalf the hub calls."""
        if user == principal.name:
            return principal.teams
        return member_teams(user, self.directory.groups_of(user), self.loop.cluster.teams)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending(Generic[R]):
    """An answer that some cycle will make possible: asked again after each cycle until then."""

    #: The answer once there is one; raises the refusal.
    probe: Callable[[], R | None]
    #: How long to wait.
    timeout_s: float = DECISION_TIMEOUT_S
    #: The answer when it takes longer; None = say that the scheduler is in trouble.
    meanwhile: Callable[[], R] | None = None
    #: Ask so often even without a cycle: for what grows by itself.
    poll_s: float | None = None
    #: Where answers are dear to work out: whether there can be one. They take turns with dear work.
    ready: Callable[[], bool] | None = None

    def give_up(self) -> R:
        """The answer when time is up.

        Raises
        ------
        Unavailable
            When only a cycle could answer.
        """
        if self.meanwhile is not None:
            return self.meanwhile()
        message = (
            "Your request is stored, but the scheduler has not decided on it in time; look again"
            " in a moment."
        )
        raise Unavailable(message)


def decision(
    service: Service,
    intent: Intent,
    answer: Callable[[Verdict], R],
    *,
    timeout_s: float = DECISION_TIMEOUT_S,
    meanwhile: Callable[[], R] | None = None,
) -> Pending[R]:
    """The answer that depends on what a cycle makes of an intent."""

    def probe() -> R | None:
        verdict = service.store.verdict(intent.intent_id)
        if verdict is None:
            return None
        check(verdict)
        # The verdict may have been read before its cycle is in sight here.
        service.loop.catch_up()
        return answer(verdict)

    return Pending(probe=probe, timeout_s=timeout_s, meanwhile=meanwhile)


def check(verdict: Verdict) -> None:
    """Raise what a cycle refused with."""
    if verdict.error is not None:
        raise error_classes().get(verdict.error, SchedulerError)(verdict.text or None)
