"""Which other systems that make slices the cluster really has: asked of its API, not believed of a setting.

A pool whose slices nobody makes would take jobs that wait for ever, or run beside each other on a whole
card. Until the answer is known, such a pool offers nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from gpucommons.gpu.providers.cluster.cluster import ClusterTraits
from gpucommons.gpu.providers.cluster.kai import CRDS
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    NOT_FOUND,
    ApiError,
    Connection,
)
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

#: Somebody may install or remove one at any time.
_EVERY_S = 60.0
_RESOURCES = "resource.k8s.io"


class Installed:
    """Used with the lock of the view held, but for :meth:`open`."""

    def __init__(
        self,
        connection: Connection,
        settings: KubernetesSettings,
        orders: Orders,
        *,
        changed: Callable[[], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``changed`` is called, from any thread, when the answer is another one."""
        self._connection = connection
        self._orders = orders
        self._places = [place for place in settings.pools.values() if place.provider is not None]
        self._changed = changed
        self._now_s = now_s
        self._asked_s: float | None = None
        #: What there is; None while that could not be asked, for the reason given.
        self.traits: ClusterTraits | None = None if self._places else ClusterTraits()
        self.unknown = "It was not asked yet whether it is installed."

    def open(self) -> None:
        """Ask for the first time, where any pool needs it."""
        if self._places and self._asked_s is None:
            self._ask()

    def beat(self) -> None:
        """Ask again now and then."""
        due = self._asked_s is None or self._now_s() - self._asked_s >= _EVERY_S
        if self._places and due:
            self._orders.give(("installed",), self._ask, lambda _error: None)

    def _ask(self) -> None:
        self._asked_s = self._now_s()
        before = self.traits, self.unknown
        try:
            self.traits = look(self._connection, self._places)
        except ApiError as error:
            # What was there a minute ago is not gone because nobody answers.
            self.unknown = f"It could not be asked whether it is installed: {error.message}"
        if before != (self.traits, self.unknown):
            self._changed()


def look(connection: Connection, places: Iterable[PoolPlace]) -> ClusterTraits:
    """Ask for what these pools need: what is served, which anybody may read, and their classes.

    Raises
    ------
    ApiError
        When the API server does not say.
    """
    asked = tuple(places)
    crds = set[str]()
    versions = frozenset[str]()
    classes = set[str]()
    if any(place.provider == "kai" for place in asked):
        for group in {name.partition(".")[2] for name in CRDS}:
            for version in _versions(connection, group):
                found = connection.get(f"/apis/{group}/{version}").get("resources") or ()
                crds |= {f"{one['name']}.{group}" for one in found}
    if any(place.provider == "dra" for place in asked):
        versions = _versions(connection, _RESOURCES)
    for name in {place.device_class for place in asked if place.provider == "dra"}:
        if "v1" in versions and _has_class(connection, name):
            classes.add(name)
    return ClusterTraits(
        crds=frozenset(crds), resource_api=versions, device_classes=frozenset(classes)
    )


def _versions(connection: Connection, group: str) -> frozenset[str]:
    try:
        found = connection.get(f"/apis/{group}").get("versions") or ()
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return frozenset()
    return frozenset(str(one["version"]) for one in found)


def _has_class(connection: Connection, name: str) -> bool:
    try:
        connection.get(f"/apis/{_RESOURCES}/v1/deviceclasses/{name}")
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True
