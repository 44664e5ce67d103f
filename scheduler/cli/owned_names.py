"""What belongs to somebody, by its name: schedules and pipelines.

Two people may have one of the same name. To look, a bare name may mean another's; to change something it
means one's own alone: who mistypes, or whose own is gone, must not steer a teammate's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.present import printable
from gpucommons.scheduler.client import SchedulerClient, calls, pipeline_calls, schedule_calls
from gpucommons.scheduler.client.call import Call
from gpucommons.scheduler.errors import BadRequest, NotFound

V = TypeVar("V", models.ScheduleView, models.PipelineView)


class _Named(Protocol):
    """What belongs to somebody, as the API shows it."""

    @property
    def name(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def mine(self) -> bool: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Owned(Generic[V]):
    """A kind of what belongs to somebody, and how it is asked for."""

    word: str
    one: Callable[[str, str], Call[V]]
    called: Callable[[SchedulerClient, str], Sequence[V]]


SCHEDULE = Owned(
    word="schedule",
    one=schedule_calls.schedule,
    called=lambda scheduler, name: scheduler.send(schedule_calls.schedules(name=name)).schedules,
)
PIPELINE = Owned(
    word="pipeline",
    one=pipeline_calls.pipeline,
    called=lambda scheduler, name: scheduler.send(pipeline_calls.pipelines(name=name)).pipelines,
)


def add_owned_name(command: argparse.ArgumentParser, dest: str, *, looks: bool = False) -> None:
    """The name of one that is looked at, or else changed."""
    text = (
        "your own or one that you may see; OWNER/NAME where several have one"
        if looks
        else "your own; another's is OWNER/NAME"
    )
    command.add_argument(dest, metavar="NAME", help=text)


def to_look_at(scheduler: SchedulerClient, kind: Owned[V], text: str) -> V:
    """The one that ``OWNER/NAME`` or ``NAME`` means: the caller's own, else the one that they may see.

    Raises
    ------
    BadRequest
        Where several others have one of that name.
    NotFound
        Where there is none.
    """
    owner, _, name = text.rpartition("/")
    if owner:
        return scheduler.send(kind.one(owner, name))
    try:
        return _own(scheduler, kind, name)
    except NotFound:
        others = kind.called(scheduler, name)
        if len(others) > 1:
            message = f"Several people have one called {name}: write one of {_full(others)}."
            raise BadRequest(message) from None
        if not others:
            raise
    return others[0]


def to_change(scheduler: SchedulerClient, kind: Owned[V], text: str) -> tuple[str, str]:
    """Owner and name of the one that ``OWNER/NAME`` or ``NAME`` means: without an owner, the caller's own.

    Raises
    ------
    NotFound
        Where they have none of that name; whose there is to see is said.
    """
    owner, _, name = text.rpartition("/")
    if owner:
        return owner, name
    try:
        return _own(scheduler, kind, name).owner, name
    except NotFound:
        others = kind.called(scheduler, name)
        if not others:
            raise
    said = "Somebody else has" if len(others) == 1 else "Others have"
    message = f"You have no {kind.word} {name}. {said}: write {_full(others)}."
    raise NotFound(message)


def shown(view: _Named) -> str:
    """The name in an answer: with its owner where that is another."""
    return printable(view.name if view.mine else f"{view.owner}/{view.name}")


def _own(scheduler: SchedulerClient, kind: Owned[V], name: str) -> V:
    # Asked for by itself: a list of all of that name has an end, and one's own may be behind it.
    return scheduler.send(kind.one(scheduler.send(calls.whoami()).name, name))


def _full(found: Sequence[_Named]) -> str:
    return " or ".join(f"{one.owner}/{one.name}" for one in found)
