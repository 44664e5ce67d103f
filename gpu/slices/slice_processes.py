"""Which process belongs to which slice.

A slice owns the tree below the roots bound to it, for as long as its processes live, even after
they left the tree. An orphan that was never seen in a tree is recognised by the slice its
environment names, if it runs as a user of that slice: an environment is only a claim. The agent's
own user counts as one, because processes of one account are not kept apart by anybody.

On Kubernetes a slice owns the processes of its pod, whoever started them: the pod's control group
says so, which no process in it can leave.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpucommons.gpu.linux.pod_groups import pod_of_group
from gpucommons.gpu.linux.processes import Processes, ProcessStat
from gpucommons.gpu.slices.slices import SliceId

#: Processes outside all slices are looked at twice (on the way to exec they still have their
#: parent's environment), then again so often, for a pid that was reused.
_RECHECK_REFRESHES = 10
#: Accounts below it are the system's: no slice is theirs.
_LEAST_USER = 1000
#: Ancestors looked at in one go: a chain of thousands must not exhaust the stack.
_MAX_DEPTH = 256


@dataclass(kw_only=True, slots=True)
class _Known:
    stat: ProcessStat
    slice_id: SliceId | None = None
    #: False until its ancestors were looked at.
    settled: bool = False
    #: How often it was read.
    looks: int = 1
    #: The pod that it is in; None until that was looked at, empty for none.
    pod: str | None = None


@dataclass(kw_only=True, slots=True)
class Roots:
    """What was bound to one slice."""

    #: Pid to start, because pids are reused.
    starts: dict[int, int] = field(default_factory=dict)
    #: Users that may claim to be in the slice.
    uids: set[int] = field(default_factory=set)
    #: Their control groups, which a user's process cannot leave on its own.
    groups: set[str] = field(default_factory=set)
    #: Pods that have its folder, by uid.
    pods: set[str] = field(default_factory=set)


class SliceProcesses:
    """The process list of the node, sorted by slice."""

    def __init__(self, processes: Processes, *, own_uid: int) -> None:
        self._processes = processes
        self._own_uid = own_uid
        self._own_pod = self.pod_of(os.getpid())
        self._known: dict[int, _Known] = {}
        self._roots: dict[SliceId, Roots] = {}
        self._by_root: dict[tuple[int, int], SliceId] = {}
        self._refreshes = 0
        #: Of the processes, when they were all looked at.
        self._births: int | None = None
        #: Whose slice must be found anew, or was found otherwise.
        self._unsettled = True
        #: Those that are read every time.
        self._watched: list[_Known] = []

    def open(self, slice_id: SliceId, roots: Roots | None = None) -> None:
        """Begin to watch a slice; again is harmless."""
        self._roots.setdefault(slice_id, roots or Roots())
        if roots is not None:
            self._unsettle()

    def bind(self, slice_id: SliceId, pid: int) -> bool:
        """Make a process the root of a tree of this slice; False when it is gone already."""
        stat = self._processes.stat(pid)
        uid = self._processes.uid(pid)
        if stat is None or uid is None:
            return False
        roots = self._roots[slice_id]
        roots.starts[pid] = stat.start
        roots.uids.add(uid)
        roots.groups.add(self._processes.group(pid))
        self._unsettle()
        return True

    def bind_pod(self, slice_id: SliceId, pod: str) -> None:
        """Make every process of a pod part of the slice."""
        self._roots[slice_id].pods.add(pod)
        self._unsettle()

    def unbind_pod(self, pod: str) -> None:
        """Forget a pod."""
        for roots in self._roots.values():
            roots.pods.discard(pod)
        self._unsettle()

    def pod_of(self, pid: int) -> str | None:
        """The pod that a process is in; None for none."""
        return pod_of_group(self._processes.group(pid))

    def is_in_a_pod(self, pid: int) -> bool:
        """Whether a process is in a pod other than the agent's own."""
        return self.pod_of(pid) not in (None, self._own_pod)

    def in_pods(self, pods: frozenset[str]) -> tuple[int, ...]:
        """The processes of these pods, as of the last look."""
        return tuple(sorted(pid for pid in self._known if pods and self.pod_of(pid) in pods))

    def naming(self, slice_id: SliceId) -> tuple[int, ...]:
        """Processes of no slice whose environment names this one, whoever's they are."""
        return tuple(
            pid
            for pid, known in self._known.items()
            if known.slice_id is None and self._processes.slice_id(pid) == slice_id
        )

    def is_stray(self, pid: int) -> bool:
        """Whether a process is of no slice, and not of the system's accounts."""
        known = self._known.get(pid)
        uid = self._processes.uid(pid)
        of_somebody = uid is None or uid >= _LEAST_USER or uid == self._own_uid
        return (known is None or known.slice_id is None) and of_somebody

    def close(self, slice_id: SliceId) -> None:
        """Forget a slice; its processes, if any live on, belong to nobody."""
        if self._roots.pop(slice_id, None) is None:
            return
        self._unsettle()
        for known in self._known.values():
            if known.slice_id == slice_id:
                known.slice_id = None

    def is_live(self, pid: int) -> bool:
        """Whether the process was there at the last look."""
        return pid in self._known

    def is_of(self, pid: int, uid: int) -> bool:
        """Whether a live process is this account's."""
        return self._processes.uid(pid) == uid

    def owner(self, pid: int) -> SliceId | None:
        """The slice of one process as of now, also of one born since the last look."""
        of_pod = self._of_pods().get(self.pod_of(pid) or "")
        if of_pod is not None:
            return of_pod
        for _ in range(_MAX_DEPTH):
            stat = self._processes.stat(pid)
            if stat is None:
                return None
            found = self._root_of(stat)
            known = self._known.get(pid)
            if found is None and known is not None and known.stat.start == stat.start:
                found = known.slice_id
            if found is not None or stat.parent <= 1:
                return found
            pid = stat.parent
        return None

    def adopt(self, holders: Iterable[int]) -> None:
        """Count processes that hold a device and left their tree unseen to the slice they are of.

        Forked twice and without its environment, a process is nobody's child. Its account and its
        control group still tell it from what the same person runs at a desktop or over SSH.
        """
        for pid in holders:
            known = self._known.get(pid)
            if known is not None and known.slice_id is None:
                known.slice_id = self._by_account(pid)
                self._unsettled = self._unsettled or known.slice_id is not None

    def _by_account(self, pid: int) -> SliceId | None:
        uid, group = self._processes.uid(pid), self._processes.group(pid)
        if uid == self._own_uid or not group:
            return None
        found = (
            slice_id
            for slice_id, roots in self._roots.items()
            if uid in roots.uids and group in roots.groups
        )
        return next(found, None)

    def roots(self, slice_id: SliceId) -> Roots:
        """What was bound to this slice."""
        return self._roots[slice_id]

    def refresh(self) -> Mapping[SliceId, tuple[ProcessStat, ...]]:
        """Look at the node's processes: the live ones of every slice."""
        self._refreshes += 1
        recheck = self._refreshes % _RECHECK_REFRESHES == 0
        # Before the list: whoever is born while it is read is found the next time.
        births = self._processes.births()
        if recheck or self._unsettled or births is None or births != self._births:
            self._look_at_all(recheck=recheck)
        else:
            self._look_at_watched()
        self._births = births
        members: dict[SliceId, list[ProcessStat]] = {slice_id: [] for slice_id in self._roots}
        for known in self._watched:
            if known.slice_id is not None:
                members[known.slice_id].append(known.stat)
        return {slice_id: tuple(stats) for slice_id, stats in members.items()}

    def _look_at_all(self, *, recheck: bool) -> None:
        live = set(self._processes.pids())
        for pid in self._known.keys() - live:
            del self._known[pid]
        for pid in live:
            self._look(pid, recheck=recheck)
        self._settle_all()

    def _look_at_watched(self) -> None:
        """Nobody was born: those of slices may have ended, and who is new may have become another."""
        before = [(known, known.stat, known.settled) for known in self._watched]
        for known in self._watched:
            self._look(known.stat.pid, recheck=False)
        if any(
            not settled or not known.settled or self._known.get(stat.pid) is not known
            for known, stat, settled in before
        ):
            self._settle_all()

    def _settle_all(self) -> None:
        self._unsettled = False
        self._drop_dead_roots()
        self._by_root = {
            (pid, start): slice_id
            for slice_id, roots in self._roots.items()
            for pid, start in roots.starts.items()
        }
        of_pods = self._of_pods()
        for known in list(self._known.values()):
            if of_pods:
                self._settle_by_pod(known, of_pods)
            self._settle(known)
        self._watched = [
            known
            for known in self._known.values()
            if known.slice_id is not None or known.looks <= 1
        ]

    def _look(self, pid: int, *, recheck: bool) -> None:
        """Read a process that is new, is in a slice, or is due."""
        known = self._known.get(pid)
        if known is not None and known.slice_id is None and known.looks > 1 and not recheck:
            return
        stat = self._processes.stat(pid)
        if stat is None:
            self._known.pop(pid, None)
        elif known is None or known.stat.start != stat.start:
            self._known[pid] = _Known(stat=stat)
        else:
            known.stat = stat
            known.looks += 1
            known.settled = known.settled and known.slice_id is not None

    def _drop_dead_roots(self) -> None:
        for roots in self._roots.values():
            for pid, start in list(roots.starts.items()):
                known = self._known.get(pid)
                if known is None or known.stat.start != start:
                    del roots.starts[pid]

    def _of_pods(self) -> Mapping[str, SliceId]:
        return {pod: slice_id for slice_id, roots in self._roots.items() for pod in roots.pods}

    def _settle_by_pod(self, known: _Known, of_pods: Mapping[str, SliceId]) -> None:
        if known.settled:
            return
        if not known.pod:
            # A container's first process is born outside and moved in.
            known.pod = self.pod_of(known.stat.pid) or ""
        slice_id = of_pods.get(known.pod)
        if slice_id is not None:
            known.slice_id, known.settled = slice_id, True

    def _unsettle(self) -> None:
        self._unsettled = True
        for known in self._known.values():
            known.settled = False

    def _settle(self, known: _Known, depth: int = 0) -> None:
        """Find the slice of a process: that of its ancestors, else where it was, else its claim."""
        if known.settled or depth > _MAX_DEPTH:
            return
        known.settled = True
        found = self._by_ancestry(known.stat, depth)
        if found is None and known.slice_id is None:
            found = self._by_claim(known.stat.pid)
        known.slice_id = found or known.slice_id

    def _by_ancestry(self, stat: ProcessStat, depth: int) -> SliceId | None:
        """The nearest bound process wins."""
        slice_id = self._by_root.get((stat.pid, stat.start))
        parent = self._known.get(stat.parent)
        # A parent younger than its child is another process under a reused pid.
        if slice_id is not None or parent is None or parent.stat.start > stat.start:
            return slice_id
        self._settle(parent, depth + 1)
        return parent.slice_id

    def _root_of(self, stat: ProcessStat) -> SliceId | None:
        """The slice whose root this is, also when it was bound since the last look."""
        return next(
            (one for one, roots in self._roots.items() if roots.starts.get(stat.pid) == stat.start),
            None,
        )

    def _by_claim(self, pid: int) -> SliceId | None:
        claim = self._processes.slice_id(pid)
        roots = self._roots.get(SliceId(claim)) if claim else None
        if roots is None or self._processes.uid(pid) not in roots.uids | {self._own_uid}:
            return None
        # Root in somebody's pod is not the root who runs the agent.
        if self.is_in_a_pod(pid):
            return None
        return SliceId(claim or "")
