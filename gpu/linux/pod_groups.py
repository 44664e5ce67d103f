"""Which pod a process is in, by the control group that the kubelet put it into.

A process in a pod cannot leave the pod's group; what it could make of its own lies below. So the
leftmost name that is a pod's counts. Both ways in which container runtimes name groups
(``cgroupfs``: ``/kubepods/burstable/pod<uid>/…``, ``systemd``:
``/kubepods.slice/kubepods-burstable-pod<uid>.slice/…`` with ``_`` for ``-``), in both versions of
control groups, whatever stands before them.
"""

from __future__ import annotations

import re

#: The uid of a pod, as the API server makes them.
POD_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_IN_GROUP = re.compile(
    r"(?:/|-)pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})"
    r"(?=/|\.slice(?:/|$)|$)"
)


def pod_of_group(groups: str) -> str | None:
    """The pod's uid in the lines of ``/proc/PID/cgroup``; None for a process in no pod."""
    for line in groups.splitlines():
        # Number, controllers, path.
        found = _IN_GROUP.search(line.split(":", 2)[-1])
        if found is not None:
            return found[1].replace("_", "-")
    return None
