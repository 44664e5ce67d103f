"""Where the seconds of a start went, as OpenTelemetry traces (the extra ``otel``).

Nothing here is imported unless OpenTelemetry's own variables ask for traces: see :mod:`.switch`. Spans are
made at the edges, after the fact, from times that are on record; the core knows nothing of them.
"""
