"""Row D10 for the tour of one machine: a cluster is made for it, and nothing else is played there."""

from __future__ import annotations

import os

from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline
from benchmarks.tour_kubernetes.moving import Moved, deleted_and_moved
from benchmarks.tour_kubernetes.site import PROGRAMS, Site
from tests.kubernetes.toolchain import toolchain

_NEVER_IDLE_S = 3600


def play(line: Timeline) -> Moved:
    """The row, or why it is not played; nodes with kubelets are root's to make."""
    if os.geteuid() != 0:
        line.row("", "D10 is not played: only root makes nodes with kubelets")
        return Moved()
    if toolchain.missing(PROGRAMS):
        line.row("", f"D10 is not played: {toolchain.HOW_TO_GET}")
        return Moved()
    with Site(
        idle_after_s=_NEVER_IDLE_S, warn_after_s=_NEVER_IDLE_S // 2, reservations="ahead"
    ) as site:
        alice = Person(site.url, "alice", site.password)
        return deleted_and_moved(line, site, alice, milli_gpu=500)
