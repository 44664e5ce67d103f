"""TensorFlow's own cluster: every worker is told all of it, and which of them it is, in ``TF_CONFIG``.

Roles are TensorFlow's: ``chief``, ``worker``, ``evaluator``. A job of one role has workers, whatever the
role is called. Parameter servers never end by themselves, so a gang of which they are a part would not
end: they are refused.
"""

from __future__ import annotations

import json

from gpucommons.scheduler.launchers.gang import Asked, Gang, Launcher, Start, Worker

ROLES = ("chief", "worker", "evaluator")
_ALONE = "evaluator"


def _starts(gang: Gang) -> tuple[Start, ...]:
    roles = {worker.role for worker in gang.workers}
    named = {role: role if len(roles) > 1 else _single(role) for role in roles}
    cluster: dict[str, list[str]] = {}
    for worker in gang.workers:
        if named[worker.role] != _ALONE:
            place = f"{worker.address}:{worker.ports[0]}"
            cluster.setdefault(named[worker.role], []).append(place)
    return tuple(_start(worker, named[worker.role], cluster) for worker in gang.workers)


def _start(worker: Worker, role: str, cluster: dict[str, list[str]]) -> Start:
    # The cluster first: what differs between workers stands at the end.
    task = {"type": role, "index": worker.index}
    told = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
    return Start(command=worker.command, env=told)


def _single(role: str) -> str:
    return role if role in ("chief", "worker") else "worker"


def _refusal(asked: Asked) -> str | None:
    roles = asked.roles
    unknown = next((role for role in roles if role not in ROLES), None)
    if "ps" in roles:
        return (
            "Parameter servers (ps) never end by themselves, so their job would not end either: use"
            " MultiWorkerMirroredStrategy, which needs none."
        )
    if len(roles) > 1 and unknown is not None:
        return f"TensorFlow knows no role {unknown!r}: call roles {', '.join(ROLES)}."
    if roles.get("chief", 1) != 1 or roles.get("evaluator", 1) != 1:
        return "TensorFlow has one chief and one evaluator at most: give those roles count 1."
    return None


TENSORFLOW = Launcher(
    name="tensorflow",
    starts=_starts,
    refusal=_refusal,
    variables=("TF_CONFIG",),
)
