"""A Ray cluster of a job's workers: a head and nodes, which end with the script.

Ray asks nobody for a password unless it is told to: whoever reaches its port could run anything as the
job's user. So it is told a token, made of the attempt's own. A Ray that knows no token is refused.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from gpucommons.scheduler.joining.first_worker import Seat, Server, follow, lead
from gpucommons.scheduler.joining.worker_messages import (
    PATIENCE_S,
    NotJoined,
    derived,
    free_port,
    own_program,
    place_of,
)

_KNOWS_TOKENS = (2, 52)
_MISSING = "Ray is not in this job's environment: install it there (pip install ray)"
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
    ray = own_program("ray")
    if ray is None:
        raise NotJoined(_MISSING)
    _refuse_open()
    env = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": derived("ray"),
        "RAY_ADDRESS": offer.head,
        "RAY_DISABLE_IMPORT_WARNING": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Else it gives up after a minute, which a busy machine or a cold image needs to begin.
        "RAY_raylet_start_wait_time_s": f"{PATIENCE_S:.0f}",
    }
    if seat.rank:
        words = [ray, "start", "--block", f"--address={offer.head}", *_own(offer)]
        server = _node(words, offer, env, relies_on=[place_of(offer.head)])
        return follow(seat, server)
    # A short name: the paths of sockets below it may have 107 characters.
    place = tempfile.mkdtemp(prefix="gcray-")
    try:
        head = [ray, "start", "--head", "--block", f"--port={place_of(offer.head)[1]}"]
        head += [f"--temp-dir={place}", f"--ray-client-server-port={free_port()}"]
        head += ["--include-dashboard=false", *_own(offer)]
        server = _node(head, offer, env, answers_at=[place_of(offer.head)])
        knows_all = (sys.executable, "-c", _KNOWS_ALL, str(seat.size), str(PATIENCE_S))
        return lead(seat, command, [server], env, before=knows_all if seat.size > 1 else ())
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _refuse_open() -> None:
    """Before 2.52 whoever reached a node could run anything as the job's user."""
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


def _node(
    words: Sequence[str],
    offer: Offer,
    env: Mapping[str, str],
    *,
    answers_at: Sequence[tuple[str, int]] = (),
    relies_on: Sequence[tuple[str, int]] = (),
) -> Server:
    places = [*answers_at, (offer.address, offer.own_port)]
    return Server(command=words, answers_at=places, relies_on=relies_on, env=env)


def _own(offer: Offer) -> list[str]:
    found = [f"--node-ip-address={offer.address}", f"--node-manager-port={offer.own_port}"]
    found += [f"--num-cpus={offer.cpus}", f"--num-gpus={offer.gpus}"]
    found += [f"--dashboard-agent-listen-port={free_port()}", "--disable-usage-stats"]
    found += ["--min-worker-port=0", "--max-worker-port=0"]
    if offer.memory_mib:
        store_mib = max(_LEAST_STORE_MIB, offer.memory_mib // _STORE_MIB)
        found += [f"--object-store-memory={store_mib << 20}"]
    return found
