"""Amounts as Kubernetes writes them, and what a pod asks of its node: the kube-scheduler's own sum.

The client library reads amounts too, but takes seconds to import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

Document = Mapping[str, Any]
Amounts = dict[str, Decimal]

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]?)"
)
_SCALES = {
    **{
        suffix: Decimal(1000) ** power
        for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
    **{f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", 1)},
}
#: Kubernetes itself caps amounts there.
_MOST = Decimal(2**63 - 1)
_NONE = Decimal(0)


def amount_of(quantity: str | int | float) -> Decimal:
    """``2``, ``500m``, ``1k``, ``1Pi`` or ``1e9`` as a number.

    Raises
    ------
    ValueError
        Where it is none.
    """
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        message = f"{quantity!r} is no amount."
        raise ValueError(message)
    return min(Decimal(found["number"]) * _SCALES[found["suffix"]], _MOST)


def cpu_of(quantity: str | int) -> int:
    """In milli-CPU, rounded down."""
    return int(amount_of(quantity) * 1000)


def memory_of(quantity: str | int) -> int:
    """In MiB, rounded down."""
    return int(amount_of(quantity)) >> 20


def asked_of(spec: Document) -> Amounts:
    """What a pod takes of its node, by resource, as the kube-scheduler counts it.

    Init containers run one after another and before all others, but sidecars among them go on; what is
    said of the pod as a whole goes before what its containers add up to; and a runtime may need more.
    """
    running: Amounts = {}
    before: Amounts = {}
    for container in spec.get("initContainers") or ():
        now = _added(running, _amounts(container.get("resources")))
        if container.get("restartPolicy") == "Always":
            running = now
        before = _most(before, now)
    for container in spec.get("containers") or ():
        running = _added(running, _amounts(container.get("resources")))
    as_a_whole = _amounts(spec.get("resources"))
    return _added({**_most(before, running), **as_a_whole}, _read(spec.get("overhead")))


def _amounts(resources: Document | None) -> Amounts:
    """What is not requested is taken as limited, as the API server does."""
    found = resources or {}
    return {**_read(found.get("limits")), **_read(found.get("requests"))}


def _read(amounts: Document | None) -> Amounts:
    return {name: amount_of(one) for name, one in (amounts or {}).items()}


def _added(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, _NONE) + other.get(name, _NONE) for name in {**one, **other}}


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, _NONE), other.get(name, _NONE)) for name in {**one, **other}}
