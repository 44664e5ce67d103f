"""A Ray cluster of a job's workers: a head and nodes, which end with the script.

Ray asks nobody for a password unless it is told to: whoever reaches its port could run anything as the
job's user. So it is told a token, made of the attempt's own. A Ray that knows no token is refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from gpucommons.gpu.linux.held_folders import held_folder
from gpucommons.scheduler.in_worker.first_worker import Seat, Server, follow, lead
from gpucommons.scheduler.in_worker.worker_messages import (
    PATIENCE_S,
    NotJoined,
    derived,
    free_port,
    own_program,
    place_of,
)

_KNOWS_TOKENS = (2, 52)
_MISSING = "Ray is not in this job's environment: install it there (pip install ray)"
#: A short name: the paths of sockets below it may have 107 characters.
_FOLDER = "gcray-"
_STORE_MIB, _LEAST_STORE_MIB = 3, 80
#: A node answers before the head knows of it: a script that counts nodes would find too few.
_KNOWS_ALL = """
import sys, time, ray
ray.init(logging_level="error")
until = time.monotonic() + float(sys.argv[2])
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[1]):
    if time.monotonic() > until:
        sys.exit(1)
    time.sleep(0.1)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What this worker offers the cluster, and where."""

    address: str
    #: Of the cluster's head, and of what this worker runs.
    head: str
    own_port: int
    cpus: int
    gpus: int
    memory_mib: int


def work(seat: Seat, offer: Offer, command: Sequence[str]) -> int:
    """One node; the first one has the head, and the script as driver."""
    refuse_open()
    env = {**variables(derived("ray")), "RAY_ADDRESS": offer.head}
    if seat.rank:
        with node(offer, env) as server:
            return follow(seat, server)
    with head(offer, env) as server:
        knows_all = (sys.executable, "-c", _KNOWS_ALL, str(seat.size), str(PATIENCE_S))
        return lead(seat, command, [server], env, before=knows_all if seat.size > 1 else ())


def variables(token: str) -> dict[str, str]:
    """What each process of one cluster has in its environment."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        "RAY_DISABLE_IMPORT_WARNING": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Else it gives up after a minute, which a busy machine or a cold image needs to begin.
        "RAY_raylet_start_wait_time_s": f"{PATIENCE_S:.0f}",
    }


@contextmanager
def node(offer: Offer, env: Mapping[str, str]) -> Iterator[Server]:
    """A node of a cluster whose head runs, while its folder is there.

    Ray would number the sockets of a machine's nodes in one folder; two that begin at once take the same
    number, and one of them ends.

    Raises
    ------
    NotJoined
        Where Ray is missing, or one that asks nobody for a password.
    """
    with held_folder(_FOLDER) as folder:
        words = [*_program(), "start", "--block", f"--address={offer.head}", *_own(offer)]
        words += [f"--temp-dir={folder}"]
        places = [(offer.address, offer.own_port)]
        yield Server(command=words, answers_at=places, relies_on=[place_of(offer.head)], env=env)


@contextmanager
def head(offer: Offer, env: Mapping[str, str]) -> Iterator[Server]:
    """A cluster's head, which is a node of it, while its folder is there.

    Raises
    ------
    NotJoined
        As of a node.
    """
    place = place_of(offer.head)
    with held_folder(_FOLDER) as folder:
        words = [*_program(), "start", "--head", "--block", f"--port={place[1]}"]
        words += [f"--temp-dir={folder}", f"--ray-client-server-port={free_port()}"]
        words += ["--include-dashboard=false", *_own(offer)]
        places = [place, (offer.address, offer.own_port)]
        yield Server(command=words, answers_at=places, env=env)


def _program() -> list[str]:
    refuse_open()
    ray = own_program("ray")
    # Where packages lie on the path alone there is no program.
    return [ray] if ray else [sys.executable, "-m", "ray.scripts.scripts"]


def refuse_open() -> None:
    """Refuse a Ray older than 2.52: whoever reached a node of it could run anything as its user.

    Raises
    ------
    NotJoined
        With the version that knows tokens.
    """
    try:
        found = version("ray")
    except PackageNotFoundError:
        raise NotJoined(_MISSING) from None
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < _KNOWS_TOKENS:
        message = (
            f"Ray {found} asks nobody for a password, so other accounts could run code as you:"
            " install 2.52 or newer (pip install 'ray>=2.52')"
        )
        raise NotJoined(message)


def _own(offer: Offer) -> list[str]:
    found = [f"--node-ip-address={offer.address}", f"--node-manager-port={offer.own_port}"]
    found += [f"--num-cpus={offer.cpus}", f"--num-gpus={offer.gpus}"]
    found += [f"--dashboard-agent-listen-port={free_port()}", "--disable-usage-stats"]
    found += ["--min-worker-port=0", "--max-worker-port=0"]
    if offer.memory_mib:
        store_mib = max(_LEAST_STORE_MIB, offer.memory_mib // _STORE_MIB)
        found += [f"--object-store-memory={store_mib << 20}"]
    return found
