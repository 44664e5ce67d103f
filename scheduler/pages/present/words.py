"""Amounts, places, ages and names as people read them: one wording for every page."""

from __future__ import annotations

from datetime import UTC, datetime

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.forecast.words import span
from gpucommons.scheduler.models import ForecastView
from gpucommons.scheduler.models.text.report_rows import gpu_hours

__all__ = [
    "about",
    "asked",
    "clock",
    "counted",
    "dated",
    "duration",
    "gpu_hours",
    "gpu_minutes",
    "gpus",
    "iso",
    "left",
    "likely",
    "likely_note",
    "memory",
    "person",
    "reason_class",
]

_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

#: Reason classes in plain words.
_REASONS = {
    "share": "too few free",
    "limit": "limit",
    "kind": "kind",
    "fragmentation": "fragmentation",
    "gang": "gang",
    "policy": "policy",
    "dependency": "waits for another job",
    "misconfigured": "misconfigured",
    "draining": "next: being cleared",
    "backoff": "back-off",
    "paused": "paused",
    "nodes": "nodes take nothing new",
    "price": "too dear now",
    "never": "more than its quota",
}


def gpus(milli_gpu: int) -> str:
    """``½ GPU``, ``1 GPU``, ``4 GPUs``; ``no GPU`` for nothing."""
    if milli_gpu == 0:
        return "no GPU"
    return format_gpus(milli_gpu)


def asked(milli_gpu: int, kind: str | None) -> str:
    """``½ of an A100-40``, ``2 × A100-40``; without a known kind ``½ GPU``."""
    if not kind:
        return gpus(milli_gpu)
    if milli_gpu < WHOLE_MILLI_GPU:
        article = "an" if kind[0] in "AEFHILMNORSXaeio8" else "a"
        return f"{format_milli_gpu(milli_gpu)} of {article} {kind}"
    return f"{format_milli_gpu(milli_gpu)} × {kind}"


def memory(memory_mib: int) -> str:
    """``19.4 GiB``."""
    return f"{memory_mib / 1024:.1f} GiB"


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
    return f"about {duration(span_ms)}"


def person(name: str) -> str:
    """A name, or words where policy hides it."""
    return name or "someone"


def counted(number: int, noun: str) -> str:
    """``1 job``, ``3 jobs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def reason_class(code: str) -> str:
    """A reason class as it stands in a table; an unknown one is shown as it is."""
    return _REASONS.get(code, code)


def gpu_minutes(milli_gpu_s: int) -> str:
    """GPU·minutes with one decimal; what is less than the smallest of them is not nothing."""
    minutes = f"{milli_gpu_s / WHOLE_MILLI_GPU / 60:.1f}"
    return "< 0.1" if milli_gpu_s and minutes == "0.0" else minutes


def likely(forecast: ForecastView | None) -> str:
    """A window for a table: ``10–25 min``; empty before anything was worked out."""
    if forecast is None:
        return ""
    if forecast.from_ms is None or forecast.to_ms is None:
        return "unknown"
    return forecast.span or span(forecast.from_ms, forecast.to_ms)


def likely_note(forecast: ForecastView | None) -> str:
    """What stands below the window: ``right 8 of 10``, how little it rests on, or why there is none."""
    if forecast is None:
        return ""
    if forecast.to_ms is None:
        return forecast.text.removeprefix("Likely start unknown: ")
    if forecast.basis != "known":
        return forecast.note
    return "" if forecast.right_of_ten is None else f"right {forecast.right_of_ten} of 10"


def iso(at_ms: int) -> str:
    """A machine-readable time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def dated(at_ms: int) -> str:
    """A time of a day that may be long ago, as :func:`clock`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def clock(at_ms: int) -> str:
    """A time of day for readers without scripts; scripts replace it by local time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M UTC")
