"""What other packages bring to a scheduler: launchers, and the executors that its admin named."""

from __future__ import annotations

import logging

from gpucommons.gpu.plugins import LAUNCHERS, BrokenPlugin, take_in
from gpucommons.scheduler import launchers
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.executors.base import Executor
from gpucommons.scheduler.executors.plugin import Offer, guest
from gpucommons.scheduler.file_storage.parts import StorageParts
from gpucommons.scheduler.files.snapshots import Snapshots
from gpucommons.scheduler.launchers.launcher import Launcher
from gpucommons.scheduler.wiring.options import SchedulerSettings
from gpucommons.scheduler.wiring.scheduler_callbacks import Asked

_LOG = logging.getLogger(__name__)


def add_launchers() -> None:
    """Offer what is installed beside our own."""
    found = take_in(LAUNCHERS, _launcher)
    for trouble in found.troubles:
        _LOG.warning("%s", trouble)
    launchers.add(found.usable.values())


def _launcher(name: str, value: object) -> Launcher:
    if not isinstance(value, Launcher) or value.name != name:
        message = f"The launcher {name} is left out: it is no Launcher of that name."
        raise BrokenPlugin(message)
    if name in launchers.BUILT_IN:
        message = f"The launcher {name} of another package is left out: there is one of that name."
        raise BrokenPlugin(message)
    return value


def guests(
    settings: SchedulerSettings, own: Executor, kept: StorageParts, asked: Asked
) -> dict[str, Executor]:
    """Make the executors that were asked for.

    Raises
    ------
    Misconfigured
        When one has the name of our own.
    """
    if own.name in settings.executors:
        message = f"--executor {own.name}: this scheduler has one of its own by that name."
        raise Misconfigured(message)
    place = kept.snapshots
    found: dict[str, Executor] = {}
    for name, file in settings.executors.items():
        folder = settings.state / "executors" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        offer = Offer(
            name=name,
            settings=file,
            state=folder,
            pools=lambda name=name: tuple(p for p in asked.pools() if p.executor == name),  # type: ignore[misc] # bound now
            snapshot_path=place.path if isinstance(place, Snapshots) else None,
            wake=asked.wake,
            now_ms=asked.now_ms,
        )
        found[name] = guest(offer)
    return found
