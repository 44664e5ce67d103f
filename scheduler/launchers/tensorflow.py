"""TensorFlow's own cluster: every worker is told all of it, and which of them it is, in ``TF_CONFIG``.

Roles are TensorFlow's: ``chief``, ``worker``, ``ps``, ``evaluator``. A job of one role has workers, whatever
the role is called. With parameter servers the chief alone ends by itself; the others serve it until then,
so they are started below a program that ends them with it.
"""

from __future__ import annotations

import json

from gpucommons.scheduler.launchers.joined import joined, meeting_of
from gpucommons.scheduler.launchers.launcher import Asked, Launcher, Start
from gpucommons.scheduler.launchers.worker_addresses import Gang, Worker

ROLES = ("chief", "worker", "ps", "evaluator")
_CHIEF, _SERVER, _ALONE = "chief", "ps", "evaluator"
#: How long an evaluator may look at the last checkpoint once the chief has ended.
_EVALUATOR_S = 60
#: What a worker takes in the cluster of all, at most: an address on a cluster, and a port.
TOLD_BYTES = 100


def _starts(gang: Gang) -> tuple[Start, ...]:
    roles = {worker.role for worker in gang.workers}
    named = {role: role if len(roles) > 1 else _single(role) for role in roles}
    cluster: dict[str, list[str]] = {}
    for worker in gang.workers:
        if named[worker.role] != _ALONE:
            place = f"{worker.address}:{worker.ports[0]}"
            cluster.setdefault(named[worker.role], []).append(place)
    serving = _with_servers(gang) if _SERVER in roles else {}
    return tuple(
        _start(worker, named[worker.role], cluster, serving.get(worker.rank, worker.command))
        for worker in gang.workers
    )


def _start(
    worker: Worker, role: str, cluster: dict[str, list[str]], command: tuple[str, ...]
) -> Start:
    # The cluster first: what differs between workers stands at the end.
    task = {"type": role, "index": worker.index}
    told = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
    return Start(command=command, env=told)


def _with_servers(gang: Gang) -> dict[int, tuple[str, ...]]:
    """Commands by rank: the chief leads, wherever it stands, and the others follow it."""
    in_order = sorted(gang.workers, key=lambda one: (one.role != _CHIEF, one.rank))
    meeting = meeting_of(Gang(workers=tuple(in_order)))
    found = {in_order[0].rank: joined("lead", in_order[0], *meeting, rank=0)}
    for number, worker in enumerate(in_order[1:], start=1):
        stays = ("--stays-s", str(_EVALUATOR_S)) if worker.role == _ALONE else ()
        found[worker.rank] = joined("follow", worker, *meeting, *stays, rank=number)
    return found


def _single(role: str) -> str:
    return role if role in (_CHIEF, "worker") else "worker"


def _refusal(asked: Asked) -> str | None:
    roles = asked.roles
    unknown = next((role for role in roles if role not in ROLES), None)
    if _SERVER in roles and _CHIEF not in roles:
        return (
            "Parameter servers (ps) serve a chief, which runs the training and ends it: give a role"
            " chief with count 1."
        )
    if len(roles) > 1 and unknown is not None:
        return f"TensorFlow knows no role {unknown!r}: call roles {', '.join(ROLES)}."
    if roles.get(_CHIEF, 1) != 1 or roles.get(_ALONE, 1) != 1:
        return "TensorFlow has one chief and one evaluator at most: give those roles count 1."
    return None


TENSORFLOW = Launcher(
    name="tensorflow",
    starts=_starts,
    refusal=_refusal,
    variables=("TF_CONFIG",),
    told_bytes=TOLD_BYTES,
    module="tensorflow",
)
