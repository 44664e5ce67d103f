"""How another package brings an executor: an entry point of ``gpucommons.executors``.

It names something callable that is given an :class:`Offer` and returns an :class:`.base.Executor`,
whose ``name`` is the entry point's. Pools choose it by that name. One that cannot be made, or fails
later, harms its own pools at most: what runs there counts as running until it is seen again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.plugins import EXECUTORS, BrokenPlugin, lacking, load
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.state import AttemptEnded, Observation
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, AttemptState, Millis
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.executors.base import Executor, Found, Launch, Live
from gpucommons.scheduler.files.log_reader import LogChunk

_LOG = logging.getLogger(__name__)
_GONE = "It was gone when its executor took over what ran"


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What an executor of another package is given."""

    name: str
    #: The file that the admin named for it; None = none.
    settings: Path | None
    #: A folder for what it keeps.
    state: Path
    #: Those that chose it, as they are now.
    pools: Callable[[], tuple[Pool, ...]]
    #: Where the files lie that a job runs from, by their hash; None where they lie elsewhere, and a
    #: job fetches them from the API.
    snapshot_path: Callable[[str], Path] | None
    #: There is something to observe: the loop looks at once.
    wake: Callable[[], None]
    now_ms: Callable[[], Millis]


def guest(offer: Offer) -> Guest:
    """Make the executor that a package brings under this name, or what stands in where it cannot."""
    try:
        return Guest(offer.name, _made(offer), "")
    except Exception as error:  # noqa: BLE001 - another's code: the service goes on without it
        _LOG.exception("The pools of the executor %s wait", offer.name)
        return Guest(offer.name, None, str(error))


def _made(offer: Offer) -> Executor:
    factory = load(EXECUTORS, offer.name)
    try:
        executor: Executor = factory(offer)  # type: ignore[operator] # what else it is fails here
    except Exception as error:
        message = f"The executor {offer.name} cannot be used: {type(error).__name__}: {error}"
        raise BrokenPlugin(message) from error
    missing = lacking(executor, Executor)
    if missing or executor.name != offer.name:
        why = f"it lacks {', '.join(missing)}" if missing else f"it calls itself {executor.name}"
        message = f"The executor {offer.name} cannot be used: {why}."
        raise BrokenPlugin(message)
    return executor


class Guest:
    """An executor of another package, whose failures stay its own. See :class:`.base.Executor`."""

    def __init__(self, name: str, executor: Executor | None, trouble: str) -> None:
        self.name = name
        self._made = executor
        self._trouble = trouble
        #: It failed to take these over, and is asked again.
        self._not_adopted: tuple[Attempt, ...] = ()
        #: Ends of those that it did not find then, until they are committed.
        self._gone: dict[AttemptId, AttemptEnded] = {}

    def nodes(self) -> tuple[Node, ...]:
        """None where there is no executor: nothing new comes to its pools."""
        return () if self._made is None else self._made.nodes()

    def start(self, launch: Launch) -> None:
        """See the protocol."""
        self._executor.start(launch)

    def announce(self, attempt: Attempt) -> None:
        """See the protocol."""
        self._executor.announce(attempt)

    def spare(self, attempt: Attempt) -> None:
        """See the protocol."""
        self._executor.spare(attempt)

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        """See the protocol."""
        self._executor.signal(attempt, now_ms=now_ms)

    def adopt(self, known: Sequence[Attempt]) -> tuple[Live, ...]:
        """Where it fails, all of them: not knowing is not losing."""
        self._not_adopted = tuple(known)
        self._gone.clear()
        try:
            found = self._executor.adopt(known)
        except Exception:  # noqa: BLE001 - another's code
            _LOG.exception("%s took over nothing, and is asked again", self.name)
            return tuple(
                Live(attempt_id=one.attempt_id, running=one.state is not AttemptState.STARTING)
                for one in known
            )
        self._not_adopted = ()
        return found

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        """Nothing where it fails."""
        try:
            return self._executor.since(at_ms)
        except Exception:  # noqa: BLE001 - another's code
            _LOG.exception("%s tells nothing of attempts before", self.name)
            return ()

    def observe(self) -> tuple[Observation, ...]:
        """See the protocol; what it failed to take over comes first."""
        if self._made is None:
            return ()
        if self._not_adopted:
            found = {one.attempt_id for one in self._made.adopt(self._not_adopted)}
            for one in self._not_adopted:
                # One that was starting is started again.
                is_run = one.state in (AttemptState.RUNNING, AttemptState.STOPPING)
                if is_run and one.attempt_id not in found:
                    self._gone[one.attempt_id] = AttemptEnded(
                        attempt_id=one.attempt_id, exit_code=None, text=_GONE
                    )
            self._not_adopted = ()
        return (*self._gone.values(), *self._made.observe())

    def forget(self, attempt_id: AttemptId) -> None:
        """See the protocol."""
        self._gone.pop(attempt_id, None)
        self._executor.forget(attempt_id)

    def log(self, attempt: Attempt, *, rank: int, offset: int, limit_bytes: int) -> LogChunk:
        """See the protocol."""
        return self._executor.log(attempt, rank=rank, offset=offset, limit_bytes=limit_bytes)

    def rest(self) -> None:
        """See the protocol."""
        self._quietly("rest")

    def close(self) -> None:
        """See the protocol."""
        self._quietly("close")

    def _quietly(self, name: str) -> None:
        if self._made is None:
            return
        try:
            getattr(self._made, name)()
        except Exception as error:  # noqa: BLE001 - the others rest and close, too
            _LOG.warning("%s does not %s: %s", self.name, name, error)

    @property
    def _executor(self) -> Executor:
        if self._made is None:
            raise Unavailable(self._trouble)
        return self._made
