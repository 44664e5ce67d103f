"""What starts a run beside the calendar, and what was last known of it."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from enum import StrEnum

from gpucommons.scheduler.core.model.types import Millis, WorkloadId


class TriggerKind(StrEnum):
    """What is watched."""

    #: The content of a file or folder, as the owner reads it.
    PATH = "path"
    #: What an address answers to HEAD: a version or an ETag.
    URL = "url"
    #: The last line that a command of the owner prints.
    COMMAND = "command"
    #: The end of another job.
    AFTER = "after"
    #: A value that somebody posts.
    METRIC = "metric"


#: Of a command that is shown.
_CHARACTERS = 200
#: Known by looking again and again, each time by a small job of the owner.
LOOKED_AT = frozenset({TriggerKind.PATH, TriggerKind.URL, TriggerKind.COMMAND})


class On(StrEnum):
    """Which ends count; as between the steps of a pipeline."""

    OK = "ok"
    ANY = "any"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trigger:
    """One of what its owner wrote."""

    kind: TriggerKind
    #: A path, an address, a job's name or id, or a metric; of a command, a part of its key alone.
    what: str
    command: tuple[str, ...] = ()
    #: Seconds between two looks.
    every_s: int = 300
    on: On = On.OK
    below: float = 0.0
    #: When it was written first: what happened before is nothing to it.
    since_ms: Millis

    @property
    def key(self) -> str:
        """Another one than any that was written before, or elsewhere in the schedule."""
        text = "\0".join((self.kind, self.what, self.on, repr(self.below), str(self.since_ms)))
        return hashlib.sha256("\0".join((text, *self.command)).encode()).hexdigest()[:12]

    @property
    def words(self) -> str:
        """For people; the same at each of its times."""
        if self.kind is TriggerKind.AFTER:
            ends = {On.OK: "finished", On.ANY: "ended", On.FAILED: "failed"}[self.on]
            return f"{self.what} {ends}"
        if self.kind is TriggerKind.METRIC:
            return f"{self.what} fell below {self.below:g}"
        return f"{self.watched} changed"

    @property
    def watched(self) -> str:
        """What is looked at, for people."""
        if self.kind is TriggerKind.COMMAND:
            return f"the output of {shlex.join(self.command)[:_CHARACTERS]}"
        return self.what


@dataclass(frozen=True, kw_only=True, slots=True)
class Posted:
    """What was posted of a metric that a trigger watches; written by whoever takes the post."""

    key: str
    value: float
    at_ms: Millis
    #: How often it has fallen below since the trigger was written, and when last.
    falls: int = 0
    fell_ms: Millis = Millis(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fired:
    """A time of a trigger that was not acted on yet; several since the last look are one."""

    first_ms: Millis
    #: The one before the last of several.
    before_last_ms: Millis | None = None
    last_ms: Millis
    count: int = 1
    #: The trigger in words.
    words: str
    #: What happened, of the last one.
    cause: str
    #: Of the data.
    version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sensed:
    """What the leader knows of one trigger."""

    key: str
    #: The times of a trigger grow: none up to here is new.
    cursor_ms: Millis
    #: Jobs whose end was heard within the last while.
    heard: tuple[WorkloadId, ...] = ()
    #: Falls that were heard.
    falls: int = 0
    fired: Fired | None = None
    #: As it was looked at last; None = never yet.
    version: str | None = None
    #: With which the last run started.
    used: str | None = None
    #: When it changed last.
    changed_ms: Millis | None = None
    #: When it was looked at last.
    checked_ms: Millis = Millis(0)
    #: When a look that goes on was asked after last.
    asked_ms: Millis = Millis(0)
    #: The look that goes on, by when it was begun.
    looking_ms: Millis | None = None
    #: Why the last look told nothing.
    problem: str = ""
