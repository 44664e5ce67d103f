"""Interruption notices in the shapes of AWS, Google Cloud and Azure.

They come from the node's own metadata service, without an agent of the cloud and without an account.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Protocol

from gpucommons.gpu.clouds.metadata import Metadata, MetadataError
from gpucommons.gpu.clouds.notice_source import CloudNotice

logger = logging.getLogger("gpucommons.gpu.agent")

_DAY_MS = 24 * 3_600_000


class Cloud(Protocol):
    """One cloud's shapes."""

    #: Between two looks.
    every_s: ClassVar[float]

    def look(self, now_ms: int) -> CloudNotice:
        """Ask now.

        Raises
        ------
        MetadataError
            When there is no answer that could be used.
        """
        ...


class Aws:
    """Version 2 of EC2's metadata service: spot interruptions, and recommendations to rebalance."""

    every_s: ClassVar[float] = 5.0
    _TOKEN = "/latest/api/token"  # noqa: S105 - a path
    _ACTION = "/latest/meta-data/spot/instance-action"
    _REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
    #: From the notice to the end, where no time can be read.
    _GIVEN_MS = 120_000

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._token = ""

    def look(self, now_ms: int) -> CloudNotice:
        """Its action has a time."""
        action = self._get(self._ACTION)
        if action is not None:
            time_of = _read(action).get("time")
            return CloudNotice(leaves_ms=_moment_ms(time_of, now_ms, now_ms + self._GIVEN_MS))
        return CloudNotice(at_risk=self._get(self._REBALANCE) is not None)

    def _get(self, path: str) -> str | None:
        for _ in range(2):
            if not self._token:
                hours = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
                self._token = self._metadata.ask("PUT", self._TOKEN, hours).text
            answer = self._metadata.ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
            if not answer.refused:
                return answer.text if answer.found else None
            self._token = ""  # it has run out
        raise MetadataError("The metadata service refuses the token that it has just given.")


class Google:
    """Compute Engine: a word that the machine is preempted, without a time."""

    every_s: ClassVar[float] = 2.0
    _PREEMPTED = "/computeMetadata/v1/instance/preempted"
    _GIVEN_MS = 30_000

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def look(self, now_ms: int) -> CloudNotice:
        """From when it is seen first there are 30 s."""
        answer = self._metadata.ask("GET", self._PREEMPTED, {"Metadata-Flavor": "Google"})
        if answer.headers.get("Metadata-Flavor") != "Google":
            raise MetadataError("What answers is not Google's metadata service.")
        return CloudNotice(leaves_ms=now_ms + self._GIVEN_MS if answer.text == "TRUE" else None)


class Azure:
    """Scheduled events of which this machine is one: preemptions, and ends in its scale set."""

    every_s: ClassVar[float] = 2.0
    _NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
    _EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
    _ENDS = frozenset({"Preempt", "Terminate"})

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._name = ""

    def look(self, now_ms: int) -> CloudNotice:
        """The soonest of those that name this machine: others of its group are told of as well."""
        if not self._name:
            self._name = self._get(self._NAME)
        events = _read(self._get(self._EVENTS)).get("Events")
        found = [one for one in events if self._is_mine(one)] if isinstance(events, list) else []
        # One that has begun has no time any more.
        times = [_moment_ms(one.get("NotBefore"), now_ms, now_ms) for one in found]
        return CloudNotice(leaves_ms=min(times, default=None))

    def _get(self, path: str) -> str:
        answer = self._metadata.ask("GET", path, {"Metadata": "true"})
        if not answer.found:
            raise MetadataError(f"The metadata service has no {path}.")
        return answer.text

    def _is_mine(self, event: object) -> bool:
        if not isinstance(event, dict) or event.get("EventType") not in self._ENDS:
            return False
        resources = event.get("Resources")
        return isinstance(resources, list) and self._name in resources


CLOUDS: Mapping[str, Callable[[Metadata], Cloud]] = {"aws": Aws, "gcp": Google, "azure": Azure}


class Notices:
    """Looks again and again in a thread of its own, for as long as the block lasts."""

    def __init__(self, cloud: Cloud, now_ms: Callable[[], int]) -> None:
        self._cloud = cloud
        self._now_ms = now_ms
        self._notice = CloudNotice()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cloud notices", daemon=True)

    def __enter__(self) -> Notices:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stopping.set()

    @property
    def notice(self) -> CloudNotice:
        """What was said last."""
        return self._notice

    def look(self) -> None:
        """Ask now; while no answer comes, what was said last holds."""
        try:
            found = self._cloud.look(self._now_ms())
        except MetadataError as error:
            logger.warning("The cloud's notices are not known: %s", error)
            return
        before = self._notice.leaves_ms
        if found.leaves_ms is not None and before is not None and before < found.leaves_ms:
            # A word without a time counts from when it was heard first.
            found = CloudNotice(leaves_ms=before, at_risk=found.at_risk)
        if found != self._notice:
            logger.warning("The cloud says of this node: %s", found)
        self._notice = found

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.look()
            self._stopping.wait(self._cloud.every_s)


def _read(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise MetadataError("The metadata service's answer is no JSON object.")
    return found


def _moment_ms(text: object, now_ms: int, else_ms: int) -> int:
    """A time as AWS or Azure writes it; where it cannot be read or believed, another one."""
    try:
        written = str(text)
        # "2026-11-28T02:00:00Z", "Sat, 28 Nov 2026 02:00:00 GMT".
        found = datetime.fromisoformat(written) if "T" in written[:11] else None
        at = parsedate_to_datetime(written) if found is None else found
        at_ms = int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return else_ms
    return at_ms if abs(at_ms - now_ms) < _DAY_MS else else_ms
