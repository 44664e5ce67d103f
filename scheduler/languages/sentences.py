"""What the scheduler composes, in the reader's language: a sentence is taken apart into its message and
its arguments, and made again from the message's translation.

It is said in English, and so it is stored, compared and logged, on all replicas and by older releases
beside. The messages stand in :mod:`~gpucommons.scheduler.languages.core_messages` and others beside it.
What none of them matches stays as it is, whole: half a sentence in each language helps nobody.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from gpucommons.scheduler.languages import (
    admin_messages,
    core_messages,
    plan_messages,
    training_messages,
)
from gpucommons.scheduler.languages.texts import ENGLISH, gettext, language, spoken

_MESSAGES = (core_messages, plan_messages, admin_messages, training_messages)
SENTENCES = tuple(one for messages in _MESSAGES for one in messages.SENTENCES)
PHRASES = tuple(one for messages in _MESSAGES for one in messages.PHRASES)
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
#: Where a sentence may end; what follows is tried as further ones.
_END = re.compile(r"(?<=\.) ")
#: Names that a reader with more rights gets to see at a sentence's end.
_NAMED = re.compile(r"(.+) (\([^()]+\))\.")
_KNOWN = 4096
#: By the last part of a placeholder's name: what may stand there, and whether it has words of its own.
_VALUES = {
    "number": r"[\d.,<⅛¼⅜½⅝¾⅞]+",
    "gpus": r"[\d.,⅛¼⅜½⅝¾⅞]+ GPUs?",
    "span": r"\d+ (?:s|min|h|d)",
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
    return text if not text or language() == ENGLISH else _known_words(language(), text)


def translated(text: str) -> str | None:
    """The same; None where it is not known in the reader's language."""
    return text if not text or language() == ENGLISH else _known(language(), text)


@lru_cache(_KNOWN)
def _known(name: str, text: str) -> str | None:
    with spoken(name):
        return _sentences(text)


@lru_cache(_KNOWN)
def _known_words(name: str, text: str) -> str:
    with spoken(name):
        return _one(text, PHRASES) or text


def _sentences(text: str) -> str | None:
    """One sentence or several, the longest that is known first."""
    for end in (len(text), *reversed([found.start() for found in _END.finditer(text)])):
        head = _one(text[:end], SENTENCES)
        if head is None:
            continue
        rest = text[end:].lstrip()
        after = _sentences(rest) if rest else ""
        if after is not None:
            return f"{head} {after}".rstrip()
    return None


def _one(text: str, messages: tuple[str, ...]) -> str | None:
    found = _filled(text, messages)
    if found is None and messages is SENTENCES and (named := _NAMED.fullmatch(text)):
        found = _filled(f"{named[1]}.", messages)
        return None if found is None else f"{found.removesuffix('.')} {named[2]}."
    return found


def _filled(text: str, messages: tuple[str, ...]) -> str | None:
    for message, pattern in _patterns(messages):
        found = pattern.fullmatch(text)
        if found is None:
            continue
        values = {name: _value(name, value) for name, value in found.groupdict().items()}
        if None not in values.values():
            return gettext(message, **values)
    return None


def _value(name: str, value: str) -> str | None:
    """An argument: a name or number as it is, words in the reader's language."""
    kind = name.rpartition("_")[2]
    if kind == "text":
        return _sentences(value)
    if kind == "number":
        # A space between thousands, as on all pages; the decimal sign as the catalogue writes one.
        return value.replace(",", "\N{NARROW NO-BREAK SPACE}").replace(".", gettext("1.5")[1])
    if kind == "list":
        return _list(value)
    return _phrase(value) if kind == "words" else value


def _list(value: str) -> str | None:
    """Phrases and names with commas between, and commas within some."""
    ends = [found.start() for found in re.finditer(", ", value)]
    for end in (len(value), *reversed(ends)):
        head = _phrase(value[:end]) or (value[:end] if _A_NAME.fullmatch(value[:end]) else None)
        after = None if head is None else _list(value[end + 2 :]) if end < len(value) else ""
        if head is not None and after is not None:
            return f"{head}, {after}" if after else head
    return None


def _phrase(value: str) -> str | None:
    return _one(value, PHRASES)


@cache
def _patterns(messages: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((message, _pattern(message)) for message in messages)


def _pattern(message: str) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(message)
    written = [
        re.escape(part.replace("%%", "%"))
        if number % 2 == 0
        else f"(?P<{part}>{_VALUES.get(part.rpartition('_')[2], _NAME)})"
        for number, part in enumerate(parts)
    ]
    return re.compile("".join(written))
