"""Amounts, places, ages and names as people read them: one wording for every page."""

from __future__ import annotations

from datetime import UTC, datetime

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler import amount_words
from gpucommons.scheduler.forecast.words import span
from gpucommons.scheduler.languages.sentences import phrase, sentence
from gpucommons.scheduler.languages.texts import (
    ENGLISH,
    gettext,
    gettext_noop,
    language,
)
from gpucommons.scheduler.models import ForecastView
from gpucommons.scheduler.models.text import report_rows
from gpucommons.scheduler.models.text.number_words import decimal
from gpucommons.scheduler.models.text.place_words import ordinal, place
from gpucommons.scheduler.models.text.state_words import held_words, state_words

__all__ = [
    "about",
    "amount",
    "asked",
    "clock",
    "column",
    "dated",
    "duration",
    "gpu_hours",
    "gpu_minutes",
    "gpus",
    "held",
    "hours",
    "iso",
    "left",
    "likely",
    "likely_note",
    "memory",
    "ordinal",
    "person",
    "place",
    "reason_class",
    "state",
]

#: As ISO 80000 has it, and never at the end of a line.
THIN_SPACE = "\u202f"
_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

#: Reason classes in plain words.
_REASONS = {
    "share": gettext_noop("too few free"),
    "limit": gettext_noop("limit"),
    "kind": gettext_noop("kind"),
    "fragmentation": gettext_noop("fragmentation"),
    "gang": gettext_noop("gang"),
    "policy": gettext_noop("policy"),
    "dependency": gettext_noop("waits for another job"),
    "misconfigured": gettext_noop("misconfigured"),
    "draining": gettext_noop("next: being cleared"),
    "backoff": gettext_noop("back-off"),
    "paused": gettext_noop("paused"),
    "nodes": gettext_noop("nodes take nothing new"),
    "price": gettext_noop("too dear now"),
    "never": gettext_noop("more than its quota"),
}


def gpus(milli_gpu: int) -> str:
    """``½ GPU``, ``1 GPU``, ``4 GPUs``; ``no GPU`` for nothing."""
    if milli_gpu == 0:
        return gettext("no GPU")
    return format_gpus(milli_gpu)


def asked(milli_gpu: int, kind: str | None) -> str:
    """``½ of an A100-40``, ``2 × A100-40``; without a known kind ``½ GPU``."""
    if not kind:
        return gpus(milli_gpu)
    if milli_gpu < WHOLE_MILLI_GPU:
        share = format_milli_gpu(milli_gpu)
        if kind[0] in "AEFHILMNORSXaeio8":
            return gettext("%(share)s of an %(kind)s", share=share, kind=kind)
        return gettext("%(share)s of a %(kind)s", share=share, kind=kind)
    return f"{format_milli_gpu(milli_gpu)} × {kind}"


def memory(memory_mib: int) -> str:
    """``19.4 GiB``."""
    return f"{decimal(f'{memory_mib / 1024:.1f}')} GiB"


def duration(span_ms: int) -> str:
    """A span, rounded down to what matters: ``40 s``, ``18 min``, ``2 h 5 min``, ``3 d``."""
    span = max(0, span_ms)
    if span < _MINUTE:
        return f"{span // _SECOND} s"
    if span < _HOUR:
        return f"{span // _MINUTE} min"
    if span < 2 * _DAY:
        hours, minutes = span // _HOUR, span % _HOUR // _MINUTE
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{span // _DAY} d"


def left(span_ms: int) -> str:
    """How long still: rounded up, as a promise of ten minutes must not read as nine at once."""
    span = max(0, span_ms)
    return duration(span + _MINUTE - 1 if span > _MINUTE else span + _SECOND - 1)


def about(span_ms: int) -> str:
    """``about 18 min``: the culler looks once a minute, so idleness is known no better than that."""
    return gettext("about %(span)s", span=duration(span_ms))


def person(name: str) -> str:
    """A name, or words where policy hides it."""
    return name or gettext("someone")


def state(name: str) -> str:
    """A state of a job or a notebook in one word."""
    return gettext(state_words(name))


def held(shown_as: str) -> str:
    """What a part of a GPU is held for."""
    return gettext(held_words(shown_as))


def amount(value: float, form: str) -> str:
    """A number with the decimal sign of the language; a space is between thousands where that is a comma."""
    return _in_this_language(format(value, form))


def hours(value: float) -> str:
    """GPU-hours of a month, by the rule of sentences and commands."""
    return _in_this_language(amount_words.hours(value))


def _in_this_language(number: str) -> str:
    return number if language() == ENGLISH else decimal(number.replace(",", THIN_SPACE))


def column(name: str) -> str:
    """The head of a report's column, which may name a currency: ``Cost, EUR``."""
    what, comma, unit = name.partition(",")
    return gettext(what) + comma + unit


def reason_class(code: str) -> str:
    """A reason class as it stands in a table; an unknown one is shown as it is."""
    return gettext(_REASONS.get(code, code))


def gpu_hours(milli_gpu_h: int) -> str:
    """GPU·hours to the thousandth, as rows that add up have them."""
    return decimal(report_rows.gpu_hours(milli_gpu_h))


def gpu_minutes(milli_gpu_s: int) -> str:
    """GPU·minutes with one decimal; what is less than the smallest of them is not nothing."""
    minutes = f"{milli_gpu_s / WHOLE_MILLI_GPU / 60:.1f}"
    return decimal("< 0.1" if milli_gpu_s and minutes == "0.0" else minutes)


def likely(forecast: ForecastView | None) -> str:
    """A window for a table: ``10–25 min``; empty before anything was worked out."""
    if forecast is None:
        return ""
    if forecast.from_ms is None or forecast.to_ms is None:
        return gettext("unknown")
    return phrase(forecast.span) or span(forecast.from_ms, forecast.to_ms)


def likely_note(forecast: ForecastView | None) -> str:
    """What stands below the window: ``right 8 of 10``, how little it rests on, or why there is none."""
    if forecast is None:
        return ""
    if forecast.to_ms is None:
        return sentence(forecast.text.removeprefix("Likely start unknown: "))
    if forecast.basis != "known":
        return phrase(forecast.note)
    right = forecast.right_of_ten
    return "" if right is None else gettext("right %(right)s of 10", right=right)


def iso(at_ms: int) -> str:
    """A machine-readable time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def dated(at_ms: int) -> str:
    """A time of a day that may be long ago, as :func:`clock`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def clock(at_ms: int) -> str:
    """A time of day for readers without scripts; scripts replace it by local time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M UTC")
