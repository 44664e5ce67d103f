"""Homes that only one node, or one pod, can mount: said before anything starts, with what to do.

Kubernetes would start such a job's pods and leave them pending with words that only an admin reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_EVERYWHERE = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_ONE_POD = "ReadWriteOncePod"
_WHAT_TO_DO = (
    "A job's own files travel with it and its results come back by themselves, so it seldom needs the"
    " home folder. Where it does, ask your admin for homes that several machines can use at once."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A PersistentVolumeClaim as far as this needs it."""

    name: str
    access_modes: tuple[str, ...]
    #: Pods that have it mounted now, and their nodes.
    mounted: Mapping[str, str] = field(default_factory=dict)


def home_trouble(claim: Claim | None, *, owner: str, nodes: Sequence[str]) -> str | None:
    """Why pods on these nodes cannot mount a user's home; None when they can.

    ``nodes`` has an entry for each pod; ``claim`` is None where there is none in the pods' namespace.
    """
    if claim is None:
        return f"The home folder of {owner} cannot be reached from where jobs run. {_WHAT_TO_DO}"
    if _EVERYWHERE & set(claim.access_modes):
        return None
    if _ONE_POD in claim.access_modes:
        return _of_one_pod(claim, owner, len(nodes))
    return _of_one_node(claim, owner, sorted(set(nodes)))


def _of_one_pod(claim: Claim, owner: str, workers: int) -> str | None:
    if not claim.mounted and workers <= 1:
        return None
    holder = min(claim.mounted) if claim.mounted else "its first worker"
    return (
        f"The home folder of {owner} ({claim.name}) can be used by one worker or notebook alone, and"
        f" {holder} has it. {_WHAT_TO_DO}"
    )


def _of_one_node(claim: Claim, owner: str, places: Sequence[str]) -> str | None:
    if len(places) > 1:
        return (
            f"The home folder of {owner} ({claim.name}) can be used on one node at a"
            f" time, and this job's workers lie on {len(places)}: {', '.join(places)}. {_WHAT_TO_DO}"
        )
    elsewhere = {pod: node for pod, node in claim.mounted.items() if node and node not in places}
    if not elsewhere:
        return None
    pod = min(elsewhere)
    return (
        f"The home folder of {owner} ({claim.name}) is in use on {elsewhere[pod]} by"
        f" {pod}, and can be on one node at a time; this job would run on {', '.join(places)}. Stop"
        f" what runs there, or leave the home out. {_WHAT_TO_DO}"
    )
