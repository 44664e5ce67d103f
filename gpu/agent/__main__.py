"""``python -m gpucommons.gpu.agent``: the node agent, one per machine, outside every slice."""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TextIO

from gpucommons.gpu.agent.audit import AuditLog
from gpucommons.gpu.agent.grants import Grants
from gpucommons.gpu.agent.guard import Guard
from gpucommons.gpu.agent.node import has_nvml, node_facts
from gpucommons.gpu.agent.requests import Requests
from gpucommons.gpu.agent.server import AgentServer, MetricsAccess
from gpucommons.gpu.agent.state_file import StateFile
from gpucommons.gpu.agent.tokens import metrics_token
from gpucommons.gpu.agent.watch import Watch
from gpucommons.gpu.agent.watchdog import Watchdog
from gpucommons.gpu.fake import (
    DEFAULT_DEVICES,
    DEFAULT_KIND,
    MAX_DEVICES,
    SimulatedGpus,
    simulated_devices,
)
from gpucommons.gpu.node_traits import Ground, Wishes, survey
from gpucommons.gpu.processes import Processes, node_processes
from gpucommons.gpu.providers.base import MpsDaemon
from gpucommons.gpu.providers.stack import capabilities, provider_stack
from gpucommons.gpu.slice_processes import SliceProcesses
from gpucommons.gpu.telemetry import Telemetry

logger = logging.getLogger("gpucommons.gpu.agent")

#: Exit status when the command line or the folder cannot be used.
EXIT_USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    processes = node_processes()
    try:
        telemetry = _telemetry(options, processes)
        lock = _own(options.dir)
    except (ValueError, OSError) as error:
        print(f"gpucommons agent: {error}", file=sys.stderr)  # noqa: T201 - a command line's answer
        return EXIT_USAGE
    with lock:
        _serve(options, telemetry, processes)
    telemetry.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpucommons-agent", description=__doc__)
    parser.add_argument(
        "--dir", "--state", type=Path, required=True, help="folder of sockets and state"
    )
    parser.add_argument(
        "--simulate",
        type=_count,
        default=0,
        metavar="N",
        help=f"simulated GPUs where NVML finds no real one: 0 to {MAX_DEVICES}, "
        f"or auto = {DEFAULT_DEVICES}",
    )
    parser.add_argument(
        "--simulated-kind",
        default=DEFAULT_KIND,
        metavar="KIND",
        help="model and GiB of a simulated GPU (default: %(default)s)",
    )
    parser.add_argument(
        "--ignore-real", action="store_true", help="simulate even where NVML finds a real GPU"
    )
    parser.add_argument("--node", default=None, help="name of this node (default: its host name)")
    parser.add_argument(
        "--metrics-port",
        type=int,
        default=None,
        metavar="PORT",
        help="serve Prometheus metrics on this port of 127.0.0.1 too, to whoever has the token in "
        "metrics-token; metrics.sock in the folder needs none",
    )
    parser.add_argument(
        "--only-watch",
        action="store_true",
        help="warn nobody and stop nobody who uses more memory than their slice has",
    )
    parser.add_argument(
        "--mps-pipe",
        default=None,
        metavar="DIR",
        help="opt in to MPS: pipe directory of the daemon that serves the cards of this node",
    )
    parser.add_argument("--mps-version", type=int, choices=(2, 3), default=2)
    parser.add_argument(
        "--mps-server", default="", metavar="NAME", help="name of the server of MPS version 3"
    )
    parser.add_argument(
        "--cgroup-mount",
        type=Path,
        default=None,
        metavar="DIR",
        help="where cgroup v2 is mounted (default: found)",
    )
    return parser


def _count(text: str) -> int:
    return DEFAULT_DEVICES if text == "auto" else int(text)


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
    return SimulatedGpus(simulated, processes)


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
    # Each open tab is a descriptor; the soft limit of many systems is a relic.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # As the kernel names it in maps: links on the way would make every process look a stranger.
    slices_folder = options.dir.resolve() / "slices"
    slices_folder.mkdir(mode=0o700, exist_ok=True)
    slices_folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    ground = survey(telemetry, slices_folder, _wishes(options))
    watch = Watch(
        telemetry,
        SliceProcesses(processes, own_uid=os.geteuid()),
        StateFile(options.dir / "open-slices.json"),
        _guard(options.dir, ground, telemetry, processes),
    )
    watch.restore(now_ms=time.time_ns() // 1_000_000)
    facts = node_facts(options.node, provider_stack(ground.traits, ground.providers), watch.devices)
    requests = Requests(watch, facts, slices_folder)
    server = AgentServer(
        options.dir,
        watch,
        requests,
        metrics=MetricsAccess(port=options.metrics_port, token=metrics_token(options.dir)),
    )
    if server.metrics_port is not None:
        logger.info("Metrics: http://127.0.0.1:%d/metrics", server.metrics_port)
    stop, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    try:
        logger.info("Serving %s", options.dir)
        server.run(stop)
    finally:
        signal.set_wakeup_fd(-1)
        server.close()
        stop.close()
        wake.close()


def _wishes(options: argparse.Namespace) -> Wishes:
    mps = None
    if options.mps_pipe is not None:
        mps = MpsDaemon(
            pipe=options.mps_pipe, version=options.mps_version, server=options.mps_server
        )
    return Wishes(watched=not options.only_watch, mps=mps, cgroup_mount=options.cgroup_mount)


def _guard(folder: Path, ground: Ground, telemetry: Telemetry, processes: Processes) -> Guard:
    for name, capability in capabilities(ground.traits, ground.providers).items():
        logger.info("%s: %s", name, capability.reason)
    stack = provider_stack(ground.traits, ground.providers)
    watchdog = None
    if ground.traits.watched and not ground.traits.simulated:
        watchdog = Watchdog(telemetry.devices(), processes, AuditLog(folder / "audit.jsonl"))
    return Guard(
        grants=Grants(stack, telemetry.devices(), folder / "grants.json"), watchdog=watchdog
    )


if __name__ == "__main__":
    raise SystemExit(main())
