"""What the first share of a card costs whoever clicked, by how the pool holds its cards.

A share needs a pod that holds its card. Each kind of pool is started anew; in it a notebook with half
a GPU opens, then one with a whole GPU, each where nothing else runs.
"""

from __future__ import annotations

import re
import time
from functools import partial
from typing import get_args

from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, check, wait_for
from benchmarks.tour_kubernetes.acts import OUR_PART
from benchmarks.tour_kubernetes.site import HUB, SYSTEM, Site
from gpucommons.scheduler.executors.kubernetes.settings import PoolPlace

SIZES = (500, 1000)
#: Nothing changed for so long: what is held for nobody is held.
_SETTLED_S = 4.0
#: Nobody is culled meanwhile.
_NEVER_S, _WARN_S = 3600, 3000

KINDS: tuple[str, ...] = get_args(PoolPlace.model_fields["reservations"].annotation)


def measure(line: Timeline) -> dict[str, dict[str, float]]:
    """Seconds by kind of pool: our part of a spawn, and from the click to the answer."""
    found = {}
    for kind in KINDS:
        with Site(idle_after_s=_NEVER_S, warn_after_s=_WARN_S, reservations=kind) as site:
            found[kind] = _spawns(line, site, kind)
    return found


def _spawns(line: Timeline, site: Site, kind: str) -> dict[str, float]:
    alice = Person(site.url, "alice", site.password)
    found: dict[str, float] = {}
    for number, milli_gpu in enumerate(SIZES):
        held = _settled(site)
        began = time.monotonic()
        answer = alice.start_server(milli_gpu=milli_gpu, team="vision", pool="gpu")
        check(answer.status_code in (201, 202), f"the spawn: {answer.status_code} {answer.text}")
        alice.wait_until_ready(timeout_s=180)
        spawn_s = time.monotonic() - began
        ours_s = wait_for("our part of the spawn", partial(_ours, site, number))
        found |= {f"{milli_gpu}_ours_s": ours_s, f"{milli_gpu}_spawn_s": round(spawn_s, 2)}
        text = f"{milli_gpu} milli-GPU: {ours_s:.2f} s of {spawn_s:.1f} s are ours"
        line.row("", f"{kind}, {held} card(s) held for nobody yet, {text}")
        alice.stop_server()
        wait_for("no pod", lambda: not site.client().list_namespaced_pod(HUB).items, timeout_s=90)
    return found


def _ours(site: Site, number: int) -> float | None:
    said = re.findall(OUR_PART, site.log("hub"))
    return float(said[number]) if len(said) > number else None


def _settled(site: Site) -> int:
    """Wait until the pods that hold cards stay as they are; returns how many there are."""
    seen: list[str] = []
    since = time.monotonic()

    def ask() -> bool:
        nonlocal seen, since
        pods = site.client().list_namespaced_pod(SYSTEM).items
        now = sorted(f"{pod.metadata.uid} {pod.status.phase}" for pod in pods)
        if now != seen or any(not one.endswith("Running") for one in now):
            seen, since = now, time.monotonic()
        return time.monotonic() - since >= _SETTLED_S

    wait_for("the pods that hold cards", ask, timeout_s=90)
    return len(seen)
