"""Curves of scripts that do not know us: read from what they print and from the files they write.

``metric_names`` knows how people call metrics, ``lines`` reads one line, ``log_curve`` makes points of the
lines of one attempt: all pure. ``event_watch`` reads TensorBoard's files below a working folder,
``event_process`` starts it where there is one, ``trainer_status`` understands what Transformers posts by itself, and
``following`` brings it all to the loop.
"""

from __future__ import annotations

from gpucommons.scheduler.curves.points import Counter, Point, Source, Unit

__all__ = ["Counter", "Point", "Source", "Unit"]
