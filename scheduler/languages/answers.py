"""Views in their reader's language, as JSON: what core and advisor say in them, and nothing else.

Fields are known by name, whichever view they are of. What a program printed comes in none of these.
"""

from __future__ import annotations

import json
from typing import Any

from gpucommons.scheduler.languages.chosen import chosen
from gpucommons.scheduler.languages.sentences import phrase, translated
from gpucommons.scheduler.languages.texts import ENGLISH, languages, spoken

#: Fields that hold a sentence, a few words, or a list of either.
_SAID = frozenset(
    {
        *("text", "unblock", "ways", "span", "note", "notes", "message"),
        *("declined", "plain_text", "why", "layout", "script"),
        *("memory_text", "wait_text", "wait_note", "on_idle_text"),
        # Of schedules, pipelines and sweeps.
        *("cause", "problem", "hindrance", "what", "drawn", "importance_text"),
    }
)


def reader_of(accepted: str) -> str:
    """The language of who sends this ``Accept-Language``."""
    return chosen("", accepted, languages())


def told_in(name: str, text: str) -> str:
    """A view's JSON, as whoever reads this language gets it."""
    if name == ENGLISH:
        return text
    with spoken(name):
        return json.dumps(_told(json.loads(text)), ensure_ascii=False)


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _words(one) if key in _SAID else _told(one) for key, one in value.items()}
    return [_told(one) for one in value] if isinstance(value, list) else value


def _words(value: Any) -> Any:
    if isinstance(value, str):
        return translated(value) or phrase(value)
    return [_words(one) for one in value] if isinstance(value, list) else _told(value)
