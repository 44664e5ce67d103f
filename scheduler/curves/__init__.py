"""Curves of scripts that do not know us: read from what they print and from the files they write.

``words`` knows how people call metrics, ``lines`` reads one line, ``log_curve`` makes points of the
lines of one attempt: all pure. ``event_files`` reads TensorBoard's format, ``event_folder`` finds such
files below a working folder, ``trainer_status`` understands what Transformers posts by itself, and
``following`` brings it all to the loop.
"""

from __future__ import annotations

from gpucommons.scheduler.curves.points import Counter, Point, Source, Unit

__all__ = ["Counter", "Point", "Source", "Unit"]
