"""What other packages add, found by entry points: nothing of ours names any of them.

A plugin that is broken is left out and costs a sentence. Who may add what, and what is asked of it,
says the one who takes it in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

LAUNCHERS = "gpucommons.launchers"
EXECUTORS = "gpucommons.executors"
PROVIDERS = "gpucommons.providers"

T = TypeVar("T")


class BrokenPlugin(Exception):
    """A plugin cannot be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenIn(Generic[T]):
    """What was found of one group."""

    #: By the names of their entry points.
    usable: dict[str, T]
    #: A sentence about each that is not.
    troubles: tuple[str, ...] = ()


def installed(group: str) -> dict[str, EntryPoint]:
    """By name; where two packages have the same, the one that Python finds first."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, point)
    return dict(sorted(found.items()))


def load(group: str, name: str) -> object:
    """What an entry point names.

    Raises
    ------
    BrokenPlugin
        When it is not installed, or cannot be imported.
    """
    point = installed(group).get(name)
    if point is None:
        message = (
            f"No package that is installed here adds {name} as one of {group}. Those there are:"
            f" {', '.join(installed(group)) or 'none'}."
        )
        raise BrokenPlugin(message)
    return _load(point)


def take_in(group: str, accept: Callable[[str, object], T]) -> TakenIn[T]:
    """Load all of a group; ``accept`` makes of each what is used, or raises."""
    usable, troubles = {}, []
    for name, point in installed(group).items():
        try:
            usable[name] = accept(name, _load(point))
        except BrokenPlugin as error:
            troubles.append(str(error))
        except Exception as error:  # noqa: BLE001 - another's code, which must not end ours
            troubles.append(_sentence(point, error))
    return TakenIn(usable=usable, troubles=tuple(troubles))


def lacking(made: object, asked: type) -> list[str]:
    """What a protocol asks for and an object of another package has not."""
    names = (*getattr(asked, "__annotations__", ()), *vars(asked))
    return [name for name in names if not name.startswith("_") and not hasattr(made, name)]


def _load(point: EntryPoint) -> object:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise BrokenPlugin(_sentence(point, error)) from error


def _sentence(point: EntryPoint, error: BaseException) -> str:
    package = "a package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    return (
        f"The plugin {point.name} ({point.group}, of {package}) is left out:"
        f" {type(error).__name__}: {error}"
    )
