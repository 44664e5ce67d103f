"""Whether traces are asked for, by OpenTelemetry's own variables; there are none of ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpucommons.gpu.extras import MissingExtra, coming_with
from gpucommons.scheduler.loop.loop import Loop, Surroundings

if TYPE_CHECKING:
    from gpucommons.scheduler.tracing.tracing import Tracing

_LOG = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def exporters(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where spans are to go, by the names that OpenTelemetry has for it; none = tracing is off.

    The specification's default is ``otlp`` to this machine. Who runs no collector would get a complaint every
    few seconds, so an address, or an exporter's name, has to be given.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    named = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if not named and any(environ.get(one, "").strip() for one in _ENDPOINTS):
        named = "otlp"
    found = (one.strip() for one in named.split(","))
    return tuple(one for one in found if one and one.lower() != "none")


def open_tracing(environ: Mapping[str, str]) -> Tracing | None:
    """Tracing as the variables say; None where they ask for none, or it cannot be had.

    A scheduler without traces schedules: what is wrong is said in the log, and nothing else happens.
    """
    names = exporters(environ)
    if not names:
        return None
    try:
        with coming_with("otel"):
            # The SDK takes 0.2 s and 20 MB, which who wants no traces does not pay.
            from gpucommons.scheduler.tracing.provider import (  # noqa: PLC0415 - see above
                make_provider,
            )
            from gpucommons.scheduler.tracing.tracing import Tracing  # noqa: PLC0415 - see above

        return Tracing(make_provider(names, environ))
    except MissingExtra as error:
        _LOG.warning("No traces are made. %s", error)
    except Exception as error:  # noqa: BLE001 - whatever an exporter makes of its settings
        _LOG.warning("No traces are made: %s", error)
    return None


def traced(around: Surroundings, tracing: Tracing | None) -> Surroundings:
    """What a loop works with, told of by ``tracing``; unchanged where there is none."""
    if tracing is None:
        return around
    starts = tracing.starts
    return replace(
        around,
        advance=starts.deciding(around.advance),
        executors={name: starts.starting(one) for name, one in around.executors.items()},
    )


def follow(loop: Loop, tracing: Tracing | None) -> None:
    """Have ``tracing`` told what a loop commits that was made of what :func:`traced` returned."""
    if tracing is not None:
        starts = tracing.starts
        loop.subscribe(lambda: starts.committed(loop.cluster))
