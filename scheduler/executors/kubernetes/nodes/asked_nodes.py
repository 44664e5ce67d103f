"""What asks an autoscaler for nodes, a node each, compared with how many are wanted. Pure.

Placeholder pods and ProvisioningRequests alike: objects of a pool that have a number, and go when they are
over or too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Generic, Protocol, TypeVar

from gpucommons.scheduler.core.model.types import PoolName


class Asking(Protocol):
    """An object that asks for one node, as the cluster shows it."""

    @property
    def name(self) -> str:
        """Of its pool and number."""

    @property
    def uid(self) -> str:
        """Its own for ever."""

    @property
    def pool(self) -> PoolName:
        """Of the node."""

    @property
    def leaving(self) -> bool:
        """It is being deleted."""


AskingT = TypeVar("AskingT", bound=Asking)


@dataclass(frozen=True, kw_only=True, slots=True)
class Due(Generic[AskingT]):
    """What is to be ordered: objects that are missing, by pool and number, and those that nothing needs."""

    make: tuple[tuple[PoolName, int], ...]
    remove: tuple[AskingT, ...]


def compare(
    wanted: Mapping[PoolName, int],
    there: Iterable[AskingT],
    *,
    name_of: Callable[[PoolName, int], str],
    is_over: Callable[[AskingT], bool],
    goes_first: Callable[[AskingT], bool],
) -> Due[AskingT]:
    """Compare what is wanted with what is there.

    Parameters
    ----------
    name_of
        Of a pool and a number: none is given twice while an object has it.
    is_over
        Whether it serves for nothing any more, however many are wanted.
    goes_first
        Of too many in a pool, those that are removed before others.
    """
    those = tuple(there)
    taken = {one.name for one in those}
    make: list[tuple[PoolName, int]] = []
    remove = [one for one in those if not one.leaving and (one.pool not in wanted or is_over(one))]
    over = {one.uid for one in remove}
    for pool, nodes in sorted(wanted.items()):
        left = [
            one for one in those if one.pool == pool and not one.leaving and one.uid not in over
        ]
        left.sort(key=lambda one: (goes_first(one), one.name))
        remove += left[nodes:]
        free = (number for number in count(1) if name_of(pool, number) not in taken)
        make += [(pool, next(free)) for _ in range(nodes - len(left))]
    return Due(make=tuple(make), remove=tuple(remove))
