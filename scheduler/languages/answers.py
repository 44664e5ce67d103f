"""Views in their reader's language, as JSON: what core and advisor say in them, and nothing else.

A field is told by its name, in a view and in the views that a view holds. All else is as it was: a job's
request is submitted anew as it is shown, and variables, labels and parameters may be called ``note``. What
a program printed comes in none of these.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from gpucommons.scheduler.languages.chosen import chosen
from gpucommons.scheduler.languages.sentences import phrase, translated
from gpucommons.scheduler.languages.texts import ENGLISH, gettext, languages, spoken

log = logging.getLogger(__name__)

#: Fields that hold a sentence, a few words, or a list of either.
SAID = frozenset(
    {
        *("text", "unblock", "ways", "span", "note", "notes", "message"),
        *("declined", "plain_text", "why", "layout", "script"),
        *("memory_text", "wait_text", "wait_note", "on_idle_text"),
        # Of a stop: what it would cost, and how an attempt ended.
        *("stop_text", "drill_text", "ended_text"),
        # Of schedules, pipelines and sweeps.
        *("cause", "problem", "hindrance", "drawn", "importance_text"),
    }
)
#: Fields that hold a view in which something is said, or a list of such views. Never one that may also
#: hold what somebody asked for, or a mapping whose keys are somebody's.
VIEWS = frozenset(
    {
        # Of jobs, notebooks and what became of them.
        *("jobs", "attempts", "stop", "tightness", "drill", "results", "way_to_go_on", "marks"),
        *("reason", "blocker", "ways", "forecast", "events"),
        *("activities", "lease", "leases", "ticket", "idle", "kept", "ended", "offers", "sizes"),
        # Of plans and how right they were.
        *("advice", "plans", "plain", "why_not", "hints", "proposal", "anew", "lines"),
        *("clocks", "grades", "share", "speed", "wait"),
        # Of schedules, pipelines and sweeps.
        *(
            "schedules",
            "runs",
            "promoted",
            "triggers",
            "pipelines",
            "steps",
            "sweeps",
            "best",
            "trials",
        ),
        # Of the cluster.
        *("budgets", "nodes", "devices", "unhealthy"),
    }
)
#: The field ``what`` is a command with a size before it, but in these: there it names a number.
FIGURES = frozenset({"lines", "clocks"})
#: Before a command of a job without GPUs.
_NO_GPU = "CPU only: "
#: What goes wrong where a catalogue lacks a value, or a view is deeper than any of ours.
_TROUBLES = (LookupError, RecursionError, TypeError, ValueError)


def reader_of(accepted: str) -> str:
    """The language of who sends this ``Accept-Language``."""
    return chosen("", accepted, languages())


def told_in(name: str, text: str) -> str:
    """A view's JSON, as whoever reads this language gets it: in English where that cannot be done."""
    if name == ENGLISH:
        return text
    try:
        with spoken(name):
            return json.dumps(_message(json.loads(text)), ensure_ascii=False)
    except _TROUBLES:
        log.exception("an answer stays in English: it could not be told in %s", name)
        return text


def _message(value: Any) -> Any:
    told = _views("", value)
    # On a tab's socket the job that it follows; elsewhere what a schedule or profile runs.
    if isinstance(told, dict) and told.get("type") == "job":
        told["job"] = _views("job", told.get("job"))
    return told


def _views(held_as: str, value: Any) -> Any:
    """A view, or a list of them, by the field that holds it."""
    if isinstance(value, list):
        return [_views(held_as, one) for one in value]
    if isinstance(value, dict):
        return {key: _field(held_as, key, one) for key, one in value.items()}
    return _words(value) if held_as in SAID else value


def _field(held_as: str, key: str, value: Any) -> Any:
    if key == "what":
        return _words(value) if held_as in FIGURES else _sized(held_as, value)
    if key in VIEWS:
        return _views(key, value)
    return _words(value) if key in SAID else value


def _words(value: Any) -> Any:
    if isinstance(value, str):
        return translated(value) or phrase(value)
    return [_words(one) for one in value] if isinstance(value, list) else value


def _sized(held_as: str, value: Any) -> Any:
    """A command is somebody's, word for word; before one that is looked at there is nothing of ours."""
    if held_as == "triggers" or not isinstance(value, str) or not value.startswith(_NO_GPU):
        return value
    command = value.removeprefix(_NO_GPU)
    return gettext("CPU only: %(command_rest)s", command_rest=command)
