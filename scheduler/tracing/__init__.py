"""Where the seconds of a start went, as OpenTelemetry traces.

Nothing here but :mod:`.switch` is imported unless OpenTelemetry's own variables ask for traces. Spans are
made at the edges, after the fact, from times that are on record; the core knows nothing of them.
"""
