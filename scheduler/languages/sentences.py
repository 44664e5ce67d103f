"""What the scheduler composes, in the reader's language: a sentence is taken apart into its message and
its arguments, and made again from the message's translation.

It is said in English, and so it is stored, compared and logged, on all replicas and by older releases
beside. The messages stand in :mod:`~gpucommons.scheduler.languages.core_messages` and others beside it.
What none of them matches stays as it is, whole: half a sentence in each language helps nobody.

Names of users, their paths and what their programs print stand in such texts: one may be made to be hard
to take apart. What is long, deep, or takes many tries stays in English too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

from gpucommons.scheduler.languages import (
    admin_messages,
    core_messages,
    plan_messages,
    stopping_messages,
    training_messages,
)
from gpucommons.scheduler.languages.texts import ENGLISH, gettext, language, spoken

_MESSAGES = (core_messages, plan_messages, admin_messages, training_messages, stopping_messages)
SENTENCES = tuple(one for messages in _MESSAGES for one in messages.SENTENCES)
PHRASES = tuple(one for messages in _MESSAGES for one in messages.PHRASES)
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
#: Where a sentence may end; what follows is tried as further ones.
_END = re.compile(r"(?<=\.) ")
#: Names that a reader with more rights gets to see at a sentence's end.
_NAMED = re.compile(r"(.+) (\([^()]+\))\.")
_KNOWN = 4096
#: Characters of a text, messages within messages, and parts of it that are held against all messages.
MOST_CHARACTERS, _MOST_DEEP, MOST_TRIES = 1000, 12, 300
#: By the last part of a placeholder's name: what may stand there, and whether it has words of its own.
_VALUES = {
    "number": r"[\d.,<⅛¼⅜½⅝¾⅞]+",
    "gpus": r"[\d.,⅛¼⅜½⅝¾⅞]+ GPUs?",
    "span": r"\d+ (?:s|min|h|d)",
    "size": r"[\d.]+ (?:KiB|MiB|GiB)",
    "speed": r"[\d.,–e+-]+(?: k)? (?:tokens/s|samples/s|GB/s)",
    "names": r"[^;:()]+?",
    "text": r".+?",
    "words": r".+?",
    "list": r".+?",
    "rest": r".+?",
}
_NAME = r"[^\s,;:]+?"
_A_NAME = re.compile(_NAME)


def sentence(text: str) -> str:
    """What was said, in the reader's language; as it is where that is not known."""
    return translated(text) or text


def phrase(text: str) -> str:
    """The same of a few words that are no sentence."""
    return _known_words(language(), text) if _is_to_be_told(text) else text


def translated(text: str) -> str | None:
    """The same; None where it is not known in the reader's language."""
    if not text or language() == ENGLISH:
        return text
    return _known(language(), text) if _is_to_be_told(text) else None


def _is_to_be_told(text: str) -> bool:
    return 0 < len(text) <= MOST_CHARACTERS and language() != ENGLISH


@lru_cache(_KNOWN)
def _known(name: str, text: str) -> str | None:
    with spoken(name):
        return Reading().of_sentences(text)


@lru_cache(_KNOWN)
def _known_words(name: str, text: str) -> str:
    with spoken(name):
        return Reading().of_phrase(text) or text


class _GivenUpError(Exception):
    """It is too much to take apart."""


class Reading:
    """One text that is taken apart: no part is tried twice, and it ends after so many tries."""

    def __init__(self) -> None:
        self.tries = 0
        self._deep = 0
        self._said: dict[tuple[bool, str], str | None] = {}

    def of_sentences(self, text: str) -> str | None:
        """None where one of them is not known."""
        return self._unless_given_up(self._sentences, text)

    def of_phrase(self, text: str) -> str | None:
        """None where it is not known."""
        return self._unless_given_up(self._phrase, text)

    @staticmethod
    def _unless_given_up(said: Callable[[str], str | None], text: str) -> str | None:
        try:
            return said(text)
        except _GivenUpError:
            return None

    def _sentences(self, text: str) -> str | None:
        """One sentence or several, the longest that is known first."""

        def heads(start: int) -> Iterator[tuple[str | None, int]]:
            for end in (len(text), *reversed([gap for gap in gaps if gap > start])):
                yield self._one(text[start:end], SENTENCES), _beyond_blanks(text, end)

        gaps = [found.start() for found in _END.finditer(text)]
        said = _joined(heads, len(text))
        return None if said is None else " ".join(said)

    def _list(self, value: str) -> str | None:
        """Phrases and names with commas between, and commas within some."""

        def heads(start: int) -> Iterator[tuple[str | None, int]]:
            for end in (len(value), *reversed([comma for comma in commas if comma > start])):
                head = value[start:end]
                name = head if _A_NAME.fullmatch(head) else None
                yield self._phrase(head) or name, min(end + 2, len(value))

        commas = [found.start() for found in re.finditer(", ", value)]
        said = None if value.endswith(", ") else _joined(heads, len(value))
        return None if said is None else ", ".join(said)

    def _phrase(self, value: str) -> str | None:
        return self._one(value, PHRASES)

    def _one(self, text: str, messages: tuple[str, ...]) -> str | None:
        key = (messages is SENTENCES, text)
        if key not in self._said:
            self._said[key] = self._tried(text, messages)
        return self._said[key]

    def _tried(self, text: str, messages: tuple[str, ...]) -> str | None:
        if self.tries >= MOST_TRIES or self._deep >= _MOST_DEEP:
            raise _GivenUpError
        self.tries += 1
        self._deep += 1
        found = self._filled(text, messages)
        if found is None and messages is SENTENCES and (named := _NAMED.fullmatch(text)):
            found = self._filled(f"{named[1]}.", messages)
            found = None if found is None else f"{found.removesuffix('.')} {named[2]}."
        self._deep -= 1
        return found

    def _filled(self, text: str, messages: tuple[str, ...]) -> str | None:
        for message, pattern in _patterns(messages):
            found = pattern.fullmatch(text)
            if found is None:
                continue
            values = {name: self._value(name, value) for name, value in found.groupdict().items()}
            if None not in values.values():
                return gettext(message, **values)
        return None

    def _value(self, name: str, value: str) -> str | None:
        """An argument: a name or number as it is, words in the reader's language."""
        kind = name.rpartition("_")[2]
        if kind == "text":
            return self._sentences(value)
        if kind == "number":
            # A space between thousands, as on all pages; the decimal sign as the catalogue writes one.
            spaced = value.replace(",", "\N{NARROW NO-BREAK SPACE}")
            return spaced.replace(".", gettext("1.5")[1])
        if kind == "size":
            return value.replace(".", gettext("1.5")[1])
        if kind == "list":
            return self._list(value)
        return self._phrase(value) if kind == "words" else value


def _joined(
    heads: Callable[[int], Iterator[tuple[str | None, int]]], length: int
) -> list[str] | None:
    """What is said of each part up to the end, by what may stand at a place and where it leads.

    Without recursion, as there may be many parts; a place that led nowhere is not looked at again.
    """
    said: list[str] = []
    dead: set[int] = set()
    path = [(0, heads(0))]
    while path:
        start, ahead = path[-1]
        for head, after in ahead:
            if head is None or after in dead:
                continue
            said.append(head)
            if after >= length:
                return said
            path.append((after, heads(after)))
            break
        else:
            dead.add(start)
            path.pop()
            if said:
                said.pop()
    return None


def _beyond_blanks(text: str, end: int) -> int:
    return len(text) - len(text[end:].lstrip())


@cache
def _patterns(messages: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Those without arguments first: “It failed.” is itself, and no cause that is called “It”."""
    ordered = sorted(messages, key=lambda message: bool(_PLACEHOLDER.search(message)))
    return tuple((message, _pattern(message)) for message in ordered)


def _pattern(message: str) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(message)
    written = [
        re.escape(part.replace("%%", "%"))
        if number % 2 == 0
        else f"(?P<{part}>{_VALUES.get(part.rpartition('_')[2], _NAME)})"
        for number, part in enumerate(parts)
    ]
    return re.compile("".join(written))
