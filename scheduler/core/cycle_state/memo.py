"""What a cycle has worked out and keeps for the next question, and the facts that each of it rests on.

Many workloads of one cycle ask for the same, so answers are kept: sums, candidates, searches that found
nothing. An answer is right only as long as what it was made of stays as it is. Each kind of answer is
declared once, as an :class:`Entry` that names its facts; when one of them changes, its answers are
dropped, and no others. So nobody has to remember to drop them, and a cycle that keeps nothing decides
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from enum import Enum, auto
from typing import Any, Generic, TypeVar

State = TypeVar("State")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Fact(Enum):
    """What an answer may rest on; how each is recognised says :mod:`.cycle_state`."""

    #: The devices and nodes that the cycle decides about, and the rules for them.
    REFRESHED = auto()
    #: Any workload.
    WORKLOADS = auto()
    #: Who was promised which devices.
    PROMISES = auto()
    #: Which notebooks are being stopped.
    ENDING_NOTEBOOKS = auto()
    #: Who left the line after others had been stopped for it.
    WITHDRAWALS = auto()
    #: Who borrows, and what.
    BORROWERS = auto()
    #: Anything on any node.
    CAPACITY = auto()
    #: Something may be had that could not: a hold, a promise or a reservation went, or blocks moved.
    FREED = auto()
    #: What is held back from borrowers.
    HELD_FROM_BORROWERS = auto()
    #: Where fixed quota lies.
    BLOCKS = auto()
    #: What was given up and is not lent yet.
    RELEASED = auto()
    #: For which teams a place is kept until they have their fair share.
    FAIR_SHARE_CLAIMS = auto()


class Entry(Generic[Key, Value]):
    """One kind of answer: what it is asked by, what it is, and what it rests on.

    An answer that keeps itself in step with a fact does not name it.
    """

    __slots__ = ("facts", "name")

    def __init__(self, name: str, *facts: Fact) -> None:
        """``name`` is for people."""
        self.name = name
        self.facts = facts

    def __repr__(self) -> str:
        return f"Entry({self.name!r}, {', '.join(map(str, self.facts))})"


class _Answers:
    """Answers of one kind, and how the facts stood when they were found."""

    __slots__ = ("by_key", "only", "reads", "stood")

    def __init__(self, reads: tuple[Callable[[Any], object], ...]) -> None:
        self.reads = reads
        #: Most rest on one fact; they are asked several times for each decision.
        self.only = reads[0] if len(reads) == 1 else None
        self.stood: object = None
        self.by_key: dict[Hashable, Any] = {}


class Memo(Generic[State]):
    """The answers of one cycle."""

    __slots__ = ("_answers", "_reads", "_state")

    def __init__(self, state: State, reads: Mapping[Fact, Callable[[State], object]]) -> None:
        """``reads``: for each fact something that is equal as long as the fact has not changed."""
        self._state = state
        self._reads = reads
        self._answers: dict[Entry[Any, Any], _Answers] = {}

    def get(self, entry: Entry[Key, Value], key: Key) -> Value | None:
        """What was found before, if all that it rests on is as it was then."""
        found: Value | None = self._of(entry).by_key.get(key)
        return found

    def keep(self, entry: Entry[Key, Value], key: Key, value: Value) -> Value:
        """Keep an answer for as long as nothing that it rests on changes."""
        self._of(entry).by_key[key] = value
        return value

    def remember(self, entry: Entry[Key, Value], key: Key, work_out: Callable[[], Value]) -> Value:
        """What was found before, or what is worked out now."""
        found = self.get(entry, key)
        return self.keep(entry, key, work_out()) if found is None else found

    def _of(self, entry: Entry[Any, Any]) -> _Answers:
        answers = self._answers.get(entry)
        if answers is None:
            reads = tuple(self._reads[fact] for fact in entry.facts)
            answers = self._answers[entry] = _Answers(reads)
        state, only = self._state, answers.only
        stand = [read(state) for read in answers.reads] if only is None else only(state)
        if stand != answers.stood:
            answers.stood = stand
            answers.by_key.clear()
        return answers

    def forget(self) -> None:
        """Let go of everything: what is kept knows the cycle, which could not go either."""
        self._answers.clear()
