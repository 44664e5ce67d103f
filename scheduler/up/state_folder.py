"""The folder that must last: secrets, ports, what runs. Private to the account that runs ``up``."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.scheduler.files.durable_files import write_whole

TOKEN_NAMES = ("service", "culler", "spawner", "up", "proxy")
PORT_NAMES = ("hub", "proxy_api", "api", "pages")
#: A unix socket's address ends here; the longest is the one of a slice.
_MAX_SOCKET_PATH = 107
_LONGEST_SOCKET = "agent/slices/01234567-89ab-cdef-0123-456789abcdef/usage.sock"


@dataclass(frozen=True, kw_only=True, slots=True)
class StateFolder:
    """Paths below the state folder; :func:`prepare` makes them."""

    root: Path

    @property
    def agent(self) -> Path:
        """The node agent's own folder."""
        return self.root / "agent"

    @property
    def homes(self) -> Path:
        """Homes of users who share one account."""
        return self.root / "homes"

    @property
    def logs(self) -> Path:
        """One log per part."""
        return self.root / "logs"

    @property
    def hub_config(self) -> Path:
        """The hub's configuration file, written anew at every start."""
        return self.root / "jupyterhub_config.py"

    @property
    def database(self) -> Path:
        """The scheduler's, from its first start on."""
        return self.root / "scheduler.db"

    @property
    def password(self) -> Path:
        """The password of the login page."""
        return self.root / "password"

    def token(self, name: str) -> str:
        """One of the tokens by which the parts know each other."""
        return (self.root / "tokens" / name).read_text().strip()


def prepare(root: Path, *, open_to_users: bool) -> StateFolder:
    """Make folder and secrets; what exists is kept, so that a restart is known to those it left.

    With real accounts, users pass through the folder (but cannot list it) to their slice's socket.

    Raises
    ------
    ValueError
        When the path is too long for the sockets below it, users cannot pass to it, or it is another's.
    """
    length = len(os.fsencode(root / _LONGEST_SOCKET))
    if length > _MAX_SOCKET_PATH:
        message = (
            f"The state folder {root} is too long by {length - _MAX_SOCKET_PATH} characters for"
            " the sockets below it: choose a shorter one with --state."
        )
        raise ValueError(message)
    if open_to_users:
        _check_passable(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o711 if open_to_users else 0o700)
    except OSError as error:
        message = (
            f"The state folder {root} cannot be made ready: {error.strerror}. Give one of this account with"
            " --state, and the same to `gpucommons install` where the hub is another."
        )
        raise ValueError(message) from None
    folder = StateFolder(root=root)
    for path in (folder.agent, folder.homes, folder.logs, root / "tokens"):
        path.mkdir(mode=0o700, exist_ok=True)
    for name in TOKEN_NAMES:
        _write_once(root / "tokens" / name, secrets.token_hex(32))
    _write_once(folder.password, secrets.token_urlsafe(9))
    return folder


def write_private(path: Path, text: str) -> None:
    """Replace a file that only this account may read, whole or not at all."""
    write_whole(path, text.encode())


def lock(root: Path) -> int:
    """Hold the folder for this process; returns the descriptor, which must stay open.

    Raises
    ------
    RuntimeError
        When another ``up`` holds it.
    """
    descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode(errors="replace") or "unknown"
        os.close(descriptor)
        message = (
            f"`gpucommons up` runs already on {root} (process {holder}). Stop it first, or choose"
            " another folder with --state."
        )
        raise RuntimeError(message) from None
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def choose_ports(root: Path) -> dict[str, int]:
    """The parts' ports: those of last time, because notebooks that still run know them.

    Raises
    ------
    RuntimeError
        When another program has taken one of them since.
    """
    path = root / "ports.json"
    if path.exists():
        ports = {str(name): int(port) for name, port in json.loads(path.read_text()).items()}
        for name in PORT_NAMES:
            check_port_free(ports[name], f"the one of the part '{name}' since its first start")
        return ports
    ports = dict(zip(PORT_NAMES, _free_ports(len(PORT_NAMES)), strict=True))
    write_private(path, json.dumps(ports))
    return ports


def check_port_free(port: int, whose: str) -> None:
    """Say at once, and clearly, that a port is taken.

    Raises
    ------
    RuntimeError
        When something listens on it.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            message = f"Port {port}, {whose}, is in use by another program: stop that one first."
            raise RuntimeError(message) from None


def write_pids(root: Path, pids: dict[str, dict[str, Any]]) -> None:
    """Remember what runs, so that the next start can end what was left behind."""
    write_private(root / "pids.json", json.dumps(pids))


def read_pids(root: Path) -> Iterable[tuple[str, int, float]]:
    """Name, process and creation time of what ran last."""
    path = root / "pids.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    return [(name, int(one["pid"]), float(one["created"])) for name, one in found.items()]


def _check_passable(root: Path) -> None:
    for parent in root.parents:
        if parent.exists() and not parent.stat().st_mode & stat.S_IXOTH:
            message = (
                f"Users cannot pass through {parent} to the sockets of their GPU slices in {root}:"
                " choose another folder with --state, for example /var/lib/gpucommons."
            )
            raise ValueError(message)


def _write_once(path: Path, text: str) -> None:
    if not path.exists():
        write_private(path, text)
    path.chmod(0o600)


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
