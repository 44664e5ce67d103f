"""``python -m gpucommons.gpu.agent``: the node agent, one per machine, outside every slice."""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpucommons.gpu.agent.control.node import has_nvml, node_facts
from gpucommons.gpu.agent.control.requests import Requests
from gpucommons.gpu.agent.control.sampling_loop import AgentServer, MetricsAccess
from gpucommons.gpu.agent.endpoints import CannotServe, Endpoints
from gpucommons.gpu.agent.http_api.tokens import metrics_token
from gpucommons.gpu.agent.limits.audit import AuditLog
from gpucommons.gpu.agent.limits.grants import Grants
from gpucommons.gpu.agent.limits.guard import Guard
from gpucommons.gpu.agent.limits.watchdog import Watchdog
from gpucommons.gpu.agent.options import parse
from gpucommons.gpu.agent.state.state_file import StateFile
from gpucommons.gpu.agent.watch import Watch
from gpucommons.gpu.connections import open_file_limit
from gpucommons.gpu.devices.topology import SimulatedTopology, simulated_links
from gpucommons.gpu.linux.processes import Processes, node_processes
from gpucommons.gpu.node.fake import SimulatedGpus, simulated_devices
from gpucommons.gpu.node.node_traits import Ground, Wishes, survey
from gpucommons.gpu.node.telemetry import Telemetry
from gpucommons.gpu.providers.stack import capabilities, provider_stack
from gpucommons.gpu.said_once import log_to_stderr
from gpucommons.gpu.slices.slice_folders import PodFolders, SliceFolders
from gpucommons.gpu.slices.slice_processes import SliceProcesses

if TYPE_CHECKING:
    from gpucommons.gpu.clouds.notices import Notices

logger = logging.getLogger("gpucommons.gpu.agent")

#: Exit status when the command line or the folder cannot be used.
EXIT_USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT."""
    options = parse(arguments)
    log_to_stderr("%(levelname)s %(message)s")
    processes = node_processes()
    try:
        telemetry = _telemetry(options, processes)
        lock = _own(options.dir)
    except (ValueError, OSError) as error:
        print(f"gpucommons agent: {error}", file=sys.stderr)  # noqa: T201 - a command line's answer
        return EXIT_USAGE
    try:
        with lock:
            _serve(options, telemetry, processes)
    except CannotServe as error:
        print(f"gpucommons agent: {error}", file=sys.stderr)  # noqa: T201 - a command line's answer
        return EXIT_USAGE
    finally:
        telemetry.close()
    return 0


def _telemetry(options: argparse.Namespace, processes: Processes) -> Telemetry:
    """Real GPUs where there are any, else simulated ones on request."""
    simulated = simulated_devices(options.simulate, options.simulated_kind)
    if has_nvml() and not options.ignore_real:
        from gpucommons.gpu.nvml import NvmlTelemetry  # noqa: PLC0415 - see has_nvml

        real = NvmlTelemetry()
        logger.info("%s", real.greeting)
        if real.devices():
            return real
        real.close()
    logger.info("%d simulated GPUs (%s).", len(simulated), options.simulated_kind)
    links = simulated_links(simulated, SimulatedTopology(options.simulated_topology))
    return SimulatedGpus(simulated, processes, links=links)


def _own(folder: Path) -> TextIO:
    """Make the folder ours alone, for as long as the returned file is open."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Root's agent serves other users' slices below; the sockets carry their own modes.
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    path = folder / "agent.lock"
    # Whoever can open it can hold it, and then no agent would ever start again.
    lock = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w")
    path.chmod(0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        message = f"another agent serves {folder}; stop it or choose another --dir."
        raise OSError(message) from None
    return lock


def _serve(options: argparse.Namespace, telemetry: Telemetry, processes: Processes) -> None:
    # Each open tab is a descriptor.
    open_file_limit.raise_limit()
    # As the kernel names it in maps: links on the way would make every process look a stranger.
    root = options.dir.resolve() / "slices"
    folders = PodFolders(root) if options.kubernetes else SliceFolders(root)
    ground = survey(telemetry, folders, _wishes(options))
    audit = AuditLog(options.dir / "audit.jsonl")
    watch = Watch(
        telemetry,
        SliceProcesses(processes, own_uid=os.geteuid()),
        StateFile(options.dir / "open-slices.json"),
        _guard(options.dir, ground, telemetry, processes, audit),
        shown=folders.shown_to if isinstance(folders, PodFolders) else None,
    )
    watch.restore(now_ms=time.time_ns() // 1_000_000)
    stack = provider_stack(ground.traits, ground.providers)
    facts = node_facts(options.node, stack, telemetry)
    notices = _notices(options)
    told = None if notices is None else (lambda: notices.notice)
    requests = Requests(watch, facts, folders, audit, told)
    server = AgentServer(
        options.dir,
        watch,
        requests,
        metrics=MetricsAccess(port=options.metrics_port, token=metrics_token(options.dir)),
    )
    if server.metrics_port is not None:
        logger.info("Metrics: http://127.0.0.1:%d/metrics", server.metrics_port)
    with (
        _told_to_stop() as stop,
        closing(server),
        Endpoints(options, facts.name),
        notices or nullcontext(),
    ):
        logger.info("Serving %s", options.dir)
        server.run(stop)


@contextmanager
def _told_to_stop() -> Iterator[socket.socket]:
    """Can be read from once SIGTERM or SIGINT came."""
    stop, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    with stop, wake:
        try:
            yield stop
        finally:
            signal.set_wakeup_fd(-1)


def _notices(options: argparse.Namespace) -> Notices | None:
    """What the machine's cloud says of it, where an admin named one."""
    if options.cloud is None:
        return None
    # Ten MiB of HTTP, which other machines do without.
    from gpucommons.gpu.clouds.metadata import Metadata  # noqa: PLC0415 - see above
    from gpucommons.gpu.clouds.notices import CLOUDS, Notices  # noqa: PLC0415 - see above

    cloud = CLOUDS[options.cloud](Metadata(options.cloud_metadata))
    return Notices(cloud, now_ms=lambda: time.time_ns() // 1_000_000)


def _wishes(options: argparse.Namespace) -> Wishes:
    return Wishes(
        watched=not options.only_watch,
        devices_confined=options.devices_confined or options.kubernetes,
        cgroup_mount=options.cgroup_mount,
    )


def _guard(
    folder: Path, ground: Ground, telemetry: Telemetry, processes: Processes, audit: AuditLog
) -> Guard:
    for name, capability in capabilities(ground.traits, ground.providers).items():
        logger.info("%s: %s", name, capability.reason)
    stack = provider_stack(ground.traits, ground.providers)
    watchdog = None
    if ground.traits.watched and not ground.traits.simulated:
        watchdog = Watchdog(telemetry.devices(), processes, audit)
    return Guard(
        grants=Grants(stack, telemetry.devices(), folder / "grants.json"), watchdog=watchdog
    )


if __name__ == "__main__":
    raise SystemExit(main())
